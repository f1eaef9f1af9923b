"""Whatever fails, is cancelled or changes: every call ends once, and all room is given back."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import Counter
from typing import Any

import pytest

import appl
from appl import gen, ppl
from appl.backend import Emit, Request, Response
from appl.errors import ApplError, BackendUnavailable
from appl.runtime.concurrency.crossing import io_thread
from appl.runtime.event import CallEnded, CallStarted
from appl.runtime.run import Run
from appl.runtime.scheduling.policy import Limits, Policy, Retries
from appl.runtime.scheduling.scheduler import Scheduler
from appl.runtime.scheduling.warming import PrefixFirst
from appl.testing import Log, VirtualClock
from appl.testing.radix import RadixServer


def said(name: str, words: int) -> str:
    return " ".join(f"{name}-{at}" for at in range(words))


class Moody(RadixServer):
    """Fails as *dice* say, and now and then its room or what may be asked at once changes."""

    scheduler: Scheduler

    def __init__(self, clock: VirtualClock, dice: random.Random) -> None:
        super().__init__(clock, dice.choice([150, 500, 2_000, 20_000]))
        self._dice, self._most = dice, self.cache_tokens
        self._share = dice.choice([0.0, 0.0, 0.1, 0.4])
        self._restless = dice.random() < 0.3

    async def warm(self, request: Request, tokens: int) -> None:
        self._fail()
        await super().warm(request, tokens)

    async def complete(self, request: Request, emit: Emit | None = None) -> Response:
        self._fail()
        if self._restless and self._dice.random() < 0.1:
            self._change()
        found = await super().complete(request, emit)
        assert 32 * len(self._used) <= self._most
        self._fail()
        return found

    def _fail(self) -> None:
        if self._dice.random() < self._share:
            raise BackendUnavailable("not now")

    def _change(self) -> None:
        self.cache_tokens = self._dice.randint(self._most // 2, self._most)
        self.scheduler.resize(self._dice.randint(1, 9))
        self.scheduler.pause()
        self.clock.at(self.clock.now() + 0.1, self.scheduler.resume)


def one_of(calls: list[Any], dice: random.Random) -> str:
    """What became of *calls*, some of which are cancelled before anybody looks."""
    if calls and dice.random() < 0.3:
        dice.choice(calls).cancel()
    found = ""
    for each in calls:
        with contextlib.suppress(ApplError):
            found = str(each)
    return found


@ppl
def single(name: str, dice: random.Random) -> Any:
    f"{said(name, dice.choice([1, 40, 200, 1_500]))}"
    return gen(max_tokens=4, priority=dice.choice([0, 0, 3]))


@ppl
def agent(name: str, dice: random.Random) -> Any:
    f"{said('shots', 100)}"
    for turn in range(dice.randint(1, 4)):
        answer = gen(max_tokens=8)
        f"{str(answer) if dice.random() < 0.5 else answer}"
        f"{said(f'{name}.{turn}', dice.choice([3, 60]))}"
    return gen(max_tokens=8)


@ppl(auto_prime=True)
def talk(name: str, dice: random.Random) -> Any:
    f"{said(name, 50)}"
    while True:
        yield str(gen(max_tokens=4))


@ppl(ctx="copy")
def branch(name: str, dice: random.Random) -> Any:
    f"{said(name, dice.choice([2, 70]))}"
    return gen(max_tokens=4, n=dice.choice([1, 2]))


@ppl
def fan(name: str, dice: random.Random) -> str:
    f"{said(dice.choice(['shots', name]), 150)}"
    return one_of([branch(f"{name}.{at}", dice) for at in range(dice.randint(1, 6))], dice)


def started(name: str, dice: random.Random) -> list[Any]:
    """Some program; the calls that are to be looked at later."""
    kind = dice.choice([single, agent, talk, fan])
    if kind is talk:
        there = talk(name, dice)
        for _ in range(dice.randint(0, 3)):
            next(there)
        return []
    return [kind(name, dice)]


def storm(seed: int, most: int, threads: bool) -> None:
    """At most so many random programs at once on a server as moody as *seed* has it.

    Without *threads*, those that read their answers go one after the other.
    """
    dice, clock, log = random.Random(seed), VirtualClock(), Log()
    server = Moody(clock, random.Random(seed))
    policy = Policy(
        clock=clock,
        order=dice.choice(["program", "prefix", "fifo"]),
        limits=Limits(concurrency=dice.choice([None, 1, 3, 20])),
        retries=Retries(attempts=dice.choice([1, 3])),
    )

    def program(number: int) -> None:
        own = random.Random(seed * 1_000 + number)
        calls: list[Any] = []
        for at in range(2 if threads else most):
            with contextlib.suppress(ApplError):
                calls += started(f"{number}.{at}", own)
        one_of(calls, own)

    run = Run(server, policy=policy, instruments=[log])
    assert isinstance(run.scheduler, Scheduler)
    server.scheduler = run.scheduler
    with contextlib.suppress(ApplError), run:  # of calls that failed and nobody looked at
        if threads:
            list(appl.map(program, range(dice.randint(1, most)), progress=False))
        else:
            program(0)
    at_rest(run.scheduler, clock)
    ends = Counter(each.address for each in log.of(CallEnded))
    assert all(count == 1 for count in ends.values())
    assert {each.request.address for each in log.of(CallStarted)} <= ends.keys()


def at_rest(scheduler: Scheduler, clock: VirtualClock) -> None:
    """Nothing waits, nothing is under way, and no room is kept."""

    async def look() -> None:
        for _ in range(500):
            await asyncio.sleep(0)
            clock.advance()
        ahead = scheduler._ahead
        assert isinstance(ahead, PrefixFirst)
        assert not list(scheduler.holdings())
        assert not (ahead.waiting or ahead.gathering or ahead._tasks or scheduler._workers)
        assert not (ahead._late or ahead._held or ahead._unseen or ahead._prints)
        assert ahead._with_server == 0
        ahead._residents.let_go()
        prefixes = ahead._prefixes
        assert not (prefixes._used or prefixes._waiting or prefixes._latest or prefixes._tails)

    asyncio.run_coroutine_threadsafe(look(), io_thread().loop).result(20)


def test_every_call_of_a_storm_ends_once_and_nothing_is_left() -> None:
    for seed in range(12):
        storm(seed, 8, threads=False)


@pytest.mark.long
@pytest.mark.parametrize("part", range(20))
def test_every_call_of_many_storms_ends_once(part: int) -> None:
    for seed in range(100 * part, 100 * part + 100):
        storm(seed, 60, threads=False)
        storm(seed, 30, threads=True)
