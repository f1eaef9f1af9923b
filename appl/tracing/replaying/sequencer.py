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
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from appl.backend import Emit, Request
from appl.errors import CallCancelled, DivergenceError, SecretInRecord
from appl.runtime.event import CallStarted, Event
from appl.runtime.world import Go, How, Live, Moment, Programs, Tell
from appl.runtime.world import ToolUse as Wanted
from appl.tracing.reading.tooluse import End, ToolUse
from appl.tracing.reading.trace import Call, Observation, Trace
from appl.tracing.recording.recorder import home
from appl.tracing.replaying import explain
from appl.tracing.replaying.amending import Amendments
from appl.tracing.replaying.explain import Site
from appl.tracing.replaying.outstanding import Outstanding, Sequence

if TYPE_CHECKING:
    from appl.runtime.answers.call import Call as Asked
    from appl.runtime.scheduling.call_status import Why

_FIRST, DELIVERED = 0, 1
_MOMENTS = ("sleep", "timeout", "deadline", "cancelled")
"""Kinds of observations that come in a turn of their own; others are made by who sees them."""
Turn = tuple[int, int]
Key = tuple[str, int, str]


def turns_of(trace: Trace) -> dict[str, Turn]:
    """When each recorded outcome is let go: by the number of its delivery.

    An answer that another prompt needs is let go before that prompt's own answer and the first
    chunk of it; one that nobody was told comes after all others, and a call that has no outcome
    never.
    """
    turns = _own_turns(trace)
    for call in reversed(trace.calls):
        seen = [position for position, _ in call.shown[:1]]
        if call.address in turns:
            seen.append(turns[call.address][0])
        for edge in call.edges if seen else ():
            if edge in turns:
                turns[edge] = min(turns[edge], (min(seen), _FIRST))
    return turns


def _own_turns(trace: Trace) -> dict[str, Turn]:
    ended = (call for call in trace.calls if call.outcome in ("answered", "failed"))
    return {call.address: turn_of(trace, call) for call in ended}


def turn_of(trace: Trace, record: Call | ToolUse) -> Turn:
    """When *record* was told; one that nobody was told comes after all others."""
    behind = trace.moments + record.end_position
    return (behind if record.delivered is None else record.delivered, DELIVERED)


def told_in(trace: Trace, turns: Mapping[str, Turn]) -> Iterator[tuple[Turn, str]]:
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
    for seen in trace.observations:
        if seen.kind in _MOMENTS:
            yield (seen.position, DELIVERED), seen.address


def key_of(moment: Moment) -> Key:
    """The key of what is recorded of *moment*."""
    return (moment.address, moment.ordinal, moment.kind)


def by_key(observations: list[Observation]) -> dict[Key, Observation]:
    """The *observations* by address, ordinal and kind."""
    return {(seen.address, seen.ordinal, seen.kind): seen for seen in observations}


class Sequencer(Live):
    """A world that hands over what a trace holds, in its order; subclasses decide what that is.

    Give it to a run as its world and as an instrument. ``claimed`` are the addresses of records
    that are in use. ``patience_s`` is how many seconds somebody who sleeps is waited for, who might
    still ask for what comes next in the record."""

    caches = True
    patience_s = 2.0

    def __init__(self, trace: Trace | str | os.PathLike[str]) -> None:
        self.trace = trace if isinstance(trace, Trace) else Trace.open(trace, home=home())
        if not self.trace.opened:
            raise SecretInRecord(explain.locked(self.trace))
        self.amendments = Amendments.of(self.trace)
        self.claimed: set[str] = set()
        self._turns = turns_of(self.trace)
        self._seen = by_key(self.trace.observations)
        self._sites: dict[str, Site] = {}
        self._held: dict[Asked, Why] = {}  # claimed, and neither answered nor let go
        self._parked: list[tuple[Turn, int, Go]] = []
        self._arrivals = itertools.count()
        self._lock = threading.Lock()
        self._sequence = Sequence(told_in(self.trace, self._turns))
        self._outstanding = Outstanding(self.trace, self._turns)

    # -- what subclasses decide

    @property
    def in_order(self) -> bool:
        """Whether all that is told comes from the record, so that nothing may come too early."""
        return True

    def excused(self, address: str) -> bool:
        """Whether nobody has to ask for *address*: it is a part of what is answered as a whole."""
        return False

    def answer(self, call: Asked, tell: Tell, live: Go) -> None:
        """Answer *call* from the record, in its turn, or have it asked *live*."""
        raise NotImplementedError

    def tool(self, address: str, name: str, arguments: str, at_once: bool, end: End) -> bool:
        """Give *end* the recorded result of a tool call; false when the tool is to run."""
        raise NotImplementedError

    def later(self, action: Go, address: str = "") -> bool:
        """Have *action* done when live things may happen; false when they may now."""
        raise NotImplementedError

    def unrecorded(self, moment: Moment, tell: Tell, live: Go) -> None:
        """A timer that did not ring then: it is live."""
        if not self.later(live, moment.address):
            live()

    def stands(self, address: str) -> bool:
        """Whether the record of *address* is what happens in this run too."""
        return True

    def noted(self, error: Any) -> Any:
        """*error*, which is about to be raised, as what the record and the program differ in."""
        return error

    # -- the world

    def opens(self, programs: Programs) -> None:
        """Have calls get the options that were set for them when they were recorded."""
        super().opens(programs)
        programs.held_by(self)
        programs.answered_by(self, caches=self.caches)
        programs.amend = self.amendments.apply

    def expect(
        self, moment: Moment, tell: Tell, live: Go, about: Asked | Wanted | None = None
    ) -> None:
        """Have *moment* come from the record, or *live* when that may be."""
        if moment.kind == "item":
            self.item(moment, tell, live)
        elif isinstance(about, Wanted):
            self._tool(moment, tell, live, about)
        elif about is None:
            self._timed(moment, tell, live)
        elif moment.kind == "cancelled":
            self._admits(moment.address, lambda: tell(None))
        else:
            self.answer(about, tell, live)

    def item(self, moment: Moment, tell: Tell, live: Go) -> None:
        """Begin an item of a map."""
        live()

    def _tool(self, moment: Moment, tell: Tell, live: Go, wanted: Wanted) -> None:
        name, arguments, at_once = wanted.name, wanted.arguments, wanted.at_once
        if self.tool(moment.address, name, arguments, at_once, tell):
            return
        if at_once or not self.later(live, moment.address):
            live()

    def _timed(self, moment: Moment, tell: Tell, live: Go) -> None:
        """A timer rings as it did then; a function that nobody ended then is not ended."""
        if not self.turn(moment, lambda: tell(None)) and moment.kind != "cancelled":
            self.unrecorded(moment, tell, live)

    def turn(self, moment: Moment, go: Go) -> bool:
        """Call *go* when the program was told so then; false when that was not recorded."""
        seen = self._seen.get(key_of(moment))
        if seen is None:
            return False
        self.park((seen.position, DELIVERED), go)
        return True

    def _admits(self, address: str, go: Go) -> None:
        """A call waits for a part of its prompt: *go* ends it if it was ended from outside then."""
        found = self.trace.by_address.get(address)
        if found is None or found.started is not None or found.outcome != "failed":
            return
        if isinstance(found.error, CallCancelled):  # which is no failure when the program did it
            self.park(self._turns[address], go)

    def see(self, moment: Moment, live: Callable[[], Any]) -> Any:
        """What was observed then, or what is to be seen now. Raises ``SecretInRecord``."""
        seen = self._seen.get(key_of(moment))
        if seen is None:
            return super().see(moment, live)
        self.check_usable(seen)
        return seen.value

    def ends(self, moment: Moment, how: How, end: Go) -> None:
        """The program ends a call or a tool, perhaps as then: at once, in its turn, or too late."""
        late = self.on_cancel if how == "cancelled" else self.on_failed
        if not late(moment.address, end):
            end()

    def on_cancel(self, address: str, go: Go) -> bool:
        """The program cancels a call or a tool, perhaps as then: *go* ends it in its turn."""
        found = self.trace.by_address.get(address) or self.trace.tools.get(address)
        if found is None or found.outcome is None or not self.stands(address):
            return False
        if found.outcome == "cancelled":
            if found.delivered is None:
                return False
            self.park((found.delivered, DELIVERED), go)
        return True

    def on_failed(self, address: str, go: Go) -> bool:
        """A call fails with a part of its prompt: *go* ends it when the program was told then."""
        found = self.trace.by_address.get(address)
        if found is None or found.outcome != "failed" or found.delivered is None:
            return False
        self.park((found.delivered, DELIVERED), go)
        return True

    def dropped(self, address: str) -> bool:
        """Whether a call at *address* or below was cancelled then."""
        return any(
            call.outcome == "cancelled"
            for call in self.trace.calls
            if call.address == address or call.address.startswith(f"{address}/")
        )

    def held(self) -> Iterator[tuple[Asked, Why, int]]:
        """The calls that wait for what is recorded, and why."""
        ahead = self.to_come() if self._held else 0
        for call, why in tuple(self._held.items()):
            if call.outcome is None:
                yield call, why, ahead

    def to_come(self) -> int:
        """How many recorded ends are still to come."""
        return len(self._parked)

    def due(self) -> bool:
        """Whether what would be handed over next is what the program was told next then."""
        turn = self._next_turn()
        return turn is not None and self._sequence.complete(turn, self.excused)

    def on_event(self, event: Event) -> None:
        """Remember where calls are issued from."""
        if isinstance(event, CallStarted):
            where = f"{event.file}:{event.line}" if event.file else ""
            self._sites[event.request.address] = Site(where, event.edges)

    # -- what is recorded, in its turn

    def prepared(self, call: Asked, found: Call, tell: Tell) -> Go:
        """What tells *call* what was recorded of *found*; its pieces come in their own turns."""
        self._held[call] = "recorded"
        self.claimed.add(found.address)
        self.moves()
        show = self.shows(found, tell) if call.emit is not None and found.cuts else _no_pieces
        return functools.partial(self._tell, call, found, tell, show)

    def _tell(
        self, call: Asked, found: Call, tell: Tell, show: Callable[[int | None], None]
    ) -> None:
        self._held.pop(call, None)
        if call.outcome is None:
            show(None)
            tell(found.error if found.error is not None else found.response)

    def shows(self, call: Call, emit: Emit) -> Callable[[int | None], None]:
        """Have the chunks of *call* emitted as they were delivered, each in its turn.

        What is returned emits the first so many at once, or with ``None`` all that are left.
        """
        chunks, shown = call.chunks(), 0

        def show(count: int | None) -> None:
            nonlocal shown
            for chunk in itertools.islice(chunks, None if count is None else max(count - shown, 0)):
                emit(chunk)
                shown += 1

        for position, count in call.shown:
            self.park((position, DELIVERED), functools.partial(show, count))
        return show

    def end_tool(self, used: ToolUse, at_once: bool, end: End) -> None:
        """Give *end* the recorded result of *used*: at once, or when its turn comes."""
        self.claimed.add(used.address)
        if at_once:
            end(used.end())
        else:
            self.park(turn_of(self.trace, used), lambda: end(used.end()))

    def check_usable(self, record: Call | ToolUse | Observation) -> None:
        """Raise ``SecretInRecord`` when what came of it was not recorded as it was."""
        lost = record.masked if isinstance(record, Observation) else record.lost
        if lost:
            what = record.kind if isinstance(record, Observation) else record.where
            raise self.noted(SecretInRecord(explain.masked(f"{record.address} ({what})", lost)))

    def diverged(self, request: Request) -> DivergenceError:
        """The error about *request*, which is not what was recorded in its place."""
        site = self._sites.get(request.address, Site())
        return DivergenceError(explain.divergence(self.trace, request, site, self.claimed))

    # -- the order

    def park(self, turn: Turn, go: Go) -> None:
        """Have *go* done in its *turn*."""
        with self._lock:
            heapq.heappush(self._parked, (turn, next(self._arrivals), go))
        self._sequence.comes(turn)
        self.look_soon()

    def _next_turn(self) -> Turn | None:
        """The turn of what comes next, where the order is that of the record."""
        with self._lock:
            return self._parked[0][0] if self._parked and self.in_order else None

    def is_early(self, final: bool) -> bool:
        """Whether the next outcome came after another then, which was not asked for yet."""
        turn = self._next_turn()
        if turn is None or not self._outstanding.before(turn, self._is_asked):
            return False
        if not self.still(final):
            return True
        self._outstanding.give_up(turn)
        return False

    def _is_asked(self, address: str) -> bool:
        return address in self.claimed or self.excused(address)

    def release(self) -> bool:
        """Let go what was delivered first of all that is parked; false when nothing is."""
        with self._lock:
            go = heapq.heappop(self._parked)[2] if self._parked else None
        if go is None:
            return False
        self.moves()
        go()
        return True

    # -- the programs

    def look_soon(self) -> None:
        """Have the run look whether all its programs wait: one may have waited before this hold.

        A thread of the program's own that only waits for a call never says again that it rests.
        """
        self.programs.look_soon()

    def moves(self) -> None:
        """Something has happened: those who might still move are given their time again."""
        self.programs.moved()

    def still(self, final: bool) -> bool:
        """Whether nobody will move by himself, as far as can be known."""
        return self.programs.nobody_can_proceed(final, self.patience_s)


def _no_pieces(count: int | None) -> None:
    """The answer is told as a whole."""
