"""The room in a prefix cache: accounts agree with ones made anew, and every wait has an end."""

from __future__ import annotations

import random
import subprocess
import sys
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import strategies as st

from appl.runtime.scheduling import Room
from appl.runtime.scheduling.prefix_order.room import (
    BLOCK,
    LONG_WAIT_S,
    WAIT_S,
    CachedConversation,
    Kind,
    Line,
    OrderedCall,
)
from tests.drawn import examples


class Fleet:
    """Agents that ask by turns, on a room with *tokens*; each has its own prompt."""

    def __init__(self, tokens: float, lines: int = 1) -> None:
        self.room, self.kind, self.now = Room(tokens), Kind(), 0.0
        self.lines = [Line(self.room, lambda: True) for _ in range(lines)]
        self.numbers = count()
        self.first = dict[CachedConversation, int]()

    def agent(self, **known: Any) -> CachedConversation:
        who = CachedConversation(f"/{next(self.numbers)}", self.kind, **known)
        self.first[who] = next(self.numbers) << 20
        return who

    def ask(self, who: CachedConversation, blocks: int, line: int = 0, **call: Any) -> OrderedCall:
        first = self.first[who]
        asked = SimpleNamespace(**{"priority": 0, "outcome": None, **call})
        ids = range(first, first + blocks)
        ask = OrderedCall(asked, who, ids, ids, BLOCK * blocks + 8, self.now)
        self.lines[line].add(ask)
        return ask

    def sent(self, line: int = 0) -> list[OrderedCall]:
        """All that go now."""
        return list(iter(lambda: self.lines[line].next(self.now), None))


def check(room: Room) -> None:
    """The room agrees with one that is counted anew."""
    blocks = {block for who in room.inside for prompt in who.prompts for block in prompt}
    assert set(room.held) == blocks
    assert room.used == BLOCK * len(blocks) + sum(who.tail for who in room.inside)
    assert room.running == sum(who.running for who in room.inside)
    assert room.to_come == pytest.approx(sum(who.to_come for who in room.inside), abs=1e-6)
    assert room.resting.keys() <= room.inside.keys()


@examples(30, 300, st.integers(0, 10**6))
def test_an_account_agrees_with_one_made_anew_and_is_empty_in_the_end(seed: int) -> None:
    dice = random.Random(seed)
    fleet = Fleet(BLOCK * dice.choice([10, 40, 200, 1000]), lines=2)
    agents = {fleet.agent(): (dice.randrange(2), dice.randint(1, 6)) for _ in range(12)}
    waiting, running, sizes = (
        dict[int, OrderedCall](),
        dict[int, OrderedCall](),
        dict[CachedConversation, int](),
    )

    def asks(who: CachedConversation) -> None:
        sizes[who] = sizes.get(who, 0) + dice.randint(1, 9)
        ask = fleet.ask(who, sizes[who], agents[who][0], priority=dice.choice([0, 0, 1]))
        waiting[id(ask)] = ask

    for who in agents:
        asks(who)
    while waiting or running:
        fleet.now += dice.choice([0.01, 0.1, 3.0])
        for ask in fleet.sent(dice.randrange(2)):
            assert waiting.pop(id(ask)) is ask
            running[id(ask)] = ask
        check(fleet.room)
        if waiting and dice.random() < 0.1:
            dice.choice([*waiting.values()]).call.outcome = "cancelled"
        if running and dice.random() < 0.7:
            ask = running.pop(dice.choice([*running]))
            who = ask.conversation
            fleet.lines[agents[who][0]].over(ask, fleet.now)
            if who.turn < agents[who][1] and ask.call.outcome is None:
                asks(who)
            else:
                fleet.room.end(who)
            check(fleet.room)
    assert not (fleet.room.inside or fleet.room.held or fleet.room.tails)


def test_those_let_in_go_first_and_the_earlier_ones_before_the_later() -> None:
    fleet = Fleet(BLOCK * 100)
    agents = [fleet.agent(most=2) for _ in range(3)]
    for who in agents[:2]:
        fleet.ask(who, 20)
    first, second = fleet.sent()
    fleet.ask(agents[2], 20)
    for ask in (second, first):
        fleet.lines[0].over(ask, 0.0)
        fleet.ask(ask.conversation, 30)
    assert [ask.conversation for ask in fleet.sent()] == agents


def test_one_that_was_let_in_waits_for_a_limited_time_whatever_the_others_hold() -> None:
    fleet = Fleet(BLOCK * 100)
    big, small = fleet.agent(most=1), fleet.agent(most=2)
    fleet.ask(small, 10)
    (first,) = fleet.sent()
    fleet.ask(big, 80)
    assert [ask.conversation for ask in fleet.sent()] == [big]
    fleet.lines[0].over(first, 0.0)
    fleet.ask(small, 40)
    assert not fleet.sent()  # the big one is with the server, and goes on
    assert fleet.lines[0].look_at() == WAIT_S
    fleet.now = WAIT_S
    assert [ask.conversation for ask in fleet.sent()] == [small]


def test_newcomers_are_let_in_one_by_one_when_they_have_waited_for_long() -> None:
    fleet = Fleet(BLOCK * 100)
    agents = [fleet.agent(most=1) for _ in range(4)]
    for who in agents:
        fleet.ask(who, 90)
    found = []
    for seconds in (0.0, LONG_WAIT_S - 1, LONG_WAIT_S, LONG_WAIT_S + 1, 2 * LONG_WAIT_S):
        fleet.now = seconds
        found.append([agents.index(ask.conversation) for ask in fleet.sent()])
    assert found == [[0], [], [1], [], [2]]


def test_the_shortest_newcomer_goes_first_where_graphs_tell_and_else_the_first() -> None:
    fleet = Fleet(BLOCK * 10)
    agents = [fleet.agent(**known) for known in ({}, {"length": 20}, {}, {"length": 2})]
    for who in agents:
        fleet.ask(who, 8)
    found = []
    for _ in agents:
        (ask,) = fleet.sent()
        found.append(agents.index(ask.conversation))
        fleet.lines[0].over(ask, 0.0)
        fleet.room.end(ask.conversation)
    assert found == [3, 0, 2, 1]


def test_one_that_rests_for_longer_than_the_cache_takes_to_compute_holds_no_room() -> None:
    fleet = Fleet(35_000)
    fleet.ask(fleet.agent(), 1000)
    (first,) = fleet.sent()
    fleet.lines[0].over(first, 0.0)
    fleet.ask(fleet.agent(), 1000)
    assert not fleet.sent()
    assert fleet.lines[0].look_at() == 1.0
    fleet.now = 1.0
    assert len(fleet.sent()) == 1


def test_a_run_of_which_nothing_is_with_the_server_goes_before_another() -> None:
    fleet = Fleet(BLOCK * 100, lines=2)
    for line, blocks in ((0, 30), (1, 80), (0, 30)):
        fleet.ask(fleet.agent(most=1), blocks, line)
        if line:
            assert not fleet.sent(1)
        else:
            found = fleet.sent(0)
    assert not found  # it would fit, and the other run would wait for it
    assert not fleet.sent(1)


def test_a_program_whose_backend_brings_no_order_loads_none(tmp_path: Path) -> None:
    program = """
import sys, appl
from appl import gen, ppl

@ppl
def main():
    "Hello"
    return gen()

with appl.record("a.trace", backend="appl.testing:Echo"):
    str(main())
assert not [name for name in [*sys.modules] if "prefix_order" in name]
"""
    subprocess.run([sys.executable, "-c", program], check=True, cwd=tmp_path)


def wanting(adapter: str) -> SimpleNamespace:
    return SimpleNamespace(sampling=SimpleNamespace(extra=(("lora", adapter),) if adapter else ()))


def test_newcomers_for_one_adapter_go_together_and_nobody_is_passed_for_ever() -> None:
    fleet = Fleet(float("inf"))
    for name in "abcabcab":
        fleet.ask(fleet.agent(), 1, request=wanting(name))
    line, order = fleet.lines[0], []
    for _ in range(200):  # each that is sent is followed by one more for the adapter a
        ask = line.next(fleet.now)
        assert ask is not None
        order.append(ask.call.request.sampling.extra[0][1])
        fleet.ask(fleet.agent(), 1, request=wanting("a"))
    assert order[:8] == list("aaabbbcc") and set(order[8:]) == {"a"}


def test_calls_for_the_model_itself_keep_the_order_in_which_they_came() -> None:
    fleet = Fleet(float("inf"))
    asks = [fleet.ask(fleet.agent(), 1, request=wanting("")) for _ in range(9)]
    assert fleet.sent() == asks
