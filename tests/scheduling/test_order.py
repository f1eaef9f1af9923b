"""Orders: each call is taken once; priority, prompt groups and programs come as they should."""

from __future__ import annotations

import random
from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, strategies as st

import appl
from appl import gen, ppl
from appl.prompt import USER, PromptNode
from appl.runtime.scheduling import program_of
from appl.runtime.scheduling.order import FairOrder, Fifo
from appl.testing import Late, Limits, Policy, Run, VirtualClock


class Hand:
    """A clock that the test sets."""

    def __init__(self) -> None:
        self.time = 0.0

    def __call__(self) -> float:
        return self.time


def call(address: str, trunk: PromptNode | None = None, priority: int = 0) -> Any:
    node = SimpleNamespace(parent=trunk)
    return SimpleNamespace(address=address, node=node, priority=priority)


@pytest.mark.parametrize(
    "address, program",
    [
        ("/answer.3/gen.0", "/answer.3"),
        ("/main.0/answer.3/gen.0", "/main.0/answer.3"),
        ("/main.0/answer.3/deeper.1/gen.7", "/main.0/answer.3"),
        ("/gen.0", "/gen.0"),
    ],
)
def test_a_program_is_an_outermost_activation(address: str, program: str) -> None:
    assert program_of(call(address)) == program


@given(st.integers(0, 10**6))
def test_every_order_takes_each_call_once_and_higher_priority_first(seed: int) -> None:
    dice, clock = random.Random(seed), Hand()
    trunks = [None, *(PromptNode(None, USER, str(at)) for at in range(3))]
    for order in (Fifo(), FairOrder(clock)):
        added, taken = Counter[str](), Counter[str]()
        waiting: dict[str, int] = {}
        for number in range(dice.randint(1, 60)):
            clock.time += dice.random()
            if dice.random() < 0.6:
                address = f"/f.{dice.randrange(5)}/g.{number}/gen.0"
                each = call(address, dice.choice(trunks), dice.choice([0, 0, 0, 1, -1]))
                order.add(each)
                added[address] += 1
                waiting[address] = each.priority
            elif (each := order.take()) is not None:
                taken[each.address] += 1
                if not isinstance(order, Fifo):
                    assert each.priority == max(waiting.values())
                del waiting[each.address]
                order.over(each, clock.time - dice.random() * 9)
            assert order.size == len(waiting)
        while (each := order.take()) is not None:
            taken[each.address] += 1
        assert taken == added
        assert order.size == 0


def test_calls_of_one_prompt_go_together() -> None:
    one, two = PromptNode(None, USER, "one"), PromptNode(None, USER, "two")
    order = FairOrder(Hand())
    for number in range(3):
        order.add(call(f"/f.0/a.{number}/gen.0", one))
        order.add(call(f"/f.1/b.{number}/gen.0", two))
    found = [order.take().address[1:4] for _ in range(6)]  # type: ignore[union-attr]
    assert found in (["f.0"] * 3 + ["f.1"] * 3, ["f.0", "f.1", "f.0", "f.1", "f.0", "f.1"])


def test_the_program_that_was_served_least_goes_first_and_nobody_starves() -> None:
    clock = Hand()
    order = FairOrder(clock)
    long = [
        call(f"/main.0/long.0/x.{at}/gen.0", PromptNode(None, USER, str(at))) for at in range(40)
    ]
    for each in long:
        order.add(each)
    first = order.take()
    assert first is not None
    clock.time = 10.0
    order.over(first, since=0.0)
    order.add(call("/main.0/short.0/gen.0"))
    clock.time = 10.1
    taken = order.take()
    assert taken is not None and "short" in taken.address
    for at in range(1, 2000):  # short programs come for ever: the long one gets its turn
        clock.time += 0.1
        order.add(call(f"/main.0/short.{at}/gen.0"))
        taken = order.take()
        assert taken is not None
        if "long" in taken.address:
            break
    else:
        pytest.fail("a long program starves")


@ppl
def short() -> Any:
    "Short."
    return gen()


@ppl
def long() -> Any:
    "Long."
    return [str(each) for each in [gen() for _ in range(40)]]


def test_short_programs_end_before_long_ones_that_came_first() -> None:
    ended: list[str] = []

    def one(f: Any) -> None:
        found = f()
        ended.append("long" if isinstance(found, list) else str(found) and "short")

    clock = VirtualClock()
    policy = Policy(order="program", clock=clock, limits=Limits(concurrency=4))
    with Run(Late(lambda _: "x", clock), policy=policy):
        appl.map(one, [long, long, short, short, short], progress=False)
    assert ended[-2:] == ["long", "long"]
