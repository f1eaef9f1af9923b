"""The records of a file that was scanned, which are read again where somebody asks for them.

Invariant: a place is the number of a block and that of a record in it, as one integer, so places
grow through the file. What is kept is a few bytes for each record, and what was read last.
"""

from __future__ import annotations

import contextlib
import io
import os
import threading
import weakref
from array import array
from bisect import bisect_left
from collections import deque
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from appl.errors import TraceCorrupt, TraceError
from appl.tracing.format import block, codec
from appl.tracing.format.allowance import RECORD, DecodingAllowance
from appl.tracing.format.record import checked
from appl.tracing.format.table import MASKED, SEALED, as_record
from appl.tracing.format.trace_scan import TraceScan

if TYPE_CHECKING:
    from appl.tracing.format.sealing import Sealer

T = TypeVar("T")

WITHIN = 24
"""Bits for the number of a record in its block, which holds 16 MiB at most."""
_CACHE_BYTES = 8 << 20  # bytes that a cache begins with
_MOST_REREADS = 4  # how often all may be read again before a cache grows
BAD = (ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError, RecursionError)
"""The errors of reading a record that is not valid."""


class Places:
    """The places of the records of one kind in one process, by their numbers, which grow."""

    def __init__(self) -> None:
        self._numbers, self._places = array("q"), array("q")
        self._late: dict[int, int] = {}

    def add(self, number: object, place: int) -> None:
        """Note the record of *number*. Raises ``ValueError`` if there is one already."""
        checked_number = checked(int, number)
        if not self._numbers or checked_number > self._numbers[-1]:
            self._numbers.append(checked_number)
            self._places.append(place)
        elif checked_number in self:
            raise ValueError(f"the number {checked_number} is given twice")
        else:
            self._late[checked_number] = place

    def get(self, number: Any) -> int | None:
        """The place of the record of *number*, if there is one."""
        at = bisect_left(self._numbers, number)
        if at < len(self._numbers) and self._numbers[at] == number:
            return self._places[at]
        return self._late.get(number)

    def before(self, place: int, number: Any) -> int:
        """The place of the record of *number*, which stands before *place*. Raises ``KeyError``."""
        place_before = self.get(number)
        if place_before is None or place_before >= place:
            raise KeyError(number)
        return place_before

    def __contains__(self, number: object) -> bool:
        return self.get(number) is not None


class RecentlyRead(Generic[T]):
    """The values that were read last, by their places, as many as fit into a number of bytes.

    When as much was read again as the whole file several times, that number grows, up to *limit*:
    what is read again and again is then kept.
    """

    def __init__(self) -> None:
        self._most = self._limit = _CACHE_BYTES
        self._whole = 1 << 62
        self._size = self._read = 0
        self._values: dict[int, T] = {}
        self._order = deque[tuple[int, int]]()
        self.get = self._values.get

    def set_limit(self, whole: int, limit: int) -> None:
        """Say how many bytes the whole run takes, and how many may be kept."""
        self._whole, self._limit = whole, max(limit, _CACHE_BYTES)

    @property
    def has_room(self) -> bool:
        """True if nothing had to be let go of so far."""
        return self._size < _CACHE_BYTES

    def put(self, place: int, value: T, size: int) -> T:
        """Keep *value*, which takes *size* bytes, and let go of older ones."""
        self._values[place] = value
        self._order.append((place, size))
        self._size += size
        self._read += size
        if self._read > _MOST_REREADS * self._whole and self._most < self._limit:
            self._most, self._read = min(2 * self._most, self._limit), 0
        while self._size > self._most and len(self._order) > 1:
            old, freed = self._order.popleft()
            self._size -= freed
            self._values.pop(old, None)
        return value


class Source(Protocol):
    """The records of a run by their places."""

    def fields(self, place: int, allowance: DecodingAllowance) -> Any:
        """The array of the record at *place*. Raises ``ValueError``, ``TraceCorrupt``."""

    def name(self, place: int) -> str:
        """The record at *place* for an error."""


class BlockSource:
    """The blocks of a file, which are read again; it stays open until nobody needs them."""

    def __init__(self, scan: TraceScan) -> None:
        self._scan = scan
        self._ends, self._checksums = array("q", [len(block.MAGIC)]), array("L", [0])
        self._fd = os.dup(scan.file.fileno())
        weakref.finalize(self, os.close, self._fd)
        self.recent = RecentlyRead[tuple[bytes, Sequence[int]]]()

    def add(self) -> int:
        """Note the block that the scan has found; the place of its first record."""
        end, checksum = self._scan.position
        self._ends.append(end)
        self._checksums.append(checksum)
        return (len(self._ends) - 2) << WITHIN

    def fields(self, place: int, allowance: DecodingAllowance) -> Any:
        """The array of the record at *place*."""
        number, at = place >> WITHIN, place & ((1 << WITHIN) - 1)
        cached = self.recent.get(number)
        if cached is None:
            raw = self._raw(number)
            cached = raw, codec.bounds(raw)
            self.recent.put(number, cached, len(raw) + 4 * len(cached[1]))
        raw, bounds = cached
        return codec.unpack_one(raw[bounds[at] : bounds[at + 1]], allowance)

    def _raw(self, number: int) -> bytes:
        start, end = self._ends[number], self._ends[number + 1]
        # By its offset: forked processes share the position in an open file.
        data = os.pread(self._fd, end - start, start)
        at = block.Scan(0, number, self._checksums[number])
        return block.payload(io.BytesIO(data), at, len(data))

    def name(self, place: int) -> str:
        """The record at *place* for an error."""
        return f"record {place & ((1 << WITHIN) - 1)} of block {(place >> WITHIN) + 1}"


class StoredRecords:
    """The records of *source*, and the values that were made of them last.

    What is made while the run is scanned is counted in *scanned*; what is made later is counted
    each time anew, as nobody but its reader keeps it. ``masks`` has the names of secrets that were
    taken out of records, by place. Texts of an ``edited`` run are not what their digests say.
    """

    edited = False

    def __init__(self, source: Source, scanned: DecodingAllowance) -> None:
        self.source, self._scanned, self.allowance = source, scanned, scanned
        self.masks: dict[int, tuple[str, ...]] = {}
        self.sealer: Sealer | None = None
        self.private = False
        self.recent = RecentlyRead[Any]()
        self._lock = threading.RLock()

    def set_limit(self, whole: int, limit: int) -> None:
        """Say how many bytes the whole run takes, and how many may be kept of what was read."""
        self.recent.set_limit(whole, limit)
        if isinstance(self.source, BlockSource):
            self.source.recent.set_limit(whole, limit)

    @contextlib.contextmanager
    def reading(self, place: int) -> Iterator[None]:
        """Read what the record at *place* says, for somebody who asks. Raises ``TraceError``."""
        # Programs on several threads may ask at once: one after another, as the count is of one.
        with self._lock:
            outer, scanned = self.allowance, self._scanned
            if outer is scanned:
                self.allowance = DecodingAllowance(max(scanned.most - scanned.used, 0))
            try:
                yield
            except TraceError:
                raise
            except BAD as error:
                name = self.source.name(place)
                raise TraceCorrupt(f"{name} is not valid: {error!r}") from None
            finally:
                self.allowance = outer

    def record(self, place: int) -> Any:
        """The record at *place*."""
        self.allowance.spend(RECORD)
        fields = self.source.fields(place, self.allowance)
        return as_record(self.unwrapped(fields)[0])

    def keep(self, place: int, value: T, spent: int) -> T:
        """Keep *value* for a while; *spent* was the allowance before it was made."""
        self.recent.put(place, value, RECORD + max(self.allowance.used - spent, 0))
        return value

    def unwrapped(self, fields: Any) -> tuple[Any, tuple[str, ...] | None]:
        """The record that may be masked or sealed, and the names of what was taken out of it."""
        if fields[0] not in AROUND:
            return fields, None
        from appl.tracing.reading.wrapped_records import unwrapped  # few records are masked

        return unwrapped(fields, self.sealer, self.allowance)

    def marks(self, *places: int) -> tuple[str, ...]:
        """The names of the secrets that were taken out of all these records."""
        if not self.masks:
            return ()
        names = tuple(name for place in places for name in self.masks.get(place, ()))
        self.allowance.spend(8 * len(names))
        return names

    def mask(self, place: int, names: tuple[str, ...]) -> None:
        """Note the *names* of secrets that were taken out of what the record at *place* says."""
        if names:
            self.masks[place] = names


AROUND = (MASKED, SEALED)
"""The tags around a record that was masked or sealed."""
