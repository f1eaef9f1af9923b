"""What workers share: budgets, slots, rates, and what a server says to the one run."""

from __future__ import annotations

import asyncio

import pytest

import appl
from appl import gen, map as appl_map, ppl
from appl.backend import Request, Response, Sample, Usage
from appl.errors import BackendBusy, BudgetExceeded
from appl.runtime.scheduling import Amounts
from appl.testing import Allowance, Fake, Limits, Policy
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
        with appl.budget(calls=1) as inside:
            f"{word}"
            first = str(gen(max_tokens=5))
            with pytest.raises(BudgetExceeded):
                str(gen(max_tokens=5))
            assert inside.spent == Amounts(None, 12, 1)
        return first

    world = World(answer)
    with world.run(), appl.budget(tokens=100_000) as around:
        assert appl_map(inner, range(10), engine=Threads()) == ["ok"] * 10
        assert around.spent.tokens == 120 and around.reserved.tokens == 0


def test_a_server_that_wants_to_be_left_alone_is_so_by_all():
    world = World(lambda request: BackendBusy("come back tomorrow", retry_after=80_000.0))
    with world.run():
        engine = Threads(workers=3, at_once=20)
        found = appl_map(ask, range(200), on_error="collect", engine=engine)
    assert all(isinstance(each, BackendBusy) for each in found)
    assert all("come back tomorrow" in str(each) for each in found)
    assert len(world.asked) <= 60


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


def test_a_lost_worker_takes_no_slots_with_it_and_costs_nothing():
    world = World(words, policy=Policy(budget=Allowance(calls=50), limits=Limits(concurrency=2)))
    lost = iter([True])
    engine = Threads(workers=2, lose=lambda _: bool(world.asked) and next(lost, False))
    with world.run() as run:
        assert len(appl_map(ask, range(20), engine=engine)) == 20
        account, way = run.tree.root.account, run.dispatch.scheduler.dispatcher
    assert account.reserved == Amounts(0, 0, 0)
    assert len(world.asked) == account.spent.calls == 20
    assert way.traffic.slots.in_use == 0
