"""Answers a run from its trace: the same program gets the same values, and no backend is asked.

Invariant: a recorded answer is given only to the call of the same address, ordinal and content; the
answers are let go in the order in which they were delivered, one each time all programs wait.
"""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from appl.backend import Profile, Request
from appl.errors import DivergenceError, ReplayStuck, SecretInRecord, UnusedRecords, WorkerLost
from appl.runtime.event import CallDispatched, Event, ToolStarted
from appl.runtime.world import PERHAPS, Go, How, Moment, Nobody, Tell
from appl.tracing.reading.tooluse import End, ToolUse, within
from appl.tracing.reading.trace import Call, Trace
from appl.tracing.replaying import explain
from appl.tracing.replaying.sequencer import Key, Sequencer, key_of

if TYPE_CHECKING:
    from appl.runtime.answers.call import Call as Asked

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


class Replayer(Sequencer):
    """The world of a run that is replayed: all that its programs are told comes from a trace.

    It answers before queue, limits and backend, so that a call reaches none of them. Let it also
    see the run's events, as an instrument: then it can name the source line of a call that differs.
    """

    caches = False

    def __init__(self, trace: Trace | str | os.PathLike[str]) -> None:
        super().__init__(trace)
        self._answered: set[str] = set()
        self._endless: dict[Key, Tell] = {}
        self.divergence: DivergenceError | SecretInRecord | None = None
        self._stuck: ReplayStuck | None = None

    # -- the world

    @property
    def backend(self) -> Nobody:
        """What to give to the run as its backend: it has the profile of the recorded one."""
        return Nobody(profile_from(self.trace.header.get("profile")))

    def see(self, moment: Moment, live: Callable[[], Any]) -> Any:
        """What was observed then; *live* is not called. Raises ``DivergenceError``."""
        return super().see(moment, lambda: self._never_seen(*key_of(moment)))

    def _never_seen(self, address: str, ordinal: int, kind: str) -> Any:
        if self._stuck is not None:
            raise self._stuck
        here = [o.kind for o in self.trace.observations if o.address == address]
        known = f"recorded there: {', '.join(here)}" if here else "nothing was recorded there"
        name = self.trace.path.name
        raise self.noted(
            DivergenceError(
                f"{kind} number {ordinal} at {address} was never recorded in {name}; {known}"
            )
        )

    def leave(self, moment: Moment) -> None:
        """Nobody waits for that moment any more."""
        self._endless.pop(key_of(moment), None)

    def ends(self, moment: Moment, how: How, end: Go) -> None:
        self.leave(moment)
        super().ends(moment, how, end)

    def arrived(self, moment: Moment, end: Callable[[], object]) -> bool:
        self.leave(Moment(moment.address, "answer"))
        return super().arrived(moment, end)

    def skip(self, address: str) -> None:
        """Nobody has to ask for what was recorded at *address* and below."""
        self._answered.add(address)

    def idle(self, final: bool = True) -> bool:
        """Every program waits: tell the next thing; false when nothing can be told.

        Then, if *final* (nothing but this could move a program), who waits gets ``ReplayStuck``.
        """
        if self.is_early(final):
            return False
        if self.release():
            return True
        if not (final and self._endless and self.still(final)):
            return False
        self._give_up()
        return True

    # -- what is recorded of a moment

    @functools.cached_property
    def _scopes(self) -> set[str]:
        return {scope.address for scope in self.trace.scopes}

    def item(self, moment: Moment, tell: Tell, live: Go) -> None:
        """Begin an item of a map that was begun then, or tell why no worker ended it."""
        seen = self._seen.get((moment.address, 0, "lost"))
        if seen is not None:
            tell(WorkerLost(str(seen.value)))
        elif moment.address in self._scopes:
            live()

    def answer(self, call: Asked, tell: Tell, live: Go) -> None:
        """Answer *call* in its turn. Raises ``DivergenceError``."""
        assert call.request is not None
        found = self._found(call.request)
        self.programs.emit(CallDispatched(found.address, 1, time.monotonic_ns()))
        go, turn = self.prepared(call, found, tell), self._turns.get(found.address)
        if turn is None:
            self._never(Moment(found.address, "answer"), tell)
        else:
            self.park(turn, go)

    def _never(self, moment: Moment, tell: Tell) -> None:
        """*moment* had not come when the record ended."""
        self._endless[key_of(moment)] = tell
        self.look_soon()

    def _found(self, request: Request) -> Call:
        """The record of *request*."""
        found = self.trace.by_address.get(request.address)
        if found is None or not answers(self.trace, found, request):
            raise self.noted(self.diverged(request))
        self.check_usable(found)
        return found

    def unrecorded(self, moment: Moment, tell: Tell, live: Go) -> None:
        if moment.kind not in PERHAPS:
            self._never(moment, tell)

    def tool(self, address: str, name: str, arguments: str, at_once: bool, end: End) -> bool:
        """Neither does the tool run, nor are the calls made that it made then."""
        used = self.trace.tools.get(address)
        unlike = used.differs(name, arguments) if used is not None else "it was never called there"
        if used is None or unlike:
            text = f"the tool at {address} was not recorded in {self.trace.path.name}: {unlike}"
            raise self.noted(DivergenceError(f"{text}\n  {explain.CAUSES}"))
        self.check_usable(used)
        self._answered.add(address)
        self.claimed.add(address)
        told = used.delivered is not None or at_once
        if used.outcome is None or (used.outcome == "cancelled" and not told):
            self._never(Moment(address, "tool"), lambda _: end(self._stuck or used.end()))
        else:
            self.end_tool(used, at_once, end)
        return True

    def noted(self, error: Any) -> Any:
        """*error*, which is raised at the end of the run too, unless an earlier one is."""
        self.divergence = self.divergence or error
        return error

    def excused(self, address: str) -> bool:
        return address in self._answered or within(address, self._answered)

    def _give_up(self) -> None:
        endless, self._endless = self._endless, {}
        calls = [self.trace.by_address[key[0]] for key in endless if key[2] == "answer"]
        others = [key for key in endless if key[2] != "answer"]
        self._stuck = self.noted(ReplayStuck(explain.stuck(calls, others, self._unasked())))
        for tell in endless.values():
            tell(self._stuck)

    def on_event(self, event: Event) -> None:
        """Remember where calls are issued from, and which tools are called."""
        super().on_event(event)
        if isinstance(event, ToolStarted):
            self.claimed.add(event.address)

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
            if call.address not in self.claimed
            and call.started is not None
            and (call.delivered is not None or not failed)
            and not within(call.address, self._answered)
        ]


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
