"""Servers that refuse calls, drawn from seeds, and a naive simulation of what calls do about it.

The simulation knows nothing of the scheduler. It keeps the list of all that the server has said,
and looks through it anew for every question of the published rule (docs/concepts/limits.md).
"""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from appl import Generation, gen, ppl
from appl.backend import Emit, Request, Response
from appl.errors import BackendBusy, BackendError, BackendUnavailable
from appl.runtime.scheduling.patience import wait_s
from appl.testing import (
    Answer,
    BackendEndpoint,
    CallEnded,
    CallStarted,
    Event,
    Fake,
    Late,
    Model,
    Models,
    Policy,
    Retries,
    Run,
    VirtualClock,
    response,
    said,
)

YEARS = 99_999_999_999.0
HOUR = 3600.0


class Word(NamedTuple):
    """What a server says after *seconds*: ``ok``, ``busy`` or ``dead``, and the wait it asks."""

    seconds: float
    kind: str
    asked: float | None = None

    def answer(self) -> Answer:
        """The same for a backend."""
        if self.kind == "ok":
            return response("yes")
        if self.kind == "busy":
            return BackendBusy("429", retry_after=self.asked)
        return BackendUnavailable("nobody listens", retry_after=self.asked, worked=False)


Says = Callable[[int, int, float], Word]
"""What is said to so many a call, to its attempt of that number, at that time."""


@dataclass(frozen=True)
class Case:
    """So many calls, ready at those times, at a server that says something to each."""

    says: Says
    ready: tuple[float, ...]
    retries: Retries
    adaptive: bool = False


class Said(Fake):
    """The server of a case, on a clock; ``log`` is what it said: when it was asked, and by whom."""

    def __init__(self, says: Says, clock: VirtualClock, **profile: Any) -> None:
        super().__init__(lambda _: "", **{"name": "said", **profile})
        self.says, self.clock = says, clock
        self.log: list[tuple[float, int, Word]] = []
        self._attempts: dict[int, int] = {}

    async def complete(self, request: Request, emit: Emit | None = None) -> Response:
        """What is said, after its seconds."""
        number, now = number_of(request.address), self.clock.now()
        attempt = self._attempts[number] = self._attempts.get(number, 0) + 1
        word = self.says(number, attempt, now)
        self.log.append((now, number, word))
        await self.clock.sleep(word.seconds)
        answer = word.answer()
        if isinstance(answer, BaseException):
            raise answer
        assert isinstance(answer, Response)
        return answer

    def on_idle(self, final: bool = True) -> bool:
        """Move the clock."""
        return self.clock.advance()


class Ends:
    """Notes when calls end, on the clock of a test, and how."""

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock
        self.of: dict[int, tuple[float, str]] = {}
        self.ready: dict[int, float] = {}
        self.errors: dict[int, BaseException] = {}

    def on_event(self, event: Event) -> None:
        """Note the beginning or the end of a call."""
        if isinstance(event, CallStarted):
            self.ready[number_of(event.address)] = self._clock.now()
        if isinstance(event, CallEnded) and not _TIMER.fullmatch(event.address):
            number = number_of(event.address)
            how = "ok" if event.error is None else type(event.error).__name__
            self.of[number] = (round(self._clock.now(), 6), how)
            if event.error is not None:
                self.errors[number] = event.error


_TIMER = re.compile(r"/ask\.\d+/gen\.0")


def number_of(address: str) -> int:
    """The number of the call at *address*: of its ``ask``, or else in its function."""
    function, call = address.split("/")[1:]
    return int((function if function.startswith("ask.") else call).rpartition(".")[2])


@ppl
def ask(at: float) -> Generation:
    f"{gen('timer', messages=str(at))}"  # the question is ready when this is there
    return gen()


def played(case: Case, seed: int, **options: Any) -> tuple[Ends, Said]:
    """The ends of the calls of *case* in a run, on a clock of its own, and their server."""
    clock = VirtualClock()
    server, ends = Said(case.says, clock), Ends(clock)
    timer = Late(
        lambda _: "go", clock, lambda request: float(said(request).rpartition(" ")[2]), name="timer"
    )
    models = Models(
        server.profile, None, {"timer": Model("timer", None)}, "said", {"timer": timer.profile}
    )
    policy = Policy(clock=clock, retries=case.retries, adaptive=case.adaptive)
    with Run(
        server, policy=policy, seed=seed, models=models, instruments=[ends],
        places={"timer": BackendEndpoint(timer, Policy(clock=clock))}, **options,
    ):  # fmt: skip
        for answer in [ask(at) for at in case.ready]:
            with contextlib.suppress(BackendError):
                str(answer)
    return ends, server


# -- the simulation


@dataclass
class _Call:
    number: int
    ready: float
    attempts: int = 0
    failed: int = 0
    away: int = 0
    refused: float | None = None
    looks: float = -math.inf


class _Heard(NamedTuple):
    """What was said at that time; ``probed`` if to a probe."""

    at: float
    word: Word
    probed: bool


@dataclass
class Simulation:
    """Plays a case, with room for all attempts at once; ``ends`` is when each call ended, and how.

    Calls are at rest, in the ``queue``, at the ``gate``, or ``asked``, with the server.
    """

    case: Case
    seed: int
    ends: dict[int, tuple[float, str]] = field(default_factory=dict)
    heard: list[_Heard] = field(default_factory=list)
    queue: list[_Call] = field(default_factory=list)
    gate: list[_Call] = field(default_factory=list)
    resting: dict[int, tuple[float, _Call]] = field(default_factory=dict)
    asked: dict[int, tuple[float, _Call, Word]] = field(default_factory=dict)
    probe: _Call | None = None
    news: bool = False
    now: float = 0.0

    def run(self) -> dict[int, tuple[float, str]]:
        """When each call ended, and how."""
        coming = [_Call(number, at) for number, at in enumerate(self.case.ready)]
        while len(self.ends) < len(self.case.ready):
            times = [call.ready for call in coming]
            times += [at for at, *_ in [*self.resting.values(), *self.asked.values()]]
            times += [call.looks for call in self.gate]
            self.now = min(times)
            self.queue += [call for call in coming if call.ready <= self.now]
            coming = [call for call in coming if call.ready > self.now]
            self._step()
        return self.ends

    def _step(self) -> None:
        for at, call, word in [*self.asked.values()]:
            if at <= self.now:
                del self.asked[call.number]
                self._hears(call, word)
        for at, call in [*self.resting.values()]:
            if call.number in self.resting and (at <= self.now or self._asks_for_more(call)):
                del self.resting[call.number]
                call.looks = self.now
                self._end(call) if self._asks_for_more(call) else self.gate.append(call)
        self._look()

    def _look(self) -> None:
        """Let go who may: those at the gate first, then those in the queue, one by one."""
        for call in [*self.gate]:
            if self.news or call.looks <= self.now or self._asks_for_more(call):
                self._try(call)
            if call.number in self.ends:  # its worker takes the next one at once
                self._take()
        self.news = False
        self._take()

    def _take(self) -> None:
        while self.queue and (not self.gate or self._in_vain()):
            self.gate.append(call := self.queue.pop(0))
            self._try(call)

    def _try(self, call: _Call) -> None:
        late, blocked = self._late(call), self._blocked()
        last = max((each.at for each in self._outage()), default=-math.inf)
        if (late <= self.now or late < self._asked_until()) if blocked else late <= last:
            self.gate.remove(call)
            self._end(call)
        elif blocked:  # who looks again goes behind those who came meanwhile
            self.gate.remove(call)
            self.gate.append(call)
            moments = [late, *self._moments()]
            call.looks = min((at for at in moments if at > self.now), default=math.inf)
        else:
            self.gate.remove(call)
            self.probe = call if self._dead() else None
            call.attempts += 1
            word = self.case.says(call.number, call.attempts, self.now)
            self.asked[call.number] = (self.now + word.seconds, call, word)

    def _hears(self, call: _Call, word: Word) -> None:
        probed = self.probe is call
        if probed or word.kind != "dead":
            self.probe, self.news = None, True
        self.heard.append(_Heard(self.now, word, probed))
        if word.kind == "ok":
            self.ends[call.number] = (round(self.now, 6), "ok")
            return
        if call.refused is None:
            call.refused = self.now
        if word.kind == "busy" or self._dead():
            call.away += 1
        else:
            call.failed += 1
            if call.failed >= self.case.retries.attempts:
                self._end(call, word)
                return
        left, asked = self._late(call) - self.now, word.asked or 0.0
        if left <= 0 or asked > left:
            self._end(call, word)
            return
        address = f"/ask.{call.number}/gen.1"
        rest = wait_s(self.case.retries, self.seed, address, max(call.failed, call.away), asked)
        self.resting[call.number] = (self.now + min(rest, left), call)

    def _end(self, call: _Call, word: Word | None = None) -> None:
        refusal = word or [each.word for each in self.heard if each.word.kind != "ok"][-1]
        name = "BackendBusy" if refusal.kind == "busy" else "BackendUnavailable"
        self.ends[call.number] = (round(self.now, 6), name)

    # -- the rule

    def _outage(self) -> list[_Heard]:
        """The refusals since the last good answer."""
        good = [at for at, each in enumerate(self.heard) if each.word.kind == "ok"]
        return self.heard[good[-1] + 1 :] if good else self.heard[:]

    def _began(self) -> float:
        """The first refusal since the last good answer; that answer, if there is none."""
        outage = self._outage()
        return outage[0].at if outage else self.heard[-1].at if self.heard else -math.inf

    def _late(self, call: _Call) -> float:
        begins = max(self._began(), call.ready)
        if call.refused is not None:
            begins = min(begins, call.refused)
        return begins + self.case.retries.patience_s

    def _deaths(self) -> list[_Heard]:
        """The latest refusals that are no sign of life, in a row."""
        deaths: list[_Heard] = []
        for each in self._outage():
            deaths = [*deaths, each] if each.word.kind == "dead" else []
        return deaths

    def _dead(self) -> bool:
        """True if one call alone is sent."""
        deaths, patience = self._deaths(), self.case.retries.patience_s
        return len(deaths) >= 5 or any((each.word.asked or 0) > patience for each in self._tail())

    def _tail(self) -> list[_Heard]:
        """The refusals since the last one that was a sign of life, that one too."""
        outage, deaths = self._outage(), self._deaths()
        return outage[len(outage) - len(deaths) - 1 :] if len(deaths) < len(outage) else deaths

    def _asked_until(self) -> float:
        """The end of the time for which the server wants to be left alone."""
        longest = max(self.case.retries.patience_s, HOUR)
        asked = (each.at + min(each.word.asked, longest) for each in self.heard if each.word.asked)
        return max(asked, default=-math.inf)

    def _pause_until(self) -> float:
        """The end of the time for which a dead server is left alone."""
        retries, until = self.case.retries, -math.inf
        pause = retries.base_s
        dead = any((each.word.asked or 0) > retries.patience_s for each in self._tail()[:1])
        for deaths, each in enumerate(self._deaths(), 1):
            if each.probed or (deaths == 5 and not dead):
                pause = min(2 * pause, retries.cap_s, retries.patience_s / 4)
                until = each.at + pause
            dead = dead or deaths >= 5 or (each.word.asked or 0) > retries.patience_s
        return until

    def _alone_until(self) -> float:
        return max(self._asked_until(), self._pause_until())

    def _blocked(self) -> bool:
        return self.now < self._alone_until() or (self._dead() and self.probe is not None)

    def _asks_for_more(self, call: _Call) -> bool:
        until = self._asked_until()
        return self.now < until and self._late(call) < until

    def _in_vain(self) -> bool:
        """True if calls are over that have waited since the outage began."""
        late = self._began() + self.case.retries.patience_s
        last = max((each.at for each in self._outage()), default=-math.inf)
        return (late <= self.now or late < self._asked_until()) if self._blocked() else late <= last

    def _moments(self) -> Iterator[float]:
        yield self._alone_until()
        yield self._began() + self.case.retries.patience_s
