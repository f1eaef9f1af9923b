"""Answers a run from its trace: the same program gets the same values, and no backend is asked.

Invariant: a recorded answer is given only to the call of the same address, ordinal and content; the
answers are let go in the order in which they were delivered, one each time all programs wait.
"""

from __future__ import annotations

import functools
import heapq
import itertools
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from appl.backend import Emit, Profile, Request
from appl.errors import (
    CallCancelled,
    DivergenceError,
    ReplayStuck,
    SecretInRecord,
    UnusedRecords,
    WorkerLost,
)
from appl.runtime.event import CallDispatched, CallStarted, Event, ToolStarted
from appl.runtime.world import PERHAPS, Go, Moment, Nobody, Programs, Tell
from appl.runtime.world import ToolUse as Wanted
from appl.tracing.reading.tooluse import ToolUse, within
from appl.tracing.reading.trace import Call, Observation, Trace
from appl.tracing.recording.recorder import home
from appl.tracing.replaying import explain
from appl.tracing.replaying.amending import Amendments
from appl.tracing.replaying.explain import Site
from appl.tracing.replaying.outstanding import Outstanding, Sequence

if TYPE_CHECKING:
    from appl.runtime.answers.call import Call as Asked
    from appl.runtime.scheduling.holding import Why

_FEATURES = frozenset(
    [
        "choices",
        "regex",
        "grammar",
        "schema",
        "logprobs",
        "seed",
        "n",
        "prefill",
        "stream",
        "prefix_cache",
        "tools",
        "images",
        "audio",
        "reasoning",
    ]
)
_FIRST, DELIVERED = 0, 1
_MOMENTS = ("sleep", "timeout", "deadline", "cancelled")
"""Kinds of observations that come in a turn of their own; others are made by who sees them."""
_PATIENCE_S = 2.0
"""How long somebody who sleeps is waited for, who might ask for what comes next in the record."""
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
    turns: dict[str, Turn] = {}
    for call in trace.calls:
        if call.outcome in ("answered", "failed"):
            behind = trace.moments + call.end_position
            turn = behind if call.delivered is None else call.delivered
            turns[call.address] = (turn, DELIVERED)
    return turns


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


def showing(
    call: Call, emit: Emit, park: Callable[[Turn, Go], None]
) -> Callable[[int | None], None]:
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
        park((position, DELIVERED), functools.partial(show, count))
    return show


class Replayer:
    """The world of a run that is replayed: all that its programs are told comes from a trace.

    It answers before queue, limits and backend, so that a call reaches none of them. Let it also
    see the run's events, as an instrument: then it can name the source line of a call that differs.
    """

    holds = answers = True
    asks = False

    def __init__(self, trace: Trace | str | os.PathLike[str]) -> None:
        self.trace = trace if isinstance(trace, Trace) else Trace.open(trace, home=home())
        if self.trace.private and not self.trace.opened:
            raise SecretInRecord(explain.locked(self.trace))
        self._turns = turns_of(self.trace)
        self._amendments = Amendments.of(self.trace)
        self._seen = by_key(self.trace.observations)
        self._sites: dict[str, Site] = {}
        self._claimed: set[str] = set()
        self._calls: set[Asked] = set()  # which wait for their turn
        self._answered: set[str] = set()
        self._parked: list[tuple[Turn, int, Go]] = []
        self._endless: dict[Key, Tell] = {}
        self._arrivals = itertools.count()
        self._lock = threading.Lock()
        self._outstanding = Outstanding(self.trace, self._turns)
        self._sequence = Sequence(told_in(self.trace, self._turns))
        self._programs: Programs | None = None
        self.divergence: DivergenceError | SecretInRecord | None = None
        self._stuck: ReplayStuck | None = None

    # -- the world

    @property
    def backend(self) -> Nobody:
        """What to give to the run as its backend: it has the profile of the recorded one."""
        return Nobody(profile_from(self.trace.header.get("profile")))

    def opens(self, programs: Programs) -> None:
        """Have calls get the options that were set for them when they were recorded."""
        self._programs, programs.amend = programs, self._amendments.apply

    def expect(
        self, moment: Moment, tell: Tell, live: Go, about: Asked | Wanted | None = None
    ) -> None:
        """Tell what was told then, in its turn; only items of a map are begun *live*."""
        if moment.kind == "item":
            self._item(moment.address, tell, live)
        elif moment.kind == "tool":
            assert isinstance(about, Wanted)
            self._tool(moment, tell, about)
        elif moment.kind == "answer":
            assert about is not None and not isinstance(about, Wanted)
            self._answer(tell, about)
        else:
            self._moment(moment, tell)

    def see(self, moment: Moment, live: Callable[[], Any]) -> Any:
        """What was observed then; *live* is not called. Raises ``DivergenceError``."""
        seen = self._seen.get(key_of(moment))
        if seen is None:
            if self._stuck is not None:
                raise self._stuck
            raise self._diverged(DivergenceError(self._unseen(*key_of(moment))))
        if seen.masked:
            raise self._diverged(self._masked(f"{seen.kind} at {seen.address}", seen))
        return seen.value

    def leave(self, moment: Moment) -> None:
        """Nobody waits for that moment any more."""
        self._endless.pop(key_of(moment), None)

    def ends(self, moment: Moment, how: str, end: Go) -> None:
        """The program itself ends a call or a tool: in its turn, unless it was too late then."""
        address = moment.address
        found = self.trace.by_address.get(address) or self.trace.tools.get(address)
        if found is not None and found.outcome == how and found.delivered is not None:
            self._endless.pop(key_of(moment), None)
            self._park((found.delivered, DELIVERED), end)
        elif how == "failed" or found is None or found.outcome in (None, how):
            self._endless.pop(key_of(moment), None)
            end()

    def arrived(self, moment: Moment, end: Callable[[], object]) -> bool:
        """Somebody outside of the program ends a call: at once."""
        self._endless.pop((moment.address, 0, "answer"), None)
        end()
        return True

    def skip(self, address: str) -> None:
        """Nobody has to ask for what was recorded at *address* and below."""
        self._answered.add(address)

    def dropped(self, address: str) -> bool:
        """Whether a call at *address* or below was cancelled then."""
        return any(
            call.outcome == "cancelled"
            for call in self.trace.calls
            if call.address == address or call.address.startswith(f"{address}/")
        )

    def held(self) -> Iterator[tuple[Asked, Why, int]]:
        """The calls that wait for their turn, or for ever."""
        ahead = len(self._parked)
        for call in tuple(self._calls):
            if call.outcome is None:
                yield call, "recorded", ahead

    def idle(self, final: bool = True) -> bool:
        """Every program waits: tell the next thing; false when nothing can be told.

        Then, if *final* (nothing but this could move a program), who waits gets ``ReplayStuck``.
        """
        if self._is_early(final):
            return False
        with self._lock:
            go = heapq.heappop(self._parked)[2] if self._parked else None
        if go is not None:
            self._moves()
            go()
        elif final and self._endless and self._in_vain(final):
            self._give_up()
        else:
            return False
        return True

    def due(self) -> bool:
        """Whether what would be told next is what the program was told next then."""
        turn = self._next_turn()
        return turn is not None and self._sequence.complete(turn, self._is_excused)

    # -- what is recorded of a moment

    @functools.cached_property
    def _scopes(self) -> set[str]:
        return {scope.address for scope in self.trace.scopes}

    def _item(self, address: str, tell: Tell, live: Go) -> None:
        """Begin an item of a map that was begun then, or tell why no worker ended it."""
        seen = self._seen.get((address, 0, "lost"))
        if seen is not None:
            tell(WorkerLost(str(seen.value)))
        elif address in self._scopes:
            live()

    def _answer(self, tell: Tell, asked: Asked) -> None:
        request = asked.request
        assert request is not None
        call = self._claim(request)
        show = showing(call, tell, self._park) if asked.emit is not None and call.cuts else None
        self._tell_dispatched(call.address)

        def give() -> None:
            self._calls.discard(asked)
            if show is not None:
                show(None)
            tell(call.error if call.error is not None else call.response)

        turn = self._turns.get(call.address)
        self._calls.add(asked)
        if turn is not None:
            self._park(turn, give)
        else:
            self._endless[call.address, 0, "answer"] = tell
            self._look_soon()

    def _tell_dispatched(self, address: str) -> None:
        """Say that a call goes its way: so a recorded replay says what its original said."""
        if self._programs is not None:
            self._programs.emit(CallDispatched(address, 1, time.monotonic_ns()))

    def _claim(self, request: Request) -> Call:
        call = self.trace.by_address.get(request.address)
        if call is None or not answers(self.trace, call, request):
            site = self._sites.get(request.address, Site())
            text = explain.divergence(self.trace, request, site, self._claimed)
            raise self._diverged(DivergenceError(text))
        if call.masked:
            more = "; keep secrets out of prompts and answers, and record again"
            raise self._diverged(self._masked(f"{call.address} {call.where}", call, more))
        self._claimed.add(call.address)
        self._moves()
        return call

    def _moment(self, moment: Moment, tell: Tell) -> None:
        seen = self._seen.get(key_of(moment))
        if seen is not None:
            self._park((seen.position, DELIVERED), lambda: tell(None))
        elif moment.kind not in PERHAPS:
            self._endless[key_of(moment)] = tell
            self._look_soon()
        elif moment.kind == "cancelled":
            call = self.trace.by_address.get(moment.address)
            if call is not None and call.started is None and isinstance(call.error, CallCancelled):
                turn = self._turns.get(moment.address)
                if turn is not None:  # which a call that the program cancelled has not
                    self._park(turn, lambda: tell(None))

    def _tool(self, moment: Moment, tell: Tell, asked: Wanted) -> None:
        """Neither does the tool run, nor are the calls made that it made then."""
        address = moment.address
        used = self.trace.tools.get(address)
        wrong = (
            used.differs(asked.name, asked.arguments)
            if used is not None
            else "it was never called there"
        )
        if used is None or wrong:
            text = f"the tool at {address} was not recorded in {self.trace.path.name}: {wrong}"
            raise self._diverged(DivergenceError(f"{text}\n  {explain.CAUSES}"))
        if used.masked:
            raise self._diverged(self._masked(f"the tool call {address}", used))
        self._answered.add(address)
        self._claimed.add(address)
        told = used.delivered is not None or asked.at_once
        if used.outcome is None or (used.outcome == "cancelled" and not told):
            self._endless[key_of(moment)] = lambda _: tell(self._stuck or used.end())
            self._look_soon()
        elif asked.at_once:
            tell(used.end())
        else:
            behind = self.trace.moments + used.end_position
            turn = behind if used.delivered is None else used.delivered
            self._park((turn, DELIVERED), lambda: tell(used.end()))

    def _masked(self, what: str, record: Any, more: str = "") -> SecretInRecord:
        names = ", ".join(sorted(set(record.masked)))
        return SecretInRecord(
            f"{what} cannot be replayed: its record held {names}, which was masked{more}"
        )

    def _diverged(self, error: Any) -> Any:
        if self.divergence is None:
            self.divergence = error
        return error

    # -- the order

    def _park(self, turn: Turn, go: Go) -> None:
        with self._lock:
            heapq.heappush(self._parked, (turn, next(self._arrivals), go))
        self._sequence.comes(turn)
        self._look_soon()

    def _look_soon(self) -> None:
        """Have the run look whether all its programs wait: one may have waited before this hold."""
        if self._programs is not None:
            self._programs.look_soon()

    def _next_turn(self) -> Turn | None:
        with self._lock:
            return self._parked[0][0] if self._parked else None

    def _is_early(self, final: bool) -> bool:
        """Whether the next outcome came after another then, which was not asked for yet."""
        turn = self._next_turn()
        if turn is None or not self._outstanding.before(turn, self._is_asked):
            return False
        if not self._in_vain(final):
            return True
        self._outstanding.give_up(turn)
        return False

    def _is_asked(self, address: str) -> bool:
        return address in self._claimed or self._is_excused(address)

    def _is_excused(self, address: str) -> bool:
        """Whether it is a part of what is answered as a whole, or all of it."""
        return address in self._answered or within(address, self._answered)

    def _in_vain(self, final: bool) -> bool:
        return self._programs is None or self._programs.in_vain(final, _PATIENCE_S)

    def _moves(self) -> None:
        if self._programs is not None:
            self._programs.moved()

    def _give_up(self) -> None:
        endless, self._endless = self._endless, {}
        calls = [self.trace.by_address[key[0]] for key in endless if key[2] == "answer"]
        others = [key for key in endless if key[2] != "answer"]
        text = explain.stuck(calls, others, self._unasked())
        self._stuck = self._diverged(ReplayStuck(text))
        for tell in endless.values():
            tell(self._stuck)

    # -- the instrument

    def on_event(self, event: Event) -> None:
        """Remember where calls are issued from, and which tools are called."""
        if isinstance(event, CallStarted):
            where = f"{event.file}:{event.line}" if event.file else ""
            self._sites[event.request.address] = Site(where, event.edges)
        elif isinstance(event, ToolStarted):
            self._claimed.add(event.address)

    def _unseen(self, address: str, ordinal: int, kind: str) -> str:
        here = [o.kind for o in self.trace.observations if o.address == address]
        known = f"recorded there: {', '.join(here)}" if here else "nothing was recorded there"
        name = self.trace.path.name
        return f"{kind} number {ordinal} at {address} was never recorded in {name}; {known}"

    # -- the end

    def finish(self) -> None:
        """Check that all was asked for. Raises the first divergence, also one that the program
        caught, or ``UnusedRecords``."""
        if self.divergence is not None:
            raise self.divergence
        missing = self._unasked()
        if missing:
            raise UnusedRecords(explain.unused(self.trace, missing))

    def _unasked(self) -> list[Call | ToolUse]:
        """Recorded calls that a faithful program must have asked for by its end.

        In a run that failed, others may have been started without having mattered.
        """
        failed = self.trace.reason not in ("", "finished")
        every: list[Call | ToolUse] = [c for c in self.trace.calls if c.address in self._turns]
        every += [used for used in self.trace.tools.values() if used.message is not None]
        return [
            call
            for call in every
            if call.address not in self._claimed
            and call.started is not None
            and (call.delivered is not None or not failed)
            and not within(call.address, self._answered)
        ]


def key_of(moment: Moment) -> Key:
    """The key of what is recorded of *moment*."""
    return (moment.address, moment.ordinal, moment.kind)


def by_key(observations: list[Observation]) -> dict[Key, Observation]:
    return {(seen.address, seen.ordinal, seen.kind): seen for seen in observations}


def answers(trace: Trace, call: Call, request: Request) -> bool:
    """Whether *call* is the record of *request*; one that never started is known by place only."""
    if call.started is None:
        return True
    same = call.content == trace.content_of(request) and call.ordinal == request.ordinal
    return same and call.n == request.n and call.sample == request.sample


def profile_data(profile: Profile) -> dict[str, Any]:
    """A backend's profile as plain data, for the header of a trace."""
    return {
        "name": profile.name,
        "features": sorted(profile.features),
        "options": sorted(profile.options),
        "models": list(profile.models),
        "default_model": profile.default_model,
        **({} if profile.context is None else {"context": profile.context}),
    }


def profile_from(data: Any) -> Profile:
    """The profile of ``profile_data``, without limits; one that allows all when there is none."""
    if not isinstance(data, dict):
        return Profile("replay", _FEATURES)
    default = data.get("default_model")
    return Profile(
        name=str(data.get("name", "replay")),
        features=frozenset(map(str, data.get("features", _FEATURES))),
        options=frozenset(map(str, data.get("options", ()))),
        models=tuple(map(str, data.get("models", ()))),
        default_model=None if default is None else str(default),
    )
