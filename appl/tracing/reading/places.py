"""The places of the records in a file: which one defines each number, and which speak of each call.

Invariant: a place is the number of a block and that of a record in it, as one integer, so places
grow through the file; what is kept is a few bytes for each record, and the addresses of scopes and
calls.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any, Generic, TypeVar

from appl.tracing.format import codec, table
from appl.tracing.format.block import MAGIC
from appl.tracing.format.store import TraceScan

T = TypeVar("T")

WITHIN = 24
"""Bits for the number of a record in its block, which holds 16 MiB at most."""
FAR = 1 << 62
"""A place after all others, and more than a number may be."""
_KEPT = 8 << 20  # bytes that a cache begins with
_AGAIN = 4  # how often all may be read again before a cache grows
_SEVERAL = -2
_NUMBERED: tuple[table.Kind, ...] = (
    table.FileRecord,
    table.LineRecord,
    table.ScopeRecord,
    table.PieceRecord,
    table.MediumRecord,
    table.MessageRecord,
    table.LongerRecord,
    table.PromptRecord,
    table.ParametersRecord,
    table.StartRecord,
)


class Numbers:
    """The records of one kind that define numbers, in the order of the file.

    The numbers of a process grow, so they are looked up by bisection. Those of a forged file that
    do not are kept aside; ``unique`` is false where a number was given twice.
    """

    def __init__(self) -> None:
        self.unique = True
        self._numbers, self._places = array("q"), array("q")
        self._odd: dict[int, list[int]] = {}
        self._last = -1

    def begin(self) -> None:
        """A process begins to write, which counts anew."""
        self._last = -1

    def add(self, number: Any, place: int) -> None:
        """Note that the record at *place* defines *number*. Raises ``TypeError``."""
        if type(number) is not int:
            raise TypeError(f"expected a number, found {type(number).__name__}")
        if number <= self._last:
            self.unique = False
        if self._last <= number < FAR:
            self._numbers.append(number)
            self._places.append(place)
            self._last = number
        else:
            self._odd.setdefault(number, []).append(place)

    def all(self, number: int, since: int, before: int) -> list[int]:
        """The places from *since* on, and *before* another one, that define *number*."""
        low, high = self._range(since, before)
        first = bisect_left(self._numbers, number, low, high)
        found = list(self._places[first : bisect_right(self._numbers, number, first, high)])
        odd = [place for place in self._odd.get(number, ()) if since <= place < before]
        return sorted(found + odd) if odd else found

    def last(self, number: int, since: int, before: int) -> int:
        """The last of ``all``, or -1."""
        low, high = self._range(since, before)
        at = bisect_right(self._numbers, number, low, high) - 1
        found = self._places[at] if at >= low and self._numbers[at] == number else -1
        if number in self._odd:
            odd = self._odd[number]
            at = bisect_left(odd, before) - 1
            if at >= 0 and odd[at] >= since:
                found = max(found, odd[at])
        return found

    def _range(self, since: int, before: int) -> tuple[int, int]:
        return bisect_left(self._places, since) if since else 0, bisect_left(self._places, before)


class Entries:
    """Calls, or tool calls, in the order in which they began, and the records that speak of each.

    ``now`` has the last one at each address, ``again`` those that were begun again later.
    """

    def __init__(self) -> None:
        self.addresses: list[str] = []
        self.now: dict[str, int] = {}
        self.again, self._begun, self._ended = array("q"), array("q"), array("q")
        self._first, self._latest = array("q"), array("q")
        self._place, self._count, self._next = array("q"), array("q"), array("q")

    def begin(self, address: str, place: int) -> int:
        """A new one, whose first record is at *place*."""
        before = self.now.pop(address, None)
        if before is not None:
            self.again.append(before)
        entry = self.now[address] = len(self.addresses)
        self.addresses.append(address)
        self._begun.append(place)
        for column in (self._ended, self._first, self._latest):
            column.append(-1)
        return entry

    def speak(self, entry: int, place: int, count: int) -> None:
        """Note a record that speaks of *entry*; *count* is its number among those of its sort."""
        at, latest = len(self._place), self._latest[entry]
        if latest < 0:
            self._first[entry] = at
        else:
            self._next[latest] = at
        self._latest[entry] = at
        self._place.append(place)
        self._count.append(count)
        self._next.append(-1)

    def end(self, entry: int, place: int) -> None:
        """Note that *entry* ends at *place*."""
        self._ended[entry] = place if self._ended[entry] == -1 else _SEVERAL

    def records(self, entry: int) -> Iterator[tuple[int, int]]:
        """The places of the records that speak of *entry*, and their numbers."""
        at = self._first[entry]
        while at >= 0:
            yield self._place[at], self._count[at]
            at = self._next[at]

    def begun_at(self, place: int) -> int:
        """The one whose first record is at *place*."""
        return bisect_left(self._begun, place)

    def ended_at(self, entry: int) -> int:
        """The place where *entry* ends, or -1. Raises ``ValueError`` if it ends several times."""
        if self._ended[entry] == _SEVERAL:
            raise ValueError(f"{self.addresses[entry]} ends several times")
        return self._ended[entry]


class Places:
    """The places of all records of a file that somebody may ask for.

    ``of`` are those that define numbers, by tag. ``close`` is that of the record that ends the run,
    or -1; ``seen`` has the number of each observation among the deliveries.
    """

    def __init__(self) -> None:
        self.of = {table.tag_of(kind): Numbers() for kind in _NUMBERED}
        self.calls, self.tools = Entries(), Entries()
        self.scopes, self.observations, self.warnings = array("q"), array("q"), array("q")
        self.seen, self.close = array("q"), -1
        self._addresses: list[str] = []
        self._processes = array("q")

    def process(self, place: int) -> None:
        """Note that a process begins to write at *place*."""
        self._processes.append(place)
        self.close = -1
        for numbers in self.of.values():
            numbers.begin()

    def scope(self, address: str, place: int) -> None:
        """Note a scope and its address."""
        self.scopes.append(place)
        self._addresses.append(address)

    def scope_address(self, place: int) -> str:
        """The address of the scope at *place*."""
        return self._addresses[bisect_left(self.scopes, place)]

    def process_around(self, place: int) -> tuple[int, int]:
        """The places where the process of the record at *place*, and the next one, began."""
        after = bisect_right(self._processes, place)
        since = self._processes[after - 1] if after else 0
        return since, self._processes[after] if after < len(self._processes) else FAR

    def incarnation(self, place: int) -> int:
        """The number of the process whose record stands at *place*."""
        return max(bisect_right(self._processes, place) - 1, 0)


class RecentlyRead(Generic[T]):
    """The values that were read last, as many as fit into a number of bytes.

    When the *whole* file could have been read several times, that number grows, up to *limit*: what
    is read again and again is then kept.
    """

    def __init__(self) -> None:
        self.most = self.limit = _KEPT
        self.whole = FAR
        self._size = self._read = 0
        self._order = deque[tuple[dict[int, T], int, T, int]]()

    def set_limit(self, whole: int, limit: int) -> None:
        """Say how many bytes the whole file takes, and how many may be kept."""
        self.whole, self.limit = whole, max(limit, _KEPT)

    def put(self, into: dict[int, T], key: int, value: T, size: int) -> None:
        """Keep *value*, which takes *size* bytes, and let go of older ones."""
        into[key] = value
        self._order.append((into, key, value, size))
        self._size += size
        self._read += size
        if self._read > _AGAIN * self.whole and self.most < self.limit:
            self.most, self._read = min(2 * self.most, self.limit), 0
        while self._size > self.most and len(self._order) > 1:
            held, old, gone, freed = self._order.popleft()
            self._size -= freed
            if held.get(old) is gone:
                del held[old]


class StoredBlocks:
    """The blocks of a file that was scanned, which are read again where they are wanted."""

    def __init__(self, scan: TraceScan) -> None:
        self._scan, self._ends, self._checksums = scan, array("q", [len(MAGIC)]), array("L", [0])
        self.recent = RecentlyRead[tuple[bytes, Sequence[int]]]()
        self._known: dict[int, tuple[bytes, Sequence[int]]] = {}

    def add(self) -> int:
        """Note the block that the scan has found; its number."""
        end, checksum = self._scan.position
        self._ends.append(end)
        self._checksums.append(checksum)
        return len(self._ends) - 2

    def record(self, place: int) -> bytes:
        """The record at *place*, as it is stored. Raises ``TraceCorrupt``."""
        number, at = place >> WITHIN, place & ((1 << WITHIN) - 1)
        known = self._known.get(number)
        if known is None:
            raw = self._scan.block_again(
                number, self._ends[number], self._checksums[number], self._ends[number + 1]
            )
            known = raw, codec.bounds(raw)
            self.recent.put(self._known, number, known, len(raw) + 4 * len(known[1]))
        raw, bounds = known
        return raw[bounds[at] : bounds[at + 1]]
