"""Whatever fails, is cancelled or changes: every call ends once, and all room is given back."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import pytest

import appl
from appl import gen, ppl
from appl.backend import Emit, Request, Response
from appl.backend.price import Price
from appl.errors import ApplError, BackendUnavailable
from appl.runtime.scheduling import Placing, PrefixOrder, Scheduler, statuses
from appl.testing import (
    BackendEndpoint,
    CallEnded,
    CallStarted,
    Limits,
    Log,
    Model,
    Models,
    Policy,
    Retries,
    Run,
    VirtualClock,
    on_backend_loop,
)
from appl.testing.radix import RadixServer
from tests.drawn import counts


def said(name: str, words: int) -> str:
    return " ".join(f"{name}-{at}" for at in range(words))


class Moody(RadixServer):
    """Fails as *dice* say, and now and then its room or what may be asked at once changes."""

    def __init__(self, clock: VirtualClock, dice: random.Random) -> None:
        super().__init__(clock, dice.choice([150, 500, 2_000, 20_000]))
        self.schedulers: list[Scheduler | Placing] = []
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
        scheduler = self._dice.choice(self.schedulers)
        scheduler.resize(self._dice.randint(1, 9))
        scheduler.pause()
        self.clock.at(self.clock.now() + 0.1, scheduler.resume)


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


class Crash(Exception):
    """A program fails, and its run with it."""


class Storm:
    """At most so many random programs at once, on servers as moody as *seed* has it.

    Without *threads*, those that read their answers go one after the other. Several *runs* ask one
    server; of several *places* a run asks the next one when one fails, or is slow.
    """

    def __init__(self, seed: int, most: int, threads: bool, runs: int = 1, places: int = 1) -> None:
        self.seed, self.most, self.threads = seed, most, threads
        self.dice, self.clock = random.Random(seed), VirtualClock()
        servers = [Moody(self.clock, random.Random(seed + at)) for at in range(places)]
        policy = Policy(
            clock=self.clock,
            order=self.dice.choice(["program", "fifo"]),
            limits=Limits(concurrency=self.dice.choice([None, 1, 3, 20])),
            retries=Retries(attempts=self.dice.choice([1, 3])),
            prices={"": Price(1.0, 2.0)},
        )
        self.runs = [self.made(servers, policy) for _ in range(runs)]
        for server in servers:
            server.schedulers += [run.dispatch.scheduler for run in self.runs]
        self.orders = {each: order_of(each) for run in self.runs for each in schedulers_of(run)}

    def made(self, servers: list[Moody], policy: Policy) -> Run:
        first, *others = servers
        if not others:
            return Run(first, policy=policy, instruments=[Log()])
        names = [f"at{number}" for number in range(len(servers))]
        rest = tuple(Model(name, None) for name in names[1:])
        prefer = self.dice.choice(["order", "latency", "cost"])
        default = Model(names[0], None, others=rest, prefer=prefer)
        known = {name: server.profile for name, server in zip(names[1:], others, strict=True)}
        places = {
            name: BackendEndpoint(server, policy)
            for name, server in zip(names[1:], others, strict=True)
        }
        models = Models(first.profile, default, {}, names[0], known)
        return Run(first, policy=policy, instruments=[Log()], models=models, places=places)

    def program(self, number: int) -> None:
        own = random.Random(self.seed * 1_000 + number)
        calls = self.begun(number, 2 if self.threads else self.most, own)
        one_of(calls, own)

    def begun(self, number: int, most: int, own: random.Random) -> list[Any]:
        calls: list[Any] = []
        for at in range(most):
            with contextlib.suppress(ApplError):
                calls += started(f"{number}.{at}", own)
        return calls

    def rage(self, at: int) -> None:
        """In the run number *at*; without threads, in the next one meanwhile."""
        crash = len(self.runs) > 1 and self.dice.random() < 0.2
        with contextlib.suppress(ApplError, Crash), self.runs[at]:  # of what nobody looked at
            if self.threads:
                many = range(self.dice.randint(1, self.most))
                list(appl.map(lambda each: self.program(at * 100 + each), many, progress=False))
            else:
                own = random.Random(self.seed * 1_000 + at)
                calls = self.begun(at, self.most, own)
                if at + 1 < len(self.runs):
                    self.rage(at + 1)
                if not crash:
                    one_of(calls, own)
            if crash:
                raise Crash


def storm(seed: int, most: int, threads: bool, runs: int = 1, places: int = 1) -> None:
    weather = Storm(seed, most, threads, runs, places)
    if threads:
        with ThreadPoolExecutor(runs) as pool:
            list(pool.map(weather.rage, range(runs)))
    else:
        weather.rage(0)
    for scheduler, order in weather.orders.items():
        at_rest(scheduler, order, weather.clock)
    for run in weather.runs:
        log = cast(Log, run.reporter.instruments[0])
        ends = Counter(each.address for each in log.of(CallEnded))
        assert all(count == 1 for count in ends.values())
        assert {each.request.address for each in log.of(CallStarted)} <= ends.keys()


def schedulers_of(run: Run) -> list[Scheduler]:
    """The queue of each place that *run* asks."""
    queue = run.dispatch.scheduler
    return list(queue.schedulers.values()) if isinstance(queue, Placing) else [queue]


def order_of(scheduler: Scheduler) -> PrefixOrder:
    assert isinstance(scheduler.order, PrefixOrder)
    return scheduler.order


def at_rest(scheduler: Scheduler, order: PrefixOrder, clock: VirtualClock) -> None:
    """Nothing waits, nothing is under way, and no room is kept."""

    async def look() -> None:
        for _ in range(500):
            await asyncio.sleep(0)
            clock.advance()
        assert scheduler.order is not order and not scheduler.workers
        assert not list(statuses(scheduler)) and not list(order.waiting())
        assert not (order.size or order.busy)
        room = order.room
        assert not (room.held or room.inside or room.resting or room.lines or room.waiting)
        assert room.used == room.running == 0 and abs(room.to_come) < 1e-6

    on_backend_loop(look)  # behind what the ends of runs have sent


@counts(4, 12)
def test_every_call_of_a_storm_ends_once_and_nothing_is_left(count: int) -> None:
    for seed in range(count):
        storm(seed, 8, threads=False)


@counts(4, 12)
def test_nor_where_two_runs_share_one_cache(count: int) -> None:
    for seed in range(count):
        storm(seed, 8, threads=False, runs=2)


@counts(4, 12)
def test_nor_where_one_run_has_two_places(count: int) -> None:
    for seed in range(count):
        storm(seed, 8, threads=False, places=2)


def test_a_call_that_went_to_another_place_takes_no_room_where_it_failed() -> None:
    storm(716, 30, threads=False, places=3)  # it failed there before anybody had to be counted


@pytest.mark.long
@pytest.mark.parametrize("part", range(20))
def test_every_call_of_many_storms_ends_once(part: int) -> None:
    for seed in range(100 * part, 100 * part + 100):
        storm(seed, 60, threads=False)
        storm(seed, 30, threads=True)


@pytest.mark.long
@pytest.mark.parametrize("part", range(10))
def test_nor_do_many_storms_of_several_runs_and_places_leave_anything(part: int) -> None:
    for seed in range(100 * part, 100 * part + 100):
        storm(seed, 30, threads=False, runs=3)
        storm(seed, 10, threads=True, runs=3)
        storm(seed, 30, threads=False, places=3)
        storm(seed, 10, threads=True, runs=2, places=2)
