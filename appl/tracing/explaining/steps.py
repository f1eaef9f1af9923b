"""The calls of a recorded run as columns of numbers: begin, end, phases, needed answers.

Invariant: no object of the run is kept, so the run may grow while its steps are in use.
Times are microseconds since the run's first process began, over all that wrote the trace.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

from appl.tracing.explaining.links import Links
from appl.tracing.reading.trace import RecordedCall, Trace

if TYPE_CHECKING:
    from appl.tracing.reading.tooluse import ToolUse

T = TypeVar("T")
Phases = list[tuple[str, int]]

_FAR = 1 << 60  # microseconds, which no run takes
NEVER = -2 * _FAR


class Steps:
    """The calls of models and tools that have begun, numbered in the order of their begins.

    ``end`` of a step that has not ended is its begin; ``told`` is the time when its program got the
    answer, or ``NEVER``. ``needs`` are the answers in its prompt that were there when it began;
    ``scope`` is the function around it, -1 for none. Functions have numbers too: ``above`` is the
    one around each, which has a lesser number, and ``entered`` is when it began.
    """

    def __init__(self, run: Trace) -> None:
        self._wall, self._since = run.wall, dict[int, int]()
        self.address: list[str] = []
        self.where: list[str] = []
        self.start, self.end, self.told = array("q"), array("q"), array("q")
        self.position, self.scope = array("q"), array("q")
        self.above, self.entered = array("q"), array("q")
        self.needs = Links()
        self._did, self._raw, self._kinds = Links(), array("q"), dict[str, int]()
        self.begin = self._fill(run)
        self._names = list(self._kinds)

    def __len__(self) -> int:
        return len(self.address)

    def phases(self, number: int) -> Phases:
        """The phases of a step between its begin and its end, in order, with their microseconds.

        ``queue`` (until it was its turn), ``budget``, ``circuit`` and ``rate`` (for leave to be
        sent), ``retry`` (attempts that failed and the waits after them), ``prefill`` and
        ``decode``, or ``answer`` where the first piece of the answer is not known, ``tool``.
        """
        did = self._did.of(self._raw[number])
        return [(self._names[did[i]], did[i + 1]) for i in range(0, len(did), 2)]

    def _fill(self, run: Trace) -> int:
        """Read the whole run and return its begin."""
        wanted = list(self._read(run))
        times = [min(self.start)] if self.start else []
        # By begin; of two with one address, the last counts.
        order = sorted(range(len(self)), key=self.start.__getitem__)
        rows = list({self.address[i]: i for i in order}.values())
        self._raw.extend(rows)
        self.address, self.where = _taken(self.address, rows), _taken(self.where, rows)
        self.start = array("q", _taken(self.start, rows))
        self.end = array("q", _taken(self.end, rows))
        self.told = array("q", _taken(self.told, rows))
        self.position = array("q", _taken(self.position, rows))
        self._link(wanted)
        wanted.clear()
        times += self._enter(run)
        begin = min(times, default=0)
        for number, at in enumerate(self.entered):
            if at == NEVER:
                self.entered[number] = begin
        return begin

    def _read(self, run: Trace) -> Iterator[tuple[str, ...]]:
        """Note all calls and return the addresses that each one needs."""
        for call in run.calls:
            if call.started is not None:
                end = self._note(call, call.started)
                at = call.delivered_at
                self.told.append(
                    NEVER if at is None else max(self._time(at, call.incarnation), end)
                )
                self._did.add(self._numbered(phases(call)))
                yield call.edges
        for used in run.tools.values():
            if used.started is not None:
                end = self._note(used, used.started)
                self.told.append(end)
                self._did.add(self._numbered([("tool", end - self.start[-1])]))
                yield ()

    def _note(self, call: RecordedCall | ToolUse, started: int) -> int:
        """Note one call of a model or a tool and return the time at which it ended."""
        start = self._time(started, call.incarnation)
        end = start if call.ended is None else max(self._time(call.ended, call.incarnation), start)
        self.address.append(call.address)
        self.where.append(sys.intern(call.where))
        self.start.append(start)
        self.end.append(end)
        self.position.append(max(call.position, 0))
        return end

    def _time(self, at: int, incarnation: int) -> int:
        """The time *at* of the process *incarnation*, by one clock for all processes."""
        since = self._since.get(incarnation)
        if since is None:
            begin = self._wall(0, incarnation) - self._wall(0, 0)
            since = self._since[incarnation] = begin // 1000
        return max(-_FAR, min(since + at, _FAR))

    def _numbered(self, did: Phases) -> Iterator[int]:
        kinds = self._kinds
        for kind, took in did:
            yield kinds.setdefault(kind, len(kinds))
            yield min(took, _FAR)

    def _link(self, wanted: Sequence[tuple[str, ...]]) -> None:
        """Find the steps that each one needs."""
        number, end = {address: i for i, address in enumerate(self.address)}, self.end
        for raw, start in zip(self._raw, self.start, strict=True):
            needed = [number[need] for need in wanted[raw] if need in number]
            self.needs.add([need for need in needed if end[need] <= start])

    def _enter(self, run: Trace) -> Iterator[int]:
        """Number the functions around the steps and return the begin of each function."""
        number = {"": 0}
        self.above.append(-1)
        self.scope.extend(self._around(address, number) for address in self.address)
        self.entered.extend([NEVER] * len(self.above))
        others: dict[str, int] = {}
        for scope in run.scopes:
            at = self._time(scope.at, scope.incarnation)
            if scope.address in number:
                self.entered[number[scope.address]] = at
            else:
                others[scope.address] = at
        yield from (at for at in self.entered if at != NEVER)
        yield from others.values()

    def _around(self, address: str, number: dict[str, int]) -> int:
        """The number of the function around *address*; the run itself has 0."""
        if not address:
            return -1
        new: list[str] = []
        name = address.rpartition("/")[0]
        while name not in number:
            new.append(name)
            name = name.rpartition("/")[0]
        number_of_scope = number[name]
        for scope in reversed(new):
            self.above.append(number_of_scope)
            number_of_scope = number[scope] = len(self.above) - 1
        return number_of_scope


def _taken(column: Sequence[T], rows: Sequence[int]) -> list[T]:
    return [column[i] for i in rows]


def phases(call: RecordedCall) -> Phases:
    """The phases of a call in order, with their microseconds, as far as they are recorded."""
    if call.started is None or call.ended is None:
        return []
    sent = [attempt.at for attempt in call.attempts if attempt.at is not None]
    if not sent:
        return [("queue", call.ended - call.started)]
    before, waited = sent[0] - call.started, call.attempts[0].waited
    phases_of_call = [("queue", before - sum(waited.values())), *waited.items()]
    phases_of_call.append(("retry", sent[-1] - sent[0]))
    if call.first is not None and sent[-1] <= call.first <= call.ended:
        phases_of_call += [("prefill", call.first - sent[-1]), ("decode", call.ended - call.first)]
    else:
        phases_of_call.append(("answer", call.ended - sent[-1]))
    return [(name, max(took, 0)) for name, took in phases_of_call if took > 0]
