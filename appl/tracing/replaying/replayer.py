"""Answers a run from its trace: the same program gets the same values, and no backend is asked.

Invariant: a recorded answer is given only to the call of the same address, ordinal and content; the
answers are let go in the order in which they were delivered, one each time all programs wait.
"""

from __future__ import annotations

import asyncio
import functools
import heapq
import itertools
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from appl.backend import Emit, Profile, Request, Response
from appl.errors import CallCancelled, DivergenceError, ReplayStuck, SecretInRecord, UnusedRecords
from appl.runtime.event import CallStarted, Event, ToolStarted
from appl.tracing.reading.tooluse import End, ToolUse, within
from appl.tracing.reading.trace import Call, Observation, Trace
from appl.tracing.recording.recorder import home
from appl.tracing.replaying import explain
from appl.tracing.replaying.amending import Amendments
from appl.tracing.replaying.explain import Site
from appl.tracing.replaying.outstanding import Outstanding, Sequence

if TYPE_CHECKING:
    from appl.runtime.answers.call import Call as Asked
    from appl.runtime.concurrency.quiet import Quiet

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
_PERHAPS = ("deadline", "cancelled")
"""Moments that need not come: the block ended in time, nobody ended the function from outside."""
Turn = tuple[int, int]
Go = Callable[[], None]
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
    """A backend, an instrument and the effects of a run, all answered from a trace.

    Let it also see the run's events (as an instrument), so that it can name the source line of a
    call that differs. ``on_quiet`` is for the run to call whenever every program waits. Time does
    not count in a replay: ``timeless`` tells the run to keep no time limits.
    """

    timeless = True

    def __init__(self, trace: Trace | str | os.PathLike[str]) -> None:
        self.trace = trace if isinstance(trace, Trace) else Trace.open(trace, home=home())
        if self.trace.private and not self.trace.opened:
            raise SecretInRecord(explain.locked(self.trace))
        self._turns = turns_of(self.trace)
        self._amendments = Amendments.of(self.trace)
        self._seen = by_key(self.trace.observations)
        self._sites: dict[str, Site] = {}
        self._claimed: set[str] = set()
        self._answered: set[str] = set()
        self._scopes: set[str] | None = None
        self._parked: list[tuple[Turn, int, Go]] = []
        self._endless: dict[str, asyncio.Future[None]] = {}
        self._moments: dict[Key, Go] = {}
        self._arrivals = itertools.count()
        self._lock = threading.Lock()
        self._outstanding = Outstanding(self.trace, self._turns)
        self._sequence = Sequence(told_in(self.trace, self._turns))
        self._quiet: Quiet | None = None
        self.divergence: DivergenceError | SecretInRecord | None = None
        self._stuck: ReplayStuck | None = None

    # -- the backend -----------------------------------------------------------------------

    @property
    def backend(self) -> Replayer:
        """What to give to the run as its backend."""
        return self

    @property
    def effects(self) -> Replayer:
        """What to give to the run as its effects."""
        return self

    @property
    def profile(self) -> Profile:
        """The recorded backend's, without its limits: everything waits here, at no cost."""
        return profile_from(self.trace.header.get("profile"))

    def amend(self, call: Asked) -> None:
        """A call is about to become a request: it gets the options that were set for it then."""
        self._amendments.apply(call)

    async def complete(self, request: Request, emit: Emit | None = None) -> Response:
        """The recorded outcome of *request*, when its turn comes. Raises ``DivergenceError``."""
        call = self._claim(request)
        show = showing(call, emit, self._park) if emit is not None and call.cuts else None
        await self._turn(call)
        if show is not None:
            show(None)
        if call.error is not None:
            raise call.error
        assert call.response is not None
        return call.response

    async def aclose(self) -> None:
        """Nothing is held."""

    def watched_by(self, quiet: Quiet) -> None:
        """*quiet* knows whether the programs of the run can go on by themselves."""
        self._quiet = quiet

    def _claim(self, request: Request) -> Call:
        call = self.trace.by_address.get(request.address)
        if call is None or not answers(self.trace, call, request):
            site = self._sites.get(request.address, Site())
            text = explain.divergence(self.trace, request, site, self._claimed)
            raise self._diverged(DivergenceError(text))
        if call.masked:
            names = ", ".join(sorted(set(call.masked)))
            raise self._diverged(
                SecretInRecord(
                    f"{call.address} {call.where} cannot be replayed: its record held {names}, "
                    "which was masked; keep secrets out of prompts and answers, and record again"
                )
            )
        self._claimed.add(call.address)
        self._moves()
        return call

    def on_admit(self, address: str, go: Go) -> None:
        """A call waits for a part of its prompt: *go* ends it if somebody did then, from outside.

        In its turn; one that had begun then ends as its record says.
        """
        call = self.trace.by_address.get(address)
        if call is not None and call.started is None and isinstance(call.error, CallCancelled):
            turn = self._turns.get(address)
            if turn is not None:  # which a call that the program cancelled has not
                self._park(turn, go)

    def on_cancel(self, address: str, go: Go) -> bool:
        """The program cancels a call: *go* ends it, if then it was not too late, in its turn."""
        call = self.trace.by_address.get(address) or self.trace.tools.get(address)
        if call is None or (call.outcome == "cancelled" and call.delivered is None):
            return False
        if call.outcome == "cancelled" and call.delivered is not None:
            self._park((call.delivered, DELIVERED), go)
        return call.outcome is not None

    def on_failed(self, address: str, go: Go) -> bool:
        """A call fails with a part of its prompt: *go* ends it when the program was told then."""
        call = self.trace.by_address.get(address)
        if call is None or call.outcome != "failed" or call.delivered is None:
            return False
        self._park((call.delivered, DELIVERED), go)
        return True

    def begun(self, address: str) -> bool:
        """Whether there is a record of what has the scope *address*."""
        if self._scopes is None:
            self._scopes = {scope.address for scope in self.trace.scopes}
        return address in self._scopes

    def lost(self, address: str) -> str | None:
        """Why the item *address* of a map had no worker that ended it, if it had none."""
        seen = self._seen.get((address, 0, "lost"))
        return None if seen is None else str(seen.value)

    def excuse(self, address: str) -> None:
        """Nobody has to ask for what was recorded at *address* and below."""
        self._answered.add(address)

    def dropped(self, address: str) -> bool:
        """Whether a call at *address* or below was cancelled then."""
        return any(
            call.outcome == "cancelled"
            for call in self.trace.calls
            if call.address == address or call.address.startswith(f"{address}/")
        )

    def _diverged(self, error: Any) -> Any:
        if self.divergence is None:
            self.divergence = error
        return error

    async def _turn(self, call: Call) -> None:
        """Wait until the recorded outcome of *call* may be given."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        turn = self._turns.get(call.address)
        if turn is not None:
            self._park(turn, lambda: _open(future))
            await future
            return
        self._endless[call.address] = future
        self._look_soon()
        try:
            await future
        finally:
            self._endless.pop(call.address, None)

    def _park(self, turn: Turn, go: Go) -> None:
        with self._lock:
            heapq.heappush(self._parked, (turn, next(self._arrivals), go))
        self._sequence.comes(turn)
        self._look_soon()

    def _look_soon(self) -> None:
        """Have the run look whether all its programs wait: one may have waited before this hold."""
        if self._quiet is not None:
            self._quiet.soon()

    def in_turn(self) -> bool:
        """Whether what would be let go next is what the program was told next then."""
        turn = self._next_turn()
        return turn is not None and self._sequence.complete(turn, self._is_excused)

    def _next_turn(self) -> Turn | None:
        with self._lock:
            return self._parked[0][0] if self._parked else None

    def on_quiet(self, final: bool = True) -> bool:
        """Let go the next recorded outcome; the run calls this on the I/O loop when all wait.

        False means that nothing can be let go. Then, if *final* (nothing but this backend could
        wake a program), whoever waits gets ``ReplayStuck``.
        """
        if self._is_early(final):
            return False
        with self._lock:
            go = heapq.heappop(self._parked)[2] if self._parked else None
        if go is not None:
            self._moves()
            go()
        elif final and (self._endless or self._moments) and self._in_vain(final):
            self._give_up()
        else:
            return False
        return True

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
        return self._quiet is None or self._quiet.in_vain(final, _PATIENCE_S)

    def _moves(self) -> None:
        if self._quiet is not None:
            self._quiet.moved()

    def _give_up(self) -> None:
        waiting = [self.trace.by_address[address] for address in self._endless]
        text = explain.stuck(waiting, list(self._moments), self._unasked())
        self._stuck = self._diverged(ReplayStuck(text))
        for future in list(self._endless.values()):
            if not future.done():
                future.set_exception(self._stuck)
        moments, self._moments = self._moments, {}
        for go in moments.values():
            go()

    # -- the instrument --------------------------------------------------------------------

    def on_event(self, event: Event) -> None:
        """Remember where calls are issued from, and which tools are called."""
        if isinstance(event, CallStarted):
            where = f"{event.file}:{event.line}" if event.file else ""
            self._sites[event.request.address] = Site(where, event.edges)
        elif isinstance(event, ToolStarted):
            self._claimed.add(event.address)

    # -- the effects -----------------------------------------------------------------------

    def turn(self, address: str, ordinal: int, kind: str, go: Go) -> bool:
        """Call *go* when the program was told so then; a sleep costs no time in a replay.

        What was never told (it was cancelled, or the record ends before) is not told now either.
        """
        seen = self._seen.get((address, ordinal, kind))
        if seen is not None:
            self._park((seen.position, DELIVERED), go)
        elif kind not in _PERHAPS:
            self._moments[address, ordinal, kind] = go
            self._look_soon()
        return True

    def leave(self, address: str, ordinal: int, kind: str) -> None:
        """Nobody waits for that moment any more."""
        self._moments.pop((address, ordinal, kind), None)

    def perform(self, address: str, ordinal: int, kind: str, live: Callable[[], Any]) -> Any:
        """What was observed then; *live* is not called. Raises ``DivergenceError``."""
        seen = self._seen.get((address, ordinal, kind))
        if seen is None:
            if self._stuck is not None:
                raise self._stuck
            raise self._diverged(DivergenceError(self._unseen(address, ordinal, kind)))
        if seen.masked:
            raise self._diverged(
                SecretInRecord(
                    f"{kind} at {address} cannot be replayed: its record held "
                    f"{', '.join(sorted(set(seen.masked)))}, which was masked"
                )
            )
        return seen.value

    def tool(self, address: str, name: str, arguments: str, at_once: bool, end: End) -> bool:
        """Give *end* the recorded result of a tool call: at once, or when its turn comes.

        The tool does not run, nor do the calls that it made then. Raises ``DivergenceError``.
        """
        used = self.trace.tools.get(address)
        wrong = used.differs(name, arguments) if used is not None else "it was never called there"
        if used is None or wrong:
            text = f"the tool at {address} was not recorded in {self.trace.path.name}: {wrong}"
            raise self._diverged(DivergenceError(f"{text}\n  {explain.CAUSES}"))
        if used.masked:
            raise self._diverged(
                SecretInRecord(
                    f"the tool call {address} cannot be replayed: its record held "
                    f"{', '.join(sorted(set(used.masked)))}, which was masked"
                )
            )
        self._answered.add(address)
        self._claimed.add(address)
        told = used.delivered is not None or at_once
        if used.outcome is None or (used.outcome == "cancelled" and not told):
            self._moments[address, 0, "tool"] = lambda: end(self._stuck or used.end())
            self._look_soon()
        elif at_once:
            end(used.end())
        else:
            behind = self.trace.moments + used.end_position
            turn = behind if used.delivered is None else used.delivered
            self._park((turn, DELIVERED), lambda: end(used.end()))
        return True

    def _unseen(self, address: str, ordinal: int, kind: str) -> str:
        here = [o.kind for o in self.trace.observations if o.address == address]
        known = f"recorded there: {', '.join(here)}" if here else "nothing was recorded there"
        name = self.trace.path.name
        return f"{kind} number {ordinal} at {address} was never recorded in {name}; {known}"

    # -- the end ---------------------------------------------------------------------------

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


def _open(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


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
