"""Conversations that go on by turns keep their place in a cache that does not hold all of them."""

from __future__ import annotations

from typing import Any

import pytest

import appl
from appl import AIRole, gen, ppl
from appl.prompt import UserMessage
from appl.testing import (
    BackendEndpoint,
    CallDispatched,
    Log,
    Model,
    Models,
    Policy,
    Run,
    VirtualClock,
)
from appl.testing.radix import RadixServer
from tests.drawn import counts

SHARED, SEEN, ROUNDS, ACTION = 200, 120, 4, 8
OWN = ROUNDS * (SEEN + ACTION) + ACTION


def said(name: str, words: int) -> str:
    return " ".join(f"{name}-{at}" for at in range(words))


@ppl
def agent(number: int, waits: bool) -> Any:
    f"{said('shots', SHARED)}"
    for step in range(ROUNDS):
        action = gen(max_tokens=ACTION)
        f"{str(action) if waits else action}"
        f"{said(f'seen{number}.{step}', SEEN)}"
    return gen(max_tokens=ACTION)


def load(number: int, room: int, waits: bool, **policy: Any) -> tuple[RadixServer, Log]:
    """*number* agents at once on a server with *room*."""
    server = RadixServer(VirtualClock(), room)
    return server, load_on(server, number, waits, **policy)


def load_on(server: RadixServer, number: int, waits: bool = True, **policy: Any) -> Log:
    log = Log()
    with Run(server, policy=Policy(clock=server.clock, **policy), instruments=[log]):
        found = appl.map(lambda at: str(agent(at, waits)), range(number), progress=False)
        assert len(list(found)) == number
    return log


ROOM = SHARED + 8 * OWN


def test_what_is_known_to_come_is_computed() -> None:
    least = load(24, 10**6, waits=False)[0].computed
    assert load(24, ROOM, waits=False)[0].computed <= 1.2 * least
    naive = load(24, ROOM, waits=False, warm=False, order="fifo")[0]
    assert naive.computed > 2 * least


@counts(24, 48)
def test_agents_that_read_their_answers_are_seldom_computed_again(count: int) -> None:
    least = load(count, 10**6, waits=True)[0].computed
    naive = load(count, ROOM, waits=True, warm=False, order="fifo")[0].computed
    assert naive > 2 * least
    assert load(count, ROOM, waits=True)[0].computed < 0.9 * naive


def test_where_all_have_room_nobody_waits_for_longer_than_a_turn() -> None:
    @ppl
    def chat(number: int) -> Any:
        f"{said(f'chat{number}', 2 * SHARED)}"
        for turn in range(ROUNDS):
            with AIRole():
                f"{gen(max_tokens=ACTION)}"
            f"Turn {turn}."
        return gen(max_tokens=ACTION)

    times = []
    for policy in ({}, {"warm": False, "order": "fifo"}):
        clock = VirtualClock()
        server = RadixServer(clock, int(1.6 * 16 * (2 * SHARED + ROUNDS * (ACTION + 2) + ACTION)))
        with Run(server, policy=Policy(clock=clock, **policy)):  # type: ignore[arg-type]
            assert len(list(appl.map(chat, range(16), progress=False))) == 16
        times.append(clock.now())
    assert times[0] == pytest.approx(times[1], abs=0.08)  # a turn takes 70 ms


@ppl
def solve(number: int) -> str:
    """An agent that goes to a tool, another server, after each of its turns."""
    for turn in range(2 * ROUNDS):
        f"{said(f'seen{number}.{turn}', SEEN)}"
        with AIRole():
            answer = str(gen(max_tokens=ACTION))
            f"{answer}"
        str(gen("tool", messages=[UserMessage("go")], max_tokens=1 + number % 4))
    return answer


SOLVED = 2 * ROUNDS * (SEEN + ACTION + 2)


def solved(server: RadixServer, number: int = 6, **policy: Any) -> float:
    """The tokens that *server* computes for so many agents, over those that they have."""
    before, tool = server.computed, RadixServer(server.clock, 10**6)
    names = {"near": Model("a", None), "tool": Model("b", None)}
    models = Models(server.profile, None, names, "a", {"b": tool.profile})
    chosen = Policy(clock=server.clock, **policy)
    places = {"b": BackendEndpoint(tool, chosen)}
    with Run(server, policy=chosen, models=models, places=places):
        assert len(list(appl.map(solve, range(number), progress=False))) == number
    return (server.computed - before) / (number * SOLVED)


def test_those_that_are_all_with_a_tool_at_once_keep_their_room() -> None:
    naive = solved(RadixServer(VirtualClock(), int(2.5 * SOLVED)), warm=False, order="fifo")
    assert solved(RadixServer(VirtualClock(), int(2.5 * SOLVED))) < 0.75 * naive


def test_a_process_with_a_history_computes_as_much_as_a_fresh_one() -> None:
    fresh, used = (RadixServer(VirtualClock(), int(2.5 * SOLVED)) for _ in range(2))
    load_on(used, 12)
    assert solved(used) == pytest.approx(solved(fresh), abs=0.02)


TURNS = 16
CHAT = TURNS * (SEEN + ACTION + 2)


@ppl
def elsewhere(number: int) -> str:
    return str(gen("tool", messages=[UserMessage("go")], max_tokens=1 + number % 4))


@ppl(ctx="same")
def one_turn(number: int, turn: int) -> str:
    f"{said(f'seen{number}.{turn}', SEEN)}"
    with AIRole():
        answer = str(gen(max_tokens=ACTION))
        f"{answer}"
    return elsewhere(number)


@ppl
def tells_its_turns(number: int) -> None:
    for turn in range(16):
        _ = one_turn(number, turn)


@ppl
def tells_nothing(number: int) -> None:
    turn = 0
    while turn < TURNS:
        _ = one_turn(number, turn)
        turn += 1


def run_with_tool(room: int, **policy: Any) -> tuple[Run, RadixServer]:
    """A run on a server with *room*, and another that is the tool."""
    clock = VirtualClock()
    server, tool = RadixServer(clock, room), RadixServer(clock, 10**6)
    names = {"near": Model("a", None), "tool": Model("b", None)}
    models = Models(server.profile, None, names, "a", {"b": tool.profile})
    chosen = Policy(clock=clock, **policy)
    places = {"b": BackendEndpoint(tool, chosen)}
    return Run(server, policy=chosen, models=models, places=places), server


def computed(program: Any, room: int, **policy: Any) -> int:
    """The tokens that the first run of six activations of *program* has computed."""
    run, server = run_with_tool(room, **policy)
    with run:
        list(appl.map(program, range(6), progress=False))
    return server.computed


def test_the_first_run_of_a_loop_that_says_its_rounds_computes_little_again() -> None:
    room = int(2.5 * CHAT)
    assert computed(tells_its_turns, room) < 0.8 * computed(tells_nothing, room)


def test_room_is_given_back_after_the_last_call_that_the_graph_knows() -> None:
    @ppl
    def works_on(number: int) -> None:
        _ = one_turn(number, 0)
        for _ in range(40):  # with the tool: it asks the server no more
            _ = elsewhere(number)

    run, server = run_with_tool(3 * SEEN)
    with run:
        list(appl.map(works_on, range(6), progress=False))
    assert server.clock.now() < 1.5 * 40 * 4 * 0.01


def test_those_that_began_first_end_first() -> None:
    _, log = load(24, ROOM, waits=False)
    asked = [each.address for each in log.of(CallDispatched)]
    began = [each for each in asked if each.endswith("gen.0")]
    ended = [each for each in asked if each.endswith(f"gen.{ROUNDS}")]
    assert {each.split("/")[1] for each in ended[:4]} <= {each.split("/")[1] for each in began[:8]}


@pytest.mark.parametrize("rest", [1, 12])
def test_who_does_not_ask_again_keeps_nobody_waiting(rest: int) -> None:
    @ppl(auto_prime=True)
    def idle(number: int) -> Any:
        f"{said(f'idle{number}', 4 * SEEN)}"
        while True:
            yield str(gen(max_tokens=ACTION))

    clock = VirtualClock()
    server = RadixServer(clock, 20 * SEEN)
    with Run(server, policy=Policy(clock=clock)):
        there = [idle(number) for number in range(4)]
        assert all(next(each) for each in there)
        before = clock.now()
        found = appl.map(lambda at: str(agent(at, True)), range(rest), progress=False)
        assert len(list(found)) == rest
        assert clock.now() - before < 10
        assert all(next(each) for each in there)


def test_one_long_question_does_not_keep_the_short_ones_beside_it_waiting() -> None:
    @ppl
    def ask() -> list[str]:
        sizes = [SEEN, 60 * SEEN, *[SEEN] * 30]
        texts = [said(f"{at}", size) for at, size in enumerate(sizes)]
        asked = [gen(messages=[UserMessage(each)], max_tokens=ACTION) for each in texts]
        return [str(each) for each in asked]

    clock = VirtualClock()
    server = RadixServer(clock, 120 * SEEN)
    with Run(server, policy=Policy(clock=clock)):
        assert len(ask()) == 32
    assert server.steps <= 2 * ACTION


def test_prompts_that_nobody_goes_on_with_keep_no_room() -> None:
    @ppl
    def single(number: int) -> str:
        f"{said(f'single{number}', 5 * SEEN)}"
        return str(gen(max_tokens=ACTION))

    clock = VirtualClock()
    server = RadixServer(clock, 30 * SEEN)
    with Run(server, policy=Policy(clock=clock)):
        assert len(list(appl.map(single, range(40), progress=False))) == 40
    alone = 5 * SEEN / 35_000 + (ACTION + 1) * 0.009
    assert clock.now() < 40 / 4 * 1.5 * alone
