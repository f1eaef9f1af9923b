"""The order of a record: what a program was told then is handed over in the same order again.

Invariant: an outcome is handed over only when all programs wait, and the one that was told first
comes first. One that nobody has asked for yet is waited for as long as somebody may still move.
"""

from __future__ import annotations

import functools
import heapq
import itertools
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from appl.errors import ApplError, DivergenceError, SecretInRecord, TraceError
from appl.runtime.event import CallStarted, Event, ToolStarted
from appl.runtime.world import (
    LOOP_LIMIT,
    LOOP_TIMER,
    Go,
    How,
    Live,
    Moment,
    Programs,
    Tell,
    ToolRequest,
)
from appl.tracing.format.folders import home
from appl.tracing.reading.recorded_step import within
from appl.tracing.reading.trace import Observation, RecordedCall, Trace

if TYPE_CHECKING:
    from appl.runtime.answers.call import Call
    from appl.runtime.scheduling.call_status import Why
    from appl.tracing.reading.tooluse import ToolUse
    from appl.tracing.replaying.amending import Amendments

_FIRST, DELIVERED = 0, 1
_MOMENTS = ("sleep", "timeout", "deadline", "cancelled", "answered", LOOP_LIMIT, LOOP_TIMER)
"""Kinds of observations that come in a turn of their own; others are made by who sees them."""
Turn = tuple[int, int]


def turns_of(trace: Trace) -> dict[str, Turn]:
    """When each recorded outcome is let go: by the number of its delivery.

    An answer that another prompt needs is let go before that prompt's own answer and the first
    chunk of it; one that nobody was told comes after all others, and a call that has no outcome
    never.
    """
    ended = (call for call in trace.calls if call.outcome in ("answered", "failed"))
    turns = {call.address: turn_of(trace, call) for call in ended}
    for call in reversed(trace.calls):
        positions = [position for position, _ in call.shown[:1]]
        if call.address in turns:
            positions.append(turns[call.address][0])
        for edge in call.edges if positions else ():
            if edge in turns:
                turns[edge] = min(turns[edge], (min(positions), _FIRST))
    return turns


def turn_of(trace: Trace, record: RecordedCall | ToolUse) -> Turn:
    """When *record* was told; one that nobody was told comes after all others."""
    behind = trace.moments + record.end_position
    return (behind if record.delivered is None else record.delivered, DELIVERED)


def observations_by_moment(trace: Trace) -> dict[Moment, Observation]:
    """The observations of a run, by their moments.

    Where an edited program asked a person something else in the same place, or waited for another
    time, what was told before that is no answer to it.
    """
    observations: dict[Moment, Observation] = {}
    for observation in trace.observations:
        if (kind_before := _FOLLOWING_KIND.get(observation.kind)) is not None:
            observations.pop(Moment(observation.address, kind_before, observation.ordinal), None)
        observations[Moment(observation.address, observation.kind, observation.ordinal)] = (
            observation
        )
    return observations


_FOLLOWING_KIND = {"asked": "answered", "due": "sleep"}


def delivered_turns(trace: Trace, turns: Mapping[str, Turn]) -> Iterator[tuple[Turn, str]]:
    """Every turn in which the program was told something then, and of what, by its address.

    A tool of the program's own has none: it runs again, and ends when it was told of its answers.
    """
    for call in trace.calls:
        if call.delivered is not None:
            yield turns.get(call.address, (call.delivered, DELIVERED)), call.address
        for position, _ in call.shown:
            yield (position, DELIVERED), call.address
    for used in trace.tools.values():
        if used.delivered is not None and used.effect != "program":
            yield (used.delivered, DELIVERED), used.address
    for observation in observations_by_moment(trace).values():
        if observation.kind in _MOMENTS:
            yield (observation.position, DELIVERED), observation.address


class Missing:
    """The *recorded* outcomes, by turn and address, that are not there yet: asked for, or due.

    It is looked at in the order of the turns, each once it is the first.
    """

    def __init__(self, recorded: Iterable[tuple[Turn, str]]) -> None:
        self._recorded = recorded

    @functools.cached_property
    def _unclaimed(self) -> list[tuple[Turn, str]]:
        return sorted(set(self._recorded), reverse=True)

    def before(self, turn: tuple[Any, ...], there: Callable[[Turn, str], bool]) -> bool:
        """True if something with an earlier turn than *turn* is not *there*."""
        while self._unclaimed and there(*self._unclaimed[-1]):
            self._unclaimed.pop()
        return bool(self._unclaimed) and self._unclaimed[-1][0] < turn

    def give_up(self, turn: tuple[Any, ...]) -> None:
        """Nobody will ask for what is before *turn*: it is not waited for any more."""
        self.before(turn, lambda recorded, _: recorded < turn)


Record: TypeAlias = "RecordedCall | ToolUse | Observation"
Kind = Literal["reused", "shifted", "moved", "pinned", "guessed"]


@dataclass(slots=True)
class Expectation:
    """A moment that a program expects of its world: whom to tell, and how it comes *live*.

    It is about a call, a tool, or nothing, as a timer is. ``why`` it is held, ``cause`` is why it
    is not answered by the record, ``error`` what it gets in the end.
    """

    moment: Moment
    tell: Tell
    live: Go
    call: Call | None = None
    tool: ToolRequest | None = None
    why: Why = "held"
    cause: str = ""
    error: TraceError | None = None

    @property
    def over(self) -> bool:
        """True if it is a call that has ended meanwhile."""
        return self.call is not None and self.call.outcome is not None

    @property
    def is_request(self) -> bool:
        """True if it is about a call or a tool."""
        return self.call is not None or self.tool is not None

    @property
    def is_read(self) -> bool:
        """True if it is a stream of which its program has read a part."""
        feed = self.call.emit if self.call is not None else None
        return feed is not None and bool(feed.chunks)


@dataclass(frozen=True, slots=True)
class Recorded:
    """A verdict: it is told what is recorded, or given in place of that, in its turn."""

    record: Record
    kind: Kind = "reused"


@dataclass(frozen=True, slots=True)
class FromOutside:
    """A verdict: it is told what somebody has given, a timer when nothing recorded is left."""

    outcome: Any


@dataclass(frozen=True, slots=True)
class Now:
    """A verdict: it happens now, for the reason *cause*."""

    cause: str = ""


@dataclass(frozen=True, slots=True)
class AtEnd:
    """A verdict: it waits until nothing recorded is left; pieces of *record* are shown before.

    Then it happens for the reason *cause*, or ends with *error*.
    """

    why: Why = "held"
    cause: str = ""
    record: RecordedCall | None = None
    error: TraceError | None = None


Verdict = Recorded | FromOutside | Now | AtEnd | None
"""The verdict on a moment that a program expects; ``None`` if it never comes, or not here."""


class Sequencer(Live):
    """A world that hands over what a trace holds, in its order; subclasses give the verdicts.

    ``error`` is the first divergence, also one that the program caught. ``claimed`` are the
    addresses of records that are in use, ``departed`` those of calls and tools that are asked or
    run, whatever is recorded of them, ``refused`` those that ended with an error about the record.
    ``effects`` says of tools that have begun what running them may do. ``whole`` are the addresses
    of tools and items below which nothing is asked for, ``answered`` calls that were not asked, and
    where their answers are from. Somebody who sleeps, and might still ask for what comes next in
    the record, is waited for ``patience_s`` seconds.
    """

    caches = True
    patience_s = 2.0

    def __init__(self, trace: Trace | str | os.PathLike[str]) -> None:
        self.trace = trace if isinstance(trace, Trace) else Trace.open(trace, home=home())
        if not self.trace.opened:
            from appl.tracing.replaying import explain  # only what went wrong needs it

            raise SecretInRecord(explain.locked(self.trace))
        self.amendments: Amendments | None = None
        if self.trace.header.get("sets"):
            from appl.tracing.replaying.amending import Amendments  # few runs set options

            self.amendments = Amendments.of(self.trace)
        self.error: TraceError | None = None
        self.claimed: set[str] = set()
        self.departed: set[str] = set()
        self.refused: set[str] = set()
        self.effects: dict[str, str] = {}
        self.whole: set[str] = set()
        self.answered: dict[str, Kind] = {}
        self._has_timers = bool(self.trace.header.get("timers"))  # not in earlier versions
        self._turns = turns_of(self.trace)
        self._observations = observations_by_moment(self.trace)
        self._coming: dict[Call, None] = {}  # what is recorded of them waits for its turn
        self._waiting: dict[Moment, Expectation] = {}
        self._parked: list[tuple[tuple[Any, ...], int, Go]] = []
        self._arrivals = itertools.count()
        self._lock = threading.Lock()
        self._due: set[tuple[object, ...]] = set()
        self._untold = Missing(delivered_turns(self.trace, self._turns))

    # -- what subclasses decide

    @property
    def in_order(self) -> bool:
        """True if every outcome comes from the record, so that none may come too early."""
        return True

    def verdict(self, expected: Expectation) -> Verdict:
        """The verdict on *expected*. Raises the error with which it is refused."""
        if expected.call is not None:
            return self.of_call(expected.call)
        if expected.tool is not None:
            return self.of_tool(expected.moment.address, expected.tool)
        moment, observation = expected.moment, self._observations.get(expected.moment)
        return (
            self.of_new(moment) if observation is None else self.of_observation(moment, observation)
        )

    def of_call(self, call: Call) -> Verdict:
        """The verdict on a call."""
        raise NotImplementedError

    def of_tool(self, address: str, wanted: ToolRequest) -> Verdict:
        """The verdict on the tool that is *wanted* at *address*."""
        raise NotImplementedError

    def of_observation(self, moment: Moment, observation: Observation) -> Verdict:
        """The verdict on a timer, or an end from outside, that is recorded as *observation*."""
        return Recorded(observation)

    def of_new(self, moment: Moment) -> Verdict:
        """The verdict on a timer, or an end from outside, that was not recorded."""
        return AtEnd()

    def begin(self, expected: Expectation) -> None:
        """Have *expected* happen now."""
        expected.live()

    def refuse(self, expected: Expectation, error: ApplError) -> None:
        """Tell *expected* an *error*; one about the record is raised at the end of the run, too."""
        if isinstance(error, TraceError):
            self.noted(error)
            self.refused.add(expected.moment.address)
        expected.tell(error)

    def noted(self, error: TraceError) -> TraceError:
        """*error*, which is raised at the end of the run too, unless an earlier one is."""
        self.error = self.error or error
        return error

    def item(self, expected: Expectation) -> None:
        """Begin an item of a map."""
        expected.live()

    def reuses(self, call: Call, record: RecordedCall, kind: Kind) -> None:
        """*call* is about to be told what is recorded of *record*, or was given in its place."""

    def stands(self, address: str) -> bool:
        """True if the record of *address* holds for this run too."""
        return address not in self.departed

    # -- the world

    def opens(self, programs: Programs) -> None:
        """Have calls get the options that were set for them when they were recorded."""
        super().opens(programs)
        self.programs = programs
        programs.held_by(self)
        programs.answered_by(self, caches=self.caches)
        programs.report_to(self)
        if self.amendments is not None:
            programs.amend = self.amendments.apply

    def expect(
        self, moment: Moment, tell: Tell, live: Go, about: Call | ToolRequest | None = None
    ) -> None:
        """Have *moment* come from the record, or *live* when that may be."""
        tool = about if isinstance(about, ToolRequest) else None
        expected = Expectation(moment, tell, live, None if tool else about, tool)  # type: ignore[arg-type]
        if moment.kind == "workers":  # whose work is recorded, or done in this process
            tell(None)
        elif moment.kind == "item":
            self.item(expected)
        elif moment.kind in (LOOP_LIMIT, LOOP_TIMER) and not self._has_timers:
            live()
        elif moment.kind == "cancelled":
            self._ended_then(expected)
        else:
            if expected.call is not None:
                self.programs.moved()
            try:
                self._apply(self.verdict(expected), expected)
            except ApplError as error:
                self.refuse(expected, error)

    def _apply(self, verdict: Verdict, expected: Expectation) -> None:
        if isinstance(verdict, AtEnd):
            self.hold(expected, verdict)
        elif isinstance(verdict, Now):
            expected.cause = verdict.cause
            self.begin(expected)
        elif isinstance(verdict, FromOutside):
            end = functools.partial(expected.tell, verdict.outcome)
            end() if expected.tool is not None else self.park(self.turn_or_last(), end)
        elif verdict is not None:
            self.repeat(expected, verdict.record, verdict.kind)

    def _ended_then(self, expected: Expectation) -> None:
        """A call or function that somebody outside ended then is ended in its turn.

        Of calls that is so for one that waits for a part of its prompt; others have records.
        """
        address = expected.moment.address
        observation, record = (
            self._observations.get(expected.moment),
            self.trace.by_address.get(address),
        )
        if expected.call is None:
            if observation is not None:
                self.repeat(expected, observation)
        elif record is not None and record.started is None and record.ended_from_outside:
            self.park(self._turns[address], functools.partial(expected.tell, None))

    # -- what waits, in no turn of the record

    def hold(self, expected: Expectation, verdict: AtEnd) -> None:
        """Keep *expected* until nothing recorded is left; the pieces of its record come before."""
        expected.why, expected.cause, expected.error = verdict.why, verdict.cause, verdict.error
        with self._lock:
            self._waiting[expected.moment] = expected
        if verdict.record is not None:
            self._shows(expected, verdict.record)
        self.programs.look_soon()

    def waiting(self, *whys: Why) -> list[Expectation]:
        """The expectations that wait for one of these reasons, or for any."""
        with self._lock:
            return [one for one in self._waiting.values() if not whys or one.why in whys]

    def take(self, *whys: Why) -> list[Expectation]:
        """Take out the expectations that wait for one of these reasons, or for any."""
        expectations = self.waiting(*whys)
        for one in expectations:
            Sequencer.leave(self, one.moment)
        return expectations

    def leave(self, moment: Moment) -> None:
        """Nobody waits for *moment* any more."""
        with self._lock:
            self._waiting.pop(moment, None)

    def see(self, moment: Moment, live: Callable[[], object]) -> Any:
        """The recorded observation, else the present one. Raises ``SecretInRecord``."""
        observation = self._observations.get(moment)
        if observation is not None and moment.about:
            value = observation.value if isinstance(observation.value, Mapping) else {}
            if value.get("about", "") != moment.about:  # another question, or another wait
                self.asks_otherwise(moment, observation)
                observation = None
        if observation is None:
            return super().see(moment, live)
        # Of a question only its digest and its time are needed: a secret in its words does no harm.
        if not moment.about and (error := self.masked(observation)) is not None:
            raise self.noted(error)
        return observation.value

    def asks_otherwise(self, moment: Moment, observation: Observation) -> None:
        """A person is asked, or a time waited for, otherwise than *observation* says.

        Raises ``DivergenceError`` where the program has to be as it was.
        """
        raise self.noted(
            DivergenceError(
                f"{moment.address} asks or waits for something else than was recorded in "
                f"{self.trace.path.name}: then it was {words_of(observation)}"
            )
        )

    def forget(self, moment: Moment) -> None:
        """Have what is recorded at the place of *moment*, a question or time, be asked anew."""
        for kind in (moment.kind, "answered", "sleep"):
            self._observations.pop(Moment(moment.address, kind, moment.ordinal), None)

    def recorded(self, moment: Moment) -> Observation | None:
        """The observation at *moment* when the run was recorded; ``None`` if there was none."""
        return self._observations.get(moment)

    def ends(self, moment: Moment, how: How, end: Go) -> None:
        """The program ends a call or a tool, perhaps as then: at once, in its turn, or too late."""
        self.leave(moment)
        address = moment.address
        recorded = self.trace.by_address.get(address) or self.trace.tools.get(address)
        if recorded is None or recorded.outcome is None or not self.stands(address):
            self.end_anew(address, end)
        elif recorded.outcome == how and recorded.delivered is not None:
            self.park((recorded.delivered, DELIVERED), end)
        elif recorded.outcome == how or how == "failed":
            self.end_anew(address, end)

    def end_anew(self, address: str, end: Go) -> None:
        """The program ends a call or a tool that it did not end so then."""
        end()

    def skip(self, address: str) -> None:
        """Nobody has to ask for what was recorded at *address* and below."""
        self.whole.add(address)

    def unasked(self) -> list[RecordedCall | ToolUse]:
        """Recorded calls that ended, and that this run has not asked for."""
        calls = (call for call in self.trace.calls if call.address in self._turns)
        every: list[RecordedCall | ToolUse] = [c for c in calls if c.started is not None]
        every += (used for used in self.trace.tools.values() if used.message is not None)
        return [record for record in every if not self._is_covered(record.address)]

    def dropped(self, address: str) -> bool:
        """True if a call at *address* or below was cancelled in the record."""
        below = (call for call in self.trace.calls if f"{call.address}/".startswith(f"{address}/"))
        return any(call.outcome == "cancelled" for call in below)

    def held(self) -> Iterator[tuple[Call, Why, int]]:
        """The calls that wait for what is recorded, why, and how many ends are still to come."""
        waiting = {one.call: one.why for one in self.waiting() if one.call is not None}
        every: dict[Call, Why] = {**dict.fromkeys(tuple(self._coming), "recorded"), **waiting}
        ahead = len(self._parked) + len(self.unasked()) if every else 0
        yield from ((call, why, ahead) for call, why in every.items() if call.outcome is None)

    def idle(self, final: bool = True) -> bool:
        """All programs wait: hand over the next outcome, or do what follows the last one."""
        if self.is_early(self._next_turn()):
            return False
        return self.release() or self.used_up(final)

    def used_up(self, final: bool) -> bool:
        """Nothing recorded can be handed over; true if something else has happened."""
        return False

    @functools.cached_property
    def scopes(self) -> set[str]:
        """The addresses of the recorded functions."""
        return {scope.address for scope in self.trace.scopes}

    def due(self) -> bool:
        """True if the next outcome to hand over is the one that came next in the record."""
        turn = self._next_turn()
        return turn is not None and not self._untold.before(turn, self._is_due)

    def _is_due(self, turn: Turn, address: str) -> bool:
        return turn in self._due or self._is_covered(address)

    def difference(self) -> TraceError | None:
        return self.error

    def on_event(self, event: Event) -> None:
        """Take note of the tools that begin."""
        if isinstance(event, ToolStarted):
            self.effects[event.address] = event.effect

    # -- what is recorded, in its turn

    def repeat(self, expected: Expectation, record: Record, kind: Kind = "reused") -> None:
        """Tell *expected* what was recorded, in its turn; pieces of an answer come in their own."""
        if isinstance(record, Observation):
            self.park((record.position, DELIVERED), functools.partial(expected.tell, None))
        elif isinstance(record, RecordedCall):
            self.answer_in(self.turn_or_last(record.address), expected, record, kind)
        else:  # a tool does not run, and ends as it did
            assert expected.tool is not None
            self.check_usable(record)
            self.whole.add(record.address)
            ended = record.end()
            if expected.tool.at_once:
                expected.tell(ended)
            else:
                self.park(turn_of(self.trace, record), lambda: expected.tell(ended))

    def turn_or_last(self, address: str = "") -> Turn:
        """The turn of the call at *address*, or one behind all that is recorded."""
        return self._turns.get(address, (2 * self.trace.moments + 1, DELIVERED))

    def answer_in(
        self, turn: Turn, expected: Expectation, record: RecordedCall, kind: Kind
    ) -> None:
        """Answer a call in its *turn* as *record* was; pieces come in turns of their own."""
        assert expected.call is not None
        self.answered[expected.call.address] = kind
        self.claimed.add(record.address)
        self.programs.moved()
        call, show = expected.call, self._shows(expected, record)
        # Read here: where it is not valid, this call fails, and not the thread that lets it go.
        outcome = record.error if record.error is not None else record.response
        self._coming[call] = None

        def answer() -> None:
            self._coming.pop(call, None)
            if call.outcome is None:
                show(None)
                self.reuses(call, record, kind)
                expected.tell(outcome)

        self.park(turn, answer)

    def _shows(self, expected: Expectation, record: RecordedCall) -> Callable[[int | None], None]:
        """Have the chunks of *record* told as they were delivered, each in its turn.

        What is returned tells the first so many at once, or with ``None`` all that are left.
        """
        assert expected.call is not None
        streamed = expected.call.emit is not None and record.cuts
        chunks, shown = record.chunks() if streamed else iter(()), 0

        def show(count: int | None) -> None:
            nonlocal shown
            for chunk in itertools.islice(chunks, None if count is None else max(count - shown, 0)):
                expected.tell(chunk)
                shown += 1

        for position, count in record.shown if streamed else ():
            self.park((position, DELIVERED), functools.partial(show, count))
        return show

    def check_usable(self, record: Record) -> None:
        """Raise ``SecretInRecord`` when what came of it was not recorded as it was."""
        if (error := self.masked(record)) is not None:
            raise error

    def masked(self, record: Record) -> SecretInRecord | None:
        """The error about a *record* that holds something else than what came."""
        lost = record.masked if isinstance(record, Observation) else record.lost
        if not lost:
            return None
        what = record.kind if isinstance(record, Observation) else record.where
        from appl.tracing.replaying import explain

        return SecretInRecord(explain.masked(f"{record.address} ({what})", lost))

    def other_tool(self, address: str, difference: str) -> DivergenceError:
        """The error about the tool at *address*, which is not what was recorded in its place."""
        text = f"the tool at {address} was not recorded in {self.trace.path.name}: {difference}"
        from appl.tracing.replaying import explain

        return DivergenceError(f"{text}\n  {explain.CAUSES}")

    def diverged(self, call: Call) -> DivergenceError:
        """The error about *call*, which is not what was recorded in its place."""
        assert call.request is not None
        issued = where(call), call.edges()
        from appl.tracing.replaying import explain

        return DivergenceError(explain.divergence(self.trace, call.request, *issued, self.claimed))

    # -- the order

    def park(self, turn: tuple[object, ...], go: Go) -> None:
        """Have *go* done in its *turn*."""
        with self._lock:
            heapq.heappush(self._parked, (turn, next(self._arrivals), go))
        self._due.add(turn)
        # A thread of the program's own that only waits for a call never says again that it rests.
        self.programs.look_soon()

    def _next_turn(self) -> Turn | None:
        """The turn of what comes next, where the order is that of the record."""
        with self._lock:
            return self._parked[0][0] if self._parked and self.in_order else None

    def is_early(self, turn: Turn | None) -> bool:
        """True if *turn* came after another in the record that somebody may still expect."""
        early = turn is not None and self._untold.before(turn, self._is_due)
        return early and not self.still()

    def _is_covered(self, address: str) -> bool:
        """True if somebody has asked for what is recorded at *address*, or need not."""
        groups = (self.claimed, self.departed, self.effects, self.whole)
        return any(address in addresses for addresses in groups) or within(address, self.whole)

    def release(self) -> bool:
        """Let go what was delivered first of all that is parked; false when nothing is."""
        with self._lock:
            first = heapq.heappop(self._parked) if self._parked else None
        if first is None:
            return False
        turn, _, go = first
        self._untold.give_up(turn)
        self.programs.moved()
        go()
        return True

    # -- the programs

    def still(self) -> bool:
        """True if no waiting call can proceed by itself, as far as can be known."""
        return self.programs.nobody_can_proceed(self.patience_s)


def words_of(observation: Observation) -> str:
    """A recorded question, or the time that was waited for, in words."""
    value = observation.value if isinstance(observation.value, Mapping) else {}
    return repr(value.get("question") or value.get("about") or observation.kind)[:200]


def charge(programs: Programs, call: Call, record: RecordedCall) -> None:
    """Charge what *record* took to the budgets of the blocks around *call*, which it answers."""
    if record.response is not None:
        programs.charged(call, record.response, requests_of(record))


def requests_of(record: RecordedCall) -> int:
    """The requests that the answer of *record* took; 0 if it was from a cache or a record."""
    assert record.response is not None
    was_reused = record.response.reused >= max(record.n, 1)
    return 0 if was_reused else max(len(record.attempts), 1)


def where(issued: Call | CallStarted) -> str:
    """The source line that has *issued* a call, as ``file:line``, or an empty string."""
    return f"{issued.file}:{issued.line}" if issued.file else ""
