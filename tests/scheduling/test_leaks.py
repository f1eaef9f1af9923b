"""Whatever is cancelled, late, paused or refused: slots, reservations, probes and timers come back.

Dispatcher are asked directly, on a virtual clock, which fails a test in which everybody waits for ever.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from types import SimpleNamespace

import pytest

from appl.backend import Request, Response, Sample, Sampling, Usage
from appl.backend.price import NOTHING, Price, used_by
from appl.errors import (
    ApplError,
    BackendBusy,
    BackendError,
    BackendTimeout,
    BackendUnavailable,
    MalformedResponse,
)
from appl.prompt import Message, Messages
from appl.runtime.scheduling import Account, Amounts, Dispatcher, Traffic
from appl.runtime.scheduling.accounts import ONE, BudgetLedger
from appl.testing import Allowance, Deadlines, Late, Limits, Policy, Retries, VirtualClock

PROMPT = Messages.of([Message("user", "Well?")])
ANSWER = Response((Sample("yes", "stop"),), Usage(6, 4))
RUN = SimpleNamespace(
    reporter=SimpleNamespace(watcher=None),
    outside=SimpleNamespace(idle_detection=None),
    closed=False,
)


class Question:
    """What attempts look at of a call."""

    emit = outcome = None
    others = ()
    run, attempts = RUN, 0

    def __init__(self, number, account=None, timeout=None):
        self.address, self.account, self.timeout = f"/gen.{number}", account, timeout
        sampling = Sampling(max_tokens=10)
        self.request = Request(self.address, number, "m", PROMPT, sampling, timeout=timeout)


class Server(Late):
    """Fails as *dice* say, also to be connected with, and has *meanwhile* called now and then.

    ``sent`` counts what has reached it and may cost, ``here`` whose requests it works on.
    """

    def __init__(self, clock, dice, meanwhile):
        delays, share = [0.0, 0.01, 1.0, 4.0], dice.choice([0.0, 0.4, 0.9])
        super().__init__(self.drawn, clock, lambda _: dice.choice(delays), features={"stream"})
        self.dice, self.share, self.meanwhile = dice, share, meanwhile
        self.sent, self.here = 0, Counter()

    def drawn(self, request):
        return fault(self.dice) if self.dice.random() < self.share else ANSWER

    async def complete(self, request, emit=None):
        self.sent += 1
        self.here[request.address] += 1
        try:
            return await super().complete(request, emit)
        except BackendError as error:
            self.sent -= used_by(error) == NOTHING
            raise
        finally:
            self.here[request.address] -= 1
            if self.dice.random() < 0.2:
                asyncio.get_running_loop().call_soon(self.meanwhile)

    async def connect(self):
        await self.clock.sleep(self.dice.choice([0.0, 0.5, 3.0]))
        if self.dice.random() < self.share:
            raise BackendUnavailable("nobody there")


def fault(dice):
    return dice.choice(
        [
            BackendBusy("429", retry_after=dice.choice([None, 0.5, 3.0])),
            BackendUnavailable("reset"),
            BackendUnavailable("503", retry_after=1.0),
            BackendUnavailable("refused", worked=False),
            BackendTimeout("slow", deadline="first token"),
            MalformedResponse("cut", usage=(6, 2, None)),
            BackendError("no"),
        ]
    )


def drawn_policy(dice, clock):
    return Policy(
        clock=clock,
        limits=Limits(
            concurrency=dice.choice([None, 1, 3]),
            requests=dice.choice([None, 5]), period_s=5,
            tokens_per_minute=dice.choice([None, 300]),
        ),
        slow_start=dice.random() < 0.3,
        concurrency_start=2,
        prices={"": Price(1.0, 2.0)},
        retries=Retries(attempts=dice.choice([1, 3]), patience_s=dice.choice([2.0, 30.0])),
        deadlines=dice.choice(
            [Deadlines(), Deadlines(first_token_s=2, between_tokens_s=2), Deadlines(total_s=5)]
        ),
        circuit=dice.random() < 0.7,
    )  # fmt: skip


class Storm:
    """Two runs that ask one server, each with a budget of its own and blocks inside it."""

    def __init__(self, seed):
        self.dice, self.clock = random.Random(seed), VirtualClock()
        self.policy = drawn_policy(self.dice, self.clock)
        self.server = Server(self.clock, self.dice, self.act)
        self.traffic = Traffic(self.policy, self.policy.limits.concurrency)
        self.ways, self.accounts = [], []
        for _ in range(2):
            way = Dispatcher(self.server, self.policy, seed=seed, traffic=self.traffic)
            self.ways.append(way)
            self.accounts.append(Account(Allowance(calls=self.dice.choice([10, 1000]))))
        self.blocks = [Account(self.allowance(), self.dice.choice(self.accounts)) for _ in range(4)]
        self.tasks, self.late, self.raging = [], [], True

    def allowance(self):
        limit = self.dice.choice(["cost", "tokens", "calls"])
        return Allowance(**{limit: {"cost": 1e-4, "tokens": 90, "calls": 5}[limit]})

    async def rage(self, calls):
        for number in range(calls):
            self.tasks.append(asyncio.ensure_future(self.asked(number)))
        for _ in range(calls // 2):
            await self.clock.sleep(self.dice.choice([0, 0, 0.01, 0.3, 1.0]))
            self.act()
        self.raging = False
        self.resume()
        await asyncio.wait(self.tasks)
        while any(way.connecting._task and not way.connecting._task.done() for way in self.ways):
            await self.clock.sleep(1)
        for _ in range(5):  # what was cancelled ends
            await asyncio.sleep(0)
        return [task.exception() for task in self.tasks if not task.cancelled()]

    async def asked(self, number):
        account = self.dice.choice([*self.blocks, *self.accounts])
        own = next(each for each in account.levels() if each in self.accounts)
        way = self.ways[self.accounts.index(own)]
        await self.clock.sleep(self.dice.choice([0, 0, 0.5, 2.0]))
        timeout = self.dice.choice([None, None, 0.0001, 1.0, 6.0])
        question = Question(number, account, timeout)
        try:
            return await way.complete(question)
        finally:
            assert not self.server.here[question.address]

    def act(self):
        if self.raging:
            acts = [self.cancel, self.pause, self.resume, self.resize, self.allow, self.begin]
            self.dice.choice(acts)()

    def cancel(self):
        self.dice.choice(self.tasks).cancel()

    def pause(self):
        self.dice.choice(self.ways).admission.paused = True

    def resume(self):
        for way in self.ways:
            way.admission.resume()

    def resize(self):
        self.dice.choice(self.ways).resize(self.dice.randint(1, 4))

    def allow(self):
        at = self.dice.randrange(2)
        self.ways[at].budgets.ledger.allow(
            self.accounts[at], Allowance(calls=self.dice.randint(5, 50))
        )

    def begin(self):
        way = self.dice.choice(self.ways)
        if way.budgets.ledger.late is None:
            way.budgets.ledger.late = Account(Allowance(tokens=1000))
            self.late.append(way.budgets.ledger.late)

    def left(self):
        """What somebody still holds, and should not."""
        slots, rate = self.traffic.slots, self.traffic.rate
        outages = self.traffic.outages.values()
        return {
            "slots": slots.in_use
            + len([turn for turn in [*slots._waiting, *slots._refused] if not turn.done()]),
            "probes": sum(outage.probe is not None for outage in outages),
            "waiting": sum(len(each._entering) + len(each._resting) for each in outages),
            "reserved": sum(
                sum(each.reserved) for each in [*self.blocks, *self.accounts, *self.late]
            ),
            "queues": sum(len(way.budgets.ledger._queues) for way in self.ways),
            "asking": sum(len(way.questions) for way in self.ways),
            "counts": sum(way.admission.stuck + way._resting for way in self.ways),
            "unpaused": sum(len(way.admission._unpaused) for way in self.ways),
            "rate": int(rate is not None and rate._turn.locked()),
            "timers": sum(alarm.action is not None for _, _, alarm in self.clock._alarms),
            "present": self.server.present,
        }


def weathered(seed, calls):
    storm = Storm(seed)
    errors = storm.clock.run(storm.rage(calls))
    left = {name: count for name, count in storm.left().items() if count}
    assert not left, (seed, left, storm.policy)
    wrong = [error for error in errors if error and not isinstance(error, ApplError)]
    assert not wrong, (seed, wrong)
    assert sum(account.spent.calls for account in storm.accounts) == storm.server.sent, seed


def dead(way, times=5):
    for _ in range(times):
        way.traffic.refused("m", BackendUnavailable("down"))


def test_who_may_probe_but_finds_the_server_left_alone_lets_go_of_the_probe() -> None:
    async def probed(clock):
        policy = Policy(clock=clock, limits=Limits(concurrency=1))
        way = Dispatcher(Late(lambda _: ANSWER, clock, 2.0), policy, most=1)
        first = asyncio.ensure_future(way.complete(Question(1)))
        await asyncio.sleep(0)
        dead(way)
        second = asyncio.ensure_future(way.complete(Question(2)))
        await clock.sleep(1.5)
        (outage,) = way.traffic.outages.values()
        assert outage.probe is not None  # and it waits for the slot
        way.traffic.refused("m", BackendBusy("later", retry_after=5))
        await asyncio.gather(first, second)
        return clock.now()

    clock = VirtualClock()
    assert clock.run(probed(clock)) == 1.5 + 5 + 2


def test_who_is_cancelled_when_his_turn_has_come_leaves_nothing_reserved() -> None:
    async def main():
        ledger, account = BudgetLedger(), Account(Allowance(calls=1))
        first = await ledger.reserve(account, ONE)
        second = asyncio.ensure_future(ledger.reserve(account, ONE))
        await asyncio.sleep(0)
        first.settle(Amounts())
        second.cancel()
        await asyncio.wait([second])
        return account.spent, account.reserved, ledger._queues

    assert asyncio.run(main()) == (Amounts(), Amounts(), {})


def test_a_probe_that_shares_a_failed_connecting_does_not_stay_one() -> None:
    """Another run found the server dead while calls of this one waited to be connected with."""

    async def probed(clock):
        server = Late(lambda _: ANSWER, clock, 0.0)
        down = [3.0]

        async def connect():
            if down:
                await clock.sleep(down.pop())
                raise BackendUnavailable("nobody there")

        server.connect = connect
        way = Dispatcher(server, Policy(clock=clock, retries=Retries(attempts=2, spare=0)))
        first = asyncio.ensure_future(way.complete(Question(1)))
        await asyncio.sleep(0)
        dead(way)
        second = asyncio.ensure_future(way.complete(Question(2)))
        await asyncio.gather(first, second, return_exceptions=True)
        return await way.complete(Question(3))

    clock = VirtualClock()
    assert clock.run(probed(clock)) == ANSWER


@pytest.mark.parametrize("seed", range(25))
def test_a_storm_leaves_nothing_behind(seed: int) -> None:
    weathered(seed, 20)


@pytest.mark.long
def test_many_storms_leave_nothing_behind() -> None:
    for seed in range(1000, 1600):
        weathered(seed, 60)
