"""What workers share: budgets, slots, rates and the circuit of the one run."""

from __future__ import annotations

import asyncio

import pytest

import appl
from appl import gen, ppl
from appl import map as appl_map
from appl.backend import Request, Response, Sample, Usage
from appl.errors import BackendUnavailable, BudgetExceeded
from appl.runtime.scheduling.accounts import Account, Amounts
from appl.runtime.scheduling.dispatcher import Dispatcher
from appl.testing import Allowance, Circuit, Fake, Limits, Policy, Retries, VirtualClock
from appl.testing.engine import Threads
from tests.engine.worlds import World, words


@ppl
def ask(word):
    f"{word}"
    return str(gen(max_tokens=5))


def test_a_thousand_items_never_pass_the_budget():
    world = World(words, policy=Policy(budget=Allowance(calls=137)))
    with world.run() as run:
        found = appl_map(
            ask, range(1000), on_error="collect", engine=Threads(workers=4, at_once=64)
        )
        spent = run.tree.root.account.spent
    assert len(world.asked) == 137 == spent.calls
    assert sum(isinstance(each, str) for each in found) == 137
    assert all(isinstance(each, str | BudgetExceeded) for each in found)


def test_a_budget_around_the_map_is_charged_and_one_inside_holds_too():
    def answer(request: Request) -> Response:
        return Response((Sample("ok", "stop"),), Usage(10, 2))

    @ppl
    def inner(word):
        with appl.budget(calls=1):
            f"{word}"
            first = str(gen(max_tokens=5))
            with pytest.raises(BudgetExceeded):
                str(gen(max_tokens=5))
        return first

    world = World(answer)
    with world.run(), appl.budget(tokens=100_000) as around:
        assert appl_map(inner, range(10), engine=Threads()) == ["ok"] * 10
        assert around.spent.tokens == 120 and around.reserved.tokens == 0


class Crowd(Fake):
    """Keeps count of how many are there at once, in all processes."""

    present = most = 0

    async def complete(self, request, emit=None):
        Crowd.present += 1
        Crowd.most = max(Crowd.most, Crowd.present)
        for _ in range(20):
            await asyncio.sleep(0)
        Crowd.present -= 1
        return await super().complete(request, emit)


def test_slots_are_shared():
    class Crowded(World):
        def backend(self):
            made = Crowd(self._answer)
            self.backends.append(made)
            return made

    Crowd.present = Crowd.most = 0
    with Crowded(words, policy=Policy(limits=Limits(concurrency=3))).run():
        appl_map(ask, range(60), engine=Threads(workers=3, at_once=20))
    assert 1 < Crowd.most <= 3


def test_a_lost_worker_gives_its_slots_back_and_its_reservations_count_as_spent():
    world = World(words, policy=Policy(budget=Allowance(calls=50), limits=Limits(concurrency=2)))
    lost = iter([True])
    engine = Threads(workers=2, lose=lambda _: bool(world.asked) and next(lost, False))
    with world.run() as run:
        assert len(appl_map(ask, range(20), engine=engine)) == 20
        account, way = run.tree.root.account, run.dispatch.schedulers[""].dispatcher
    assert account.reserved == Amounts(0, 0, 0)
    assert len(world.asked) <= account.spent.calls <= len(world.asked) + 4
    assert way._traffic.slots.taken == 0


def lent(policy, script):
    """Run *script(attempts)* on a virtual clock."""
    clock = VirtualClock()
    policy = Policy(**policy, clock=clock)

    async def main():
        task = asyncio.ensure_future(script(Dispatcher(Fake(words), policy), clock))
        while not task.done():
            for _ in range(20):
                await asyncio.sleep(0)
            if not task.done():
                clock.advance()
        return task.result()

    return asyncio.run(main())


def test_loans_go_by_the_rate():
    async def script(attempts, clock):
        times = []
        for _ in range(7):
            loan = await attempts.lend(None, None, 100, 60)
            times.append(clock.now())
            loan.answered(Amounts(), 100)
        return times

    limits = Limits(requests=3, period_s=10)
    assert lent({"limits": limits}, script) == [0, 0, 0, 10, 10, 10, 20]
    limits = Limits(tokens_per_minute=300)
    assert lent({"limits": limits}, script) == [0, 0, 0, 20, 40, 60, 80]


def test_loans_close_the_circuit_for_all_and_one_probes():
    async def script(attempts, clock):
        for _ in range(2):
            (await attempts.lend(None, None, 0, 60)).failed(BackendUnavailable("down"), Amounts())
        loan = await attempts.lend(None, None, 0, 60)
        probed = loan.probe, clock.now()
        loan.answered(Amounts(), None)
        return *probed, (await attempts.lend(None, None, 0, 60)).probe

    circuit = Circuit(failures=2, pause_s=7)
    assert lent({"circuit": circuit, "retries": Retries()}, script) == (True, 7, False)


def test_nothing_is_lent_while_the_run_is_paused():
    async def script(attempts, clock):
        attempts.pause()
        asked = asyncio.ensure_future(attempts.lend(None, None, 0, 60))
        for _ in range(5):
            await asyncio.sleep(0)
        held = not asked.done()
        attempts.resume()
        return held, (await asked).epoch

    assert lent({}, script) == (True, 0)


def test_what_an_attempt_holds_is_given_back_once():
    async def script(attempts, clock):
        account = Account(Allowance(tokens=100))
        first = await attempts.lend(account, Amounts(0, 60, 1), 0, 60)
        with pytest.raises(BudgetExceeded):
            await attempts.lend(account, Amounts(0, 101, 1), 0, 60)
        second = asyncio.ensure_future(attempts.lend(account, Amounts(0, 60, 1), 0, 60))
        await asyncio.sleep(0)
        assert not second.done()
        first.answered(Amounts(0, 10, 1), 10)
        first.lost()
        lost = await second
        assert account.spent == Amounts(0, 10, 1)
        lost.lost()
        lost.failed(BackendUnavailable("late"), Amounts()) if lost.epoch is not None else None
        return account.spent, account.reserved

    assert lent({}, script) == (Amounts(None, 70, 2), Amounts(0, 0, 0))  # nobody knows the price
