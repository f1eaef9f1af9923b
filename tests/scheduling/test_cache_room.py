"""Runs that ask one server count its cache together; a run's several servers each keep room."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from dataclasses import replace
from threading import Event
from typing import Any

import pytest

from appl import Generation, gen, ppl
from appl.backend import Request, Response
from appl.errors import BackendUnavailable, MalformedResponse
from appl.runtime.scheduling import Placing, PrefixOrder, Room, Scheduler, Traffic
from appl.testing import (
    BackendEndpoint,
    Limits,
    Model,
    Models,
    Policy,
    Run,
    VirtualClock,
    on_backend_loop,
)
from appl.testing.radix import RadixServer
from tests.ctl.live import pause, resume

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


def order_of(run: Run) -> PrefixOrder:
    scheduler = run.dispatch.scheduler
    assert isinstance(scheduler, Scheduler) and isinstance(scheduler.order, PrefixOrder)
    return scheduler.order


def room_of(run: Run) -> Room:
    return order_of(run).room


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
    assert computed_by_two_runs(ROOM) <= 1.2 * least


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
        server.clock.at(5, lambda: pause(first))
        server.clock.at(1000, lambda: resume(first))
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
        assert len(room_of(first).lines) == 1
    assert server.clock.now() < 10


class Pausing(RadixServer):
    """Pauses a run when the beginning of its prompts is to be computed."""

    runs: list[Run]
    warming: Event

    async def warm(self, request: Request, tokens: int) -> None:
        pause(self.runs[1])
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
        room = room_of(first)
    assert not room.used


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
            order = order_of(second)

            async def parked() -> None:
                while all(why != "cache" for _, why in order.waiting()):
                    await asyncio.sleep(0)

            on_backend_loop(parked)
            assert asked
            raise ZeroDivisionError
        server.moves = True
        assert str(mine)
        assert not list(order.waiting()) and not order.size


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
        room = room_of(first)
        assert room is room_of(second)
    with Run(server, policy=Policy(clock=server.clock)) as third:
        assert str(single("third"))
        assert room_of(third) is not room
    assert not room.used


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
        room = room_of(run)
    on_backend_loop(lambda: None)  # behind what the end of the run has sent
    assert not room.used


def test_who_shares_limits_shares_room_and_who_has_another_clock_does_not() -> None:
    clock = VirtualClock()
    policy = Policy(clock=clock)
    traffic, servers = Traffic(policy, None), [RadixServer(clock, ROOM) for _ in range(2)]
    rooms = []
    with Run(servers[0], policy=policy, traffic=traffic) as first:
        assert str(single("first"))
        rooms.append(room_of(first))
        with Run(servers[1], policy=policy, traffic=traffic) as second:
            assert str(single("second"))
            rooms.append(room_of(second))
        with Run(servers[0], policy=Policy()) as third:
            assert str(single("third"))
            rooms.append(room_of(third))
    assert rooms[0] is rooms[1] is not rooms[2]


def test_a_call_that_is_cancelled_while_it_waits_for_room_keeps_nobody_waiting() -> None:
    clock = VirtualClock()
    server = RadixServer(clock, 12 * SEEN)
    waiting = list[Generation]()
    clock.at(0.05, lambda: waiting[0].cancel())
    with Run(server, policy=Policy(clock=clock)) as run:
        first = single("one", 9 * SEEN)
        waiting += [single(f"{at}", 9 * SEEN) for at in range(3)]
        assert all([str(each) for each in (first, *waiting[1:])])
        assert not list(order_of(run).waiting())
    assert clock.now() < 1


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


def test_every_place_keeps_room_for_what_its_calls_will_need() -> None:
    least = computed_at_two_places(10**6)
    assert computed_at_two_places(ROOM) <= 1.2 * least
    assert computed_at_two_places(ROOM, warm=False) > 2 * least


class Unreached(RadixServer):
    """A server that nobody can connect with."""

    async def connect(self) -> None:
        raise BackendUnavailable("nobody is there")


def coming(run: Run) -> int:
    """How many calls are said to come to the servers of *run*."""
    scheduler = run.dispatch.scheduler
    schedulers = scheduler.schedulers.values() if isinstance(scheduler, Placing) else [scheduler]
    return sum(each.coming.total() for each in schedulers)


@pytest.mark.parametrize("prefer", ["order", "cost", "latency"])
def test_what_goes_elsewhere_is_not_expected_any_more(prefer: str) -> None:
    clock = VirtualClock()
    servers = [Unreached(clock, ROOM), RadixServer(clock, ROOM)]
    either = Model("a", None, others=(Model("b", None),), prefer=prefer)
    with two_places(servers, either) as run:
        assert str(agent(1))
        assert coming(run) == 0


class Deaf(RadixServer):
    """A server that answers nobody."""

    async def complete(self, request: Request, emit: Any = None) -> Any:
        raise BackendUnavailable("not now")


@pytest.mark.parametrize("places", [1, 2])
def test_calls_that_end_before_they_are_asked_are_not_expected_any_more(places: int) -> None:
    clock = VirtualClock()
    servers: list[RadixServer] = [Deaf(clock, ROOM), Deaf(clock, ROOM)]
    one = Run(servers[0], policy=Policy(clock=clock))
    with two_places(servers) if places > 1 else one as run:
        with pytest.raises(BackendUnavailable):
            str(agent(1))
        assert coming(run) == 0


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
        room = room_of(run)
    assert room.running == 0 and not room.used
