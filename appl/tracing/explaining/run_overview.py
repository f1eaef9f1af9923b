"""An overview of a run: sums, by function too, and the first of its calls.

Invariant: each answer is read once and let go, and no prompt is read.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from operator import attrgetter

from appl.tracing.explaining import costs
from appl.tracing.format.totals import Totals
from appl.tracing.reading.tooluse import ToolUse
from appl.tracing.reading.trace import RecordedCall, Scope, Trace

_OCCURRENCE = re.compile(r"\.\d+(?=/|\Z)")
_FUNCTIONS = 10_000


@dataclass(slots=True)
class Sum:
    """Calls of one function, or of one activation: what they took together.

    Times are microseconds; ``busy`` is the sum of the calls' times, which may have overlapped.
    Tokens and ``cost`` count what is known; ``unknown`` are the calls that do not say what they
    cost.
    """

    calls: int = 0
    failed: int = 0
    open: int = 0
    tools: int = 0
    prompt: int = 0
    answer: int = 0
    cached: int = 0
    cost: int = 0
    unknown: int = 0
    busy: int = 0
    begin: int | None = None
    end: int | None = None

    def add(self, call: RecordedCall | ToolUse, earlier: bool = False) -> None:
        """Count one more; of an *earlier* record, which was begun again, only what it took."""
        self._time(call)
        if isinstance(call, ToolUse):
            self.tools += 1
            return
        if not earlier:
            self.calls += 1
            self.failed += call.ended_as == "failed"
            self.open += call.outcome is None
        response = None if call.source is not None else call.response
        if response is None:
            return
        self.prompt += response.usage.prompt_tokens or 0
        self.answer += response.usage.completion_tokens or 0
        self.cached += response.usage.cached_tokens or 0
        self.cost += response.cost or 0
        self.unknown += response.cost is None

    def _time(self, call: RecordedCall | ToolUse) -> None:
        if call.started is None:
            return
        end = call.started if call.ended is None else call.ended
        self.busy += end - call.started
        self.begin = call.started if self.begin is None else min(self.begin, call.started)
        self.end = end if self.end is None else max(self.end, end)

    def as_data(self) -> dict[str, object]:
        """The sums as JSON-ready data; a cost that no call says is null, not 0."""
        data = {name: getattr(self, name) for name in self.__slots__}
        return data if self.cost or not self.unknown else {**data, "cost": None}


@dataclass(slots=True)
class RunOverview:
    """A run in short.

    ``rows`` are the first *most* calls and tool calls, in the order in which they began, ``scopes``
    the activations around them with their sums. ``functions`` are the sums by function: addresses
    without their numbers. ``waiting`` are the calls that the last process has begun and that have
    not ended, ``undelivered`` counts answers that the program has not asked for. ``last`` is when
    something was recorded last, in nanoseconds since 1970.
    """

    trace: Trace
    most: int
    totals: Totals = field(default_factory=Totals)
    costs: costs.Costs = field(default_factory=costs.Costs)
    rows: list[RecordedCall | ToolUse] = field(default_factory=list)
    scopes: dict[str, Scope] = field(default_factory=dict)
    sums: dict[str, Sum] = field(default_factory=dict)
    functions: dict[str, Sum] = field(default_factory=dict)
    waiting: dict[str, RecordedCall | ToolUse] = field(default_factory=dict)
    undelivered: int = 0
    count: int = 0
    tools: int = 0
    tools_failed: int = 0
    last: int = 0
    _last: tuple[str, str, list[Sum]] = field(default=("", "", []), repr=False)

    @classmethod
    def of(cls, trace: Trace, most: int) -> RunOverview:
        """The overview of *trace*. Raises ``TraceError``."""
        terms, batched = costs.terms_of(trace.header), trace.batched
        terms.batched = batched
        overview = cls(trace, most, costs=costs.Costs(terms))
        overview.scopes = {scope.address: scope for scope in trace.scopes[: 4 * most]}
        every: list[RecordedCall | ToolUse] = [*trace.calls, *trace.tools.values()]
        every.sort(key=attrgetter("position"))
        overview.count, overview.rows = len(every), every[:most]
        for call in trace.earlier:
            overview._add(call, earlier=True, is_paid=call.address not in batched)
        for item in every:
            overview._add(item)
        process = max(len(trace.incarnations) - 1, 0)
        ends = [
            trace.wall(observation.at, observation.incarnation)
            for observation in trace.observations[-1:]
        ]
        failed = [trace.wall(failure.at, process) for failure in trace.failures.values()]
        overview.last = max([overview.last, *ends, *failed])
        return overview

    @property
    def more(self) -> int:
        """The number of calls and tool calls that are not among the rows."""
        return self.count - len(self.rows)

    def _add(
        self, call: RecordedCall | ToolUse, earlier: bool = False, is_paid: bool = True
    ) -> None:
        trace = self.trace
        for total in self._sums(call.address):
            total.add(call, earlier)
        if isinstance(call, ToolUse):
            self.tools += 1
            self.tools_failed += call.has_failed
        else:
            call.count_in(self.totals, earlier)
            if is_paid:
                self.costs.add(call)
            self.undelivered += call.outcome == "answered" and call.delivered is None
        if call.outcome is None and call.incarnation == max(len(trace.incarnations) - 1, 0):
            self.waiting[call.address] = call
        for at in (call.started, call.ended, call.delivered_at):
            if at is not None:
                self.last = max(self.last, trace.wall(at, call.incarnation))

    def _sums(self, address: str) -> list[Sum]:
        """The sums that a call counts in; often those of the call before."""
        scope, _, leaf = address.rpartition("/")
        kind = leaf.rpartition(".")[0]
        if self._last[:2] == (scope, kind):
            return self._last[2]
        name = _OCCURRENCE.sub("", address)
        sums: list[Sum] = []
        if name in self.functions or len(self.functions) < _FUNCTIONS:
            sums.append(self.functions.setdefault(name, Sum()))
        above = scope
        while above:
            if above in self.scopes:
                sums.append(self.sums.setdefault(above, Sum()))
            above = above.rpartition("/")[0]
        self._last = (scope, kind, sums)
        return sums
