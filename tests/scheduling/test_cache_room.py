"""Runs that ask one server count its cache together; a run's several servers each keep room."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from dataclasses import replace
from threading import Event
from types import SimpleNamespace
from typing import Any, cast

import pytest

from appl import AIRole, Generation, gen, ppl
from appl.backend import Request, Response
from appl.control.steering import Steering
from appl.errors import BackendUnavailable, MalformedResponse
from appl.runtime.concurrency.loop_thread import io_thread
from appl.runtime.run import Run
from appl.runtime.scheduling.cache_room import Room, RoomTurn, open_rooms
from appl.runtime.scheduling.conversation_queue import ConversationQueue
from appl.runtime.scheduling.placing import Placing
from appl.runtime.scheduling.prefixes import Footprint
from appl.runtime.scheduling.scheduler import Scheduler
from appl.runtime.scheduling.traffic import Traffic
from appl.runtime.scheduling.warming import PrefixFirst
from appl.testing import BackendEndpoint, Limits, Model, Models, Policy, VirtualClock
from appl.testing.radix import RadixServer

SHARED, SEEN, ROUNDS, ACTION = 200, 120, 4, 8
OWN = ROUNDS * (SEEN + ACTION) + ACTION
ROOM = SHARED + 8 * OWN


def said(name: str, words: int) -> str:
    return " ".join(f"{name}-{at}" for at in range(words))


@ppl
def agent(number: int, model: str | None = None) -> Any:
    f"{said('shots', SHARED)}"
    for step in range(ROUNDS):
        f"{gen(model, max_tokens=ACTION)}"
        f"{said(f'seen{number}.{step}', SEEN)}"
    return gen(model, max_tokens=ACTION)


@ppl
def single(name: str, words: int = 5 * SEEN) -> Any:
    f"{said(name, words)}"
    return gen(max_tokens=ACTION)


def ahead_of(scheduler: Any) -> PrefixFirst:
    assert isinstance(scheduler, Scheduler)
    assert scheduler.ahead is not None
    return scheduler.ahead


@contextlib.contextmanager
def two_runs(room: int, **policy: Any) -> Iterator[tuple[Run, Run, RadixServer]]:
    """Two runs on one server; the program is in the first."""
    clock = VirtualClock()
    server = RadixServer(clock, room)
    own = Policy(clock=clock, **policy)
    first, second = Run(server, policy=own), Run(server, policy=own)
    with first:
        yield first, second, server


# -- two runs


def computed_by_two_runs(room: int, **policy: Any) -> int:
    with two_runs(room, **policy) as (_, second, server):
        mine = [agent(at) for at in range(12)]
        with second:
            assert all([str(agent(12 + at)) for at in range(12)])
        assert all([str(each) for each in mine])
    return server.computed


def test_two_runs_do_not_overfill_the_cache_together() -> None:
    least = computed_by_two_runs(10**6)
    assert computed_by_two_runs(ROOM) <= 1.02 * least


def test_each_run_counting_for_itself_is_the_naive_twin() -> None:
    with two_runs(ROOM, share=False) as (first, second, _):
        assert str(single("mine"))
        with second:
            assert str(single("its"))
            rooms = {ahead_of(run.dispatch.scheduler).room for run in (first, second)}
            assert len(rooms) == 2


def test_a_run_of_which_nothing_is_with_the_server_goes_before_older_calls() -> None:
    @ppl(ctx="copy")
    def part(at: int) -> Any:
        f"{said(f'part{at}', 5 * SEEN)}"
        return gen(max_tokens=ACTION)

    @ppl
    def batch() -> list[Generation]:
        return [part(at) for at in range(40)]

    with two_runs(12 * SEEN) as (_, second, server):
        parts = batch()
        with second:
            assert str(single("its"))
            before = server.clock.now()
        assert all([str(each) for each in parts])
    assert before < server.clock.now() / 4


def test_who_keeps_room_in_one_run_keeps_nobody_of_another_waiting() -> None:
    @ppl(auto_prime=True)
    def idle(number: int) -> Any:
        f"{said(f'idle{number}', 4 * SEEN)}"
        while True:
            yield str(gen(max_tokens=ACTION))

    with two_runs(20 * SEEN) as (_, second, server):
        there = [idle(number) for number in range(4)]
        assert all([next(each) for each in there])
        before = server.clock.now()
        with second:
            assert all([str(agent(at)) for at in range(6)])
        assert server.clock.now() - before < 10
        assert all([next(each) for each in there])


def test_what_a_paused_run_was_about_to_ask_keeps_nobody_waiting() -> None:
    with two_runs(12 * SEEN, limits=Limits(requests=1, period_s=10)) as (first, second, server):
        mine = [single("one", 4 * SEEN), single("two", 4 * SEEN)]  # the other waits for the rate
        server.clock.at(5, Steering(first).pause)
        server.clock.at(1000, Steering(first).resume)
        with second:
            asked = [single("its", 9 * SEEN)]
            assert all([str(each) for each in asked])
            assert server.clock.now() < 100
        assert all([str(each) for each in mine])


def test_a_run_that_crashes_leaves_its_room_to_the_others() -> None:
    with two_runs(12 * SEEN) as (first, second, server):
        assert str(single("mine"))
        with contextlib.suppress(ZeroDivisionError), second:
            asked = [single(f"its{at}") for at in range(6)]
            assert str(asked[0])
            raise ZeroDivisionError
        assert all([str(single(f"mine{at}")) for at in range(6)])
        ahead = ahead_of(first.dispatch.scheduler)
        assert [*ahead.room.users] == [ahead.queue]
    assert server.clock.now() < 10


class Pausing(RadixServer):
    """Pauses a run when the beginning of its prompts is to be computed."""

    runs: list[Run]
    warming: Event

    async def warm(self, request: Request, tokens: int) -> None:
        Steering(self.runs[1]).pause()
        self.warming.set()
        await super().warm(request, tokens)


def test_a_run_that_crashes_while_it_is_paused_leaves_nothing_either() -> None:
    @ppl
    def long(number: int) -> Any:
        # So long a beginning is waited for on the clock: all calls are compared before any goes.
        f"{said('long', 2 * SHARED)}"
        f"{said(f'own{number}', SEEN)}"
        return gen(max_tokens=ACTION)

    clock = VirtualClock()
    server, policy = Pausing(clock, 60 * SEEN), Policy(clock=clock)
    server.warming = Event()
    server.runs = first, second = [Run(server, policy=policy) for _ in range(2)]
    with first:
        assert str(single("mine"))
        with contextlib.suppress(ZeroDivisionError), second:
            found = [long(at) for at in range(12)]
            assert server.warming.wait(20) and found
            raise ZeroDivisionError
        assert str(single("mine"))
        room = ahead_of(first.dispatch.scheduler).room
    assert not room.cache.used


class Still(RadixServer):
    """Answers nobody until it ``moves``."""

    moves = False

    def on_idle(self, final: bool = True) -> bool:
        return self.moves and super().on_idle(final)


def test_a_run_that_crashes_before_anything_had_room_leaves_nothing_either() -> None:
    clock = VirtualClock()
    server, policy = Still(clock, 12 * SEEN), Policy(clock=clock, gather_s=0)
    second = Run(server, policy=policy)
    with Run(server, policy=policy):
        mine = single("mine", 9 * SEEN)
        with contextlib.suppress(ZeroDivisionError), second:
            asked = [single(f"its{at}") for at in range(3)]
            ahead = ahead_of(second.dispatch.scheduler)

            async def parked() -> None:
                while not (ahead.joined and len(ahead.queue)):
                    await asyncio.sleep(0)

            asyncio.run_coroutine_threadsafe(parked(), io_thread().loop).result(20)
            assert asked
            raise ZeroDivisionError
        server.moves = True
        assert str(mine)
        assert not len(ahead.queue) and not ahead.prints


def test_all_who_have_room_go_at_once_whichever_run_they_are_of() -> None:
    @ppl
    def long() -> Any:
        f"{said('long', 8 * SEEN)}"
        return gen(max_tokens=40)

    with two_runs(12 * SEEN) as (_, second, server):
        first = long()
        third = Run(server, policy=Policy(clock=server.clock))
        with second:
            mine = single("mine")
            with third:
                assert str(single("its"))
            assert str(mine)
        assert str(first)
    assert server.steps <= 40 + ACTION


def test_the_last_run_to_end_forgets_the_server() -> None:
    with two_runs(ROOM) as (first, second, server):
        assert str(single("mine"))
        with second:
            assert str(single("its"))
        room = ahead_of(first.dispatch.scheduler).room
        assert room is ahead_of(second.dispatch.scheduler).room
    with Run(server, policy=Policy(clock=server.clock)) as third:
        assert str(single("third"))
        assert ahead_of(third.dispatch.scheduler).room is not room
    assert not room.cache.used and not [each for each in open_rooms.values() if each is room]


@ppl
def conversation(turns: int) -> None:
    answers = []
    for turn in range(turns):
        f"{said(f'said{turn}', SEEN)}"
        answers.append(gen(max_tokens=ACTION))
        assert str(answers[-1])
    assert str(single("other"))


def test_the_turns_of_a_chat_that_was_alone_keep_no_room_after_it() -> None:
    clock = VirtualClock()
    with Run(RadixServer(clock, 100 * SEEN), policy=Policy(clock=clock)) as run:
        conversation(6)
        room = ahead_of(run.dispatch.scheduler).room
    arrived = Event()
    io_thread().send(arrived.set)  # behind what the end of the run has sent
    assert arrived.wait(20)
    assert not room.cache.used


def test_who_shares_limits_shares_room_and_who_has_another_clock_does_not() -> None:
    clock = VirtualClock()
    policy = Policy(clock=clock)
    traffic, servers = Traffic(policy, None), [RadixServer(clock, ROOM) for _ in range(2)]
    rooms = []
    with Run(servers[0], policy=policy, traffic=traffic) as first:
        assert str(single("first"))
        rooms.append(ahead_of(first.dispatch.scheduler).room)
        with Run(servers[1], policy=policy, traffic=traffic) as second:
            assert str(single("second"))
            rooms.append(ahead_of(second.dispatch.scheduler).room)
        with Run(servers[0], policy=Policy()) as third:
            assert str(single("third"))
            rooms.append(ahead_of(third.dispatch.scheduler).room)
    assert rooms[0] is rooms[1] is not rooms[2]


class Visitor:
    """A user that is told what it says."""

    def __init__(self, room: Room, turn: RoomTurn | None, able: bool = True) -> None:
        self.admitted, self.paused, self.looks = 0, False, 0
        self.next, self.able = turn, able
        room.join(self)
        room.wait(self)

    def turn(self) -> RoomTurn | None:
        return self.next

    def look(self) -> bool:
        self.looks += 1
        return self.able


def test_first_who_has_nothing_with_the_server_then_priority_then_age() -> None:
    turns: list[RoomTurn] = [
        (False, 0, (5, 6)), (True, -3, (9, 9)), (True, 0, (1, 2)), (True, 0, (1, 3)),
    ]  # fmt: skip
    room = Room()
    visitors = [Visitor(room, turn) for turn in reversed(turns)][::-1]
    for visitor in visitors:
        room.tell()
        assert [each.looks for each in visitors].count(1) == 1 and visitor.looks == 1
        visitor.looks, visitor.next = 0, None


def test_who_cannot_look_is_passed_over() -> None:
    room = Room()
    first, second = Visitor(room, (False, 0, (1, 1)), able=False), Visitor(room, (False, 0, (2, 2)))
    assert room.is_turn(second, (False, 0, (2, 2)))
    first.able = True
    assert not room.is_turn(second, (False, 0, (2, 2)))
    assert room.is_turn(first, (False, 0, (1, 1)))


def test_a_server_that_only_paused_runs_are_with_is_idle() -> None:
    room = Room()
    visitor = Visitor(room, None)
    assert room.idle
    visitor.admitted = 1
    assert not room.idle
    visitor.paused = True
    assert room.idle


def test_a_call_that_is_cancelled_while_it_waits_for_room_is_not_counted() -> None:
    clock = VirtualClock()
    server = RadixServer(clock, 12 * SEEN)
    with Run(server, policy=Policy(clock=clock)) as run:
        first = single("one", 9 * SEEN)
        waiting = [single(f"{at}", 9 * SEEN) for at in range(3)]
        clock.at(0.05, waiting[2].cancel)
        clock.at(0.06, lambda: left.append(len(ahead_of(run.dispatch.scheduler).queue)))
        left: list[int] = []
        assert all([str(each) for each in (first, *waiting[:2])])
        assert left == [2]


# -- two places


def two_places(servers: list[RadixServer], default: Model | None = None, **policy: Any) -> Run:
    near, far = servers
    names = {"near": Model("a", None), "far": Model("b", None)}
    models = Models(near.profile, default, names, "a", {"b": far.profile})
    own = Policy(clock=near.clock, **policy)
    return Run(near, policy=own, models=models, places={"b": BackendEndpoint(far, own)})


def computed_at_two_places(room: int, **policy: Any) -> int:
    clock = VirtualClock()
    servers = [RadixServer(clock, room) for _ in range(2)]
    with two_places(servers, **policy):
        found = [agent(at, ("near", "far")[at % 2]) for at in range(48)]
        assert all([str(each) for each in found])
    return sum(server.computed for server in servers)


def test_every_place_foresees_what_its_calls_will_need() -> None:
    least = computed_at_two_places(10**6)
    assert computed_at_two_places(ROOM) <= 1.02 * least
    assert computed_at_two_places(ROOM, foresee=False) > 1.1 * least


class Unreached(RadixServer):
    """A server that nobody can connect with."""

    async def connect(self) -> None:
        raise BackendUnavailable("nobody is there")


def coming_at(placing: Any, name: str) -> int:
    """How many prompts are foreseen at the place *name*."""
    assert isinstance(placing, Placing)
    ahead = ahead_of(placing.schedulers[name])
    return sum(len(each.coming) for each in ahead.queue.activations.values())


@pytest.mark.parametrize("prefer", ["order", "cost", "latency"])
def test_what_goes_elsewhere_is_not_foreseen_any_more(prefer: str) -> None:
    clock = VirtualClock()
    servers = [Unreached(clock, ROOM), RadixServer(clock, ROOM)]
    either = Model("a", None, others=(Model("b", None),), prefer=prefer)
    with two_places(servers, either) as run:
        assert str(agent(1))
        assert coming_at(run.dispatch.scheduler, "a") == 0
        assert not cast(Placing, run.dispatch.scheduler).foreseen


def test_a_call_that_ends_before_it_is_asked_is_not_foreseen_any_more() -> None:
    class Deaf(RadixServer):
        async def complete(self, request: Request, emit: Any = None) -> Any:
            raise BackendUnavailable("not now")

    clock = VirtualClock()
    with two_places([Deaf(clock, ROOM), Deaf(clock, ROOM)]) as run:
        with pytest.raises(BackendUnavailable):
            str(agent(1))
        assert coming_at(run.dispatch.scheduler, "a") == 0
        assert not cast(Placing, run.dispatch.scheduler).foreseen


def test_the_same_holds_for_a_run_with_one_server() -> None:
    class Deaf(RadixServer):
        async def complete(self, request: Request, emit: Any = None) -> Any:
            raise BackendUnavailable("not now")

    clock = VirtualClock()
    with Run(Deaf(clock, ROOM), policy=Policy(clock=clock)) as run:
        with pytest.raises(BackendUnavailable):
            str(agent(1))
        ahead = ahead_of(run.dispatch.scheduler)
        assert not any(each.coming for each in ahead.queue.activations.values())
        assert not cast(Scheduler, run.dispatch.scheduler).foreseen


# -- forecast


class Prompt:
    """A prompt of texts and of answers that are waited for, as the queue sees it."""

    def __init__(self, *parts: Any) -> None:
        self.nodes: list[Any] = []
        for part in parts:
            parent = self.nodes[-1] if self.nodes else None
            node = SimpleNamespace(parent=parent, part=part, length=len(self.nodes) + 1)
            self.nodes.append(node)

    def call(self, number: int, parts: int) -> Any:
        class Asked:
            address = f"/agent.0/gen.{number}"
            request = SimpleNamespace(messages=SimpleNamespace(size=100, parent=None))
            sampling = SimpleNamespace(max_tokens=10)
            node, priority = self.nodes[parts - 1], 0
            file, identity = None, ("gen", number, None, None)

            def frame(self) -> None:
                """Its activation is over."""

        return Asked()


WAITED = object()
PROMPT = Prompt("x" * 100, WAITED, "x" * 200, WAITED, "x" * 400)


def queue_of(foresees: bool = True) -> ConversationQueue:
    caching = SimpleNamespace(cache_tokens=1000, prompt_tokens=lambda _: range(50))
    room, go = Room(foresees=foresees), lambda: True
    unseen = SimpleNamespace(holds=lambda _: False)
    clock = VirtualClock()
    return ConversationQueue(room, cast(Any, caching), clock, go, foresees, cast(Any, unseen))


def known(queue: ConversationQueue) -> list[float]:
    (activation,) = queue.activations.values()
    return list(activation.who.known)


def test_the_sizes_of_all_prompts_to_come_are_foreseen() -> None:
    queue = queue_of()
    queue.foresee(PROMPT.call(1, 3))
    queue.foresee(PROMPT.call(2, 5))
    queue.arrive(PROMPT.call(0, 1), Footprint(range(50), (), 10))  # for 100 letters
    assert known(queue) == [300 / 2 + 10, 700 / 2 + 2 * 10]


@pytest.mark.parametrize("order", [(1, 2), (2, 1)])
def test_what_is_taken_back_leaves_what_others_need(order: tuple[int, int]) -> None:
    calls = {1: PROMPT.call(1, 3), 2: PROMPT.call(2, 5)}
    queue = queue_of()
    for number in order:
        queue.foresee(calls[number])
    queue.take_back(calls[2])
    queue.take_back(calls[2])
    queue.arrive(PROMPT.call(0, 1), Footprint(range(50), (), 10))
    assert known(queue) == [300 / 2 + 10]


def test_without_foresight_nothing_is_known() -> None:
    queue = queue_of(foresees=False)
    queue.foresee(PROMPT.call(2, 5))
    queue.arrive(PROMPT.call(0, 1), Footprint(range(50), (), 10))
    assert known(queue) == []


def test_prompts_that_came_are_not_foreseen_any_more() -> None:
    @ppl
    def chat() -> str:
        answers = []
        for turn in range(100):
            f"{turn}"
            with AIRole():
                answers.append(gen(max_tokens=1))
                f"{answers[-1]}"
        return str(answers[-1])

    clock = VirtualClock()
    with Run(RadixServer(clock, 10**6), policy=Policy(clock=clock)) as run:
        assert str(chat())
        seen = ahead_of(run.dispatch.scheduler).queue.activations
        assert not any(each.coming for each in seen.values())


class Odd(RadixServer):
    """Answers with what is no answer."""

    samples: Any = None

    async def complete(self, request: Request, emit: Any = None) -> Response:
        return replace(await super().complete(request, emit), samples=self.samples)


@pytest.mark.parametrize("samples", [None, (3,)])
def test_what_is_no_answer_ends_its_call_and_gives_back_its_room(samples: Any) -> None:
    clock = VirtualClock()
    server, policy = Odd(clock, 12 * SEEN), Policy(clock=clock)
    server.samples = samples
    with Run(server, policy=policy) as run:
        with pytest.raises(MalformedResponse, match="gave an answer that is none"):
            str(single("mine"))
        ahead = ahead_of(run.dispatch.scheduler)
    assert ahead.queue.admitted == 0 and not ahead.prints
