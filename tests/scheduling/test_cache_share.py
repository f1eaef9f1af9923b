"""Processes that ask one server take a share of its cache each, as much as each wants."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from math import inf
from threading import Event
from typing import Any, cast

import pytest
from hypothesis import given, strategies as st

from appl import ppl
from appl.runtime.concurrency.loop_thread import io_thread
from appl.runtime.run import Run
from appl.runtime.scheduling.cache_room import Room
from appl.runtime.scheduling.cache_share import LOOK_S, CacheShare, share_of
from appl.testing import Policy, VirtualClock
from appl.testing.radix import RadixServer

from .test_cache_room import ROOM, SEEN, agent, ahead_of, single


class Board:
    """Where processes see what the others want of the cache; a slow one is gone on with."""

    def __init__(self, *others: float) -> None:
        self.wanted: dict[object, float] = dict(enumerate(others))
        self.told: list[float] = []
        self.slow: asyncio.Future[None] | None = None

    def lease(self, address: str) -> BoardLease:
        assert address == "here"
        return BoardLease(self)


class BoardLease:
    def __init__(self, board: Board) -> None:
        self._board = board

    async def exchange(self, wanted: float) -> list[float]:
        board = self._board
        if board.slow is not None:
            await board.slow
        board.told.append(wanted)
        board.wanted[self] = wanted
        return [each for lease, each in board.wanted.items() if lease is not self]

    def give_back(self) -> None:
        self._board.wanted.pop(self, None)


# -- who gets how much


@pytest.mark.parametrize(
    ("others", "share"),
    [
        ((), 1000),
        ((inf,), 500),
        ((inf, inf, inf), 250),
        ((0,), 1000),
        ((100,), 900),
        ((600,), 500),
        ((100, inf), 450),
        ((inf, 100, 300), 300),
    ],
)
def test_nobody_gets_more_than_he_wants_while_another_gets_less(
    others: tuple[float, ...], share: float
) -> None:
    assert share_of(1000, others) == share


@given(st.floats(1, 1e6), st.lists(st.one_of(st.just(inf), st.floats(0, 1e6)), max_size=8))
def test_the_shares_of_all_are_the_cache(tokens: float, others: list[float]) -> None:
    share = share_of(tokens, others)
    assert share + sum(min(share, each) for each in others) == pytest.approx(tokens)


# -- when the others are looked at


def on_loop(scenario: Coroutine[Any, Any, None]) -> None:
    asyncio.run_coroutine_threadsafe(scenario, io_thread().loop).result(20)


async def settled() -> None:
    """Until everything that can go on at this time of a test's clock has."""
    for _ in range(5):
        await asyncio.sleep(0)


def share_on(
    board: Board, clock: VirtualClock, changed: Callable[[], None] = lambda: None
) -> CacheShare:
    return CacheShare(board.lease("here"), clock, lambda: 100, changed)


def wait(clock: VirtualClock, seconds: float) -> None:
    """Have *seconds* pass, with what happens meanwhile."""
    over: list[bool] = []
    clock.at(clock.now() + seconds, lambda: over.append(True))
    while not over:
        clock.advance()


def test_one_more_is_reckoned_with_until_the_second_look() -> None:
    async def scenario() -> None:
        clock, board = VirtualClock(), Board()
        share = share_on(board, clock)
        assert share.of(1000) == 1000
        share.touch()
        assert share.of(1000) == 500  # before the first look is over
        await settled()
        assert share.of(1000) == 500
        share.touch()  # too soon: it is looked again in time
        wait(clock, LOOK_S)
        await settled()
        assert share.of(1000) == 1000 and board.told == [inf, 100]

    on_loop(scenario())


def test_nobody_is_looked_at_while_nothing_happens_or_where_nobody_is() -> None:
    async def scenario() -> None:
        clock, board = VirtualClock(), Board(300)
        share = share_on(board, clock)
        for looks in (1, 2):
            share.touch()
            await settled()
            wait(clock, LOOK_S)
            await settled()
            assert len(board.told) == looks and share.of(1000) == 700 - 350 * (looks == 1)
        board.wanted.pop(0)
        share.touch()
        await settled()
        share.touch()  # soon after a look that has found nobody
        wait(clock, 10 * LOOK_S)
        await settled()
        assert len(board.told) == 3 and share.of(1000) == 1000

    on_loop(scenario())


def test_a_slow_disk_holds_up_nobody() -> None:
    async def scenario() -> None:
        clock, board, shares = VirtualClock(), Board(inf), list[float]()
        share = share_on(board, clock, lambda: shares.append(share.of(1000)))
        board.slow = asyncio.get_running_loop().create_future()
        share.touch()
        await settled()
        wait(clock, LOOK_S)
        share.touch()
        assert share.of(1000) == 500 and not shares
        board.slow.set_result(None)
        await settled()
        assert shares == [pytest.approx(1000 / 3)]
        assert len(board.told) == 1

    on_loop(scenario())


def test_who_has_given_its_share_back_looks_no_more() -> None:
    async def scenario() -> None:
        clock, board = VirtualClock(), Board(inf)
        share = share_on(board, clock)
        share.touch()
        await settled()
        share.touch()
        share.give_back()
        share.touch()
        wait(clock, 10 * LOOK_S)
        await settled()
        assert len(board.told) == 1 and [*board.wanted] == [0]

    on_loop(scenario())


# -- in runs


class SharedServer(RadixServer):
    """A server that other processes ask as well."""

    cache_address = "here"


def room_in(run: Run) -> Room:
    return ahead_of(run.dispatch.scheduler).room


@contextlib.contextmanager
def beside(board: Board, **policy: Any) -> Any:
    """A run with a server of 1200 tokens, beside other processes on *board*."""
    clock = VirtualClock()
    with Run(SharedServer(clock, 10 * SEEN), policy=Policy(clock=clock, leases=board, **policy)) as run:  # fmt: skip
        yield run, clock


def left() -> None:
    """Wait until a run that has ended has left the server."""
    over = Event()
    io_thread().send(over.set)
    assert over.wait(20)


@ppl
def work(calls: int) -> list[str]:
    asked = [single(f"part{at}", 2 * SEEN) for at in range(calls)]
    return [str(each) for each in asked]


def test_a_process_keeps_to_its_share_while_others_want_theirs() -> None:
    sizes = []
    with beside(board := Board(inf)) as (run, _):
        for _ in range(6):
            work(12)
            sizes.append(room_in(run).residency.tokens)
        assert len(board.wanted) == 2
    assert sizes[-1] == 5 * SEEN and board.told[0] == inf


def test_who_waits_for_room_is_told_when_another_process_is_gone() -> None:
    with beside(board := Board(inf)) as (run, clock):
        clock.at(3.0, lambda: board.wanted.pop(0))
        while clock.now() < 3.0:
            work(12)
        before = clock.now()
        while room_in(run).residency.tokens < 10 * SEEN:
            work(12)
        assert clock.now() - before < 1 + 2 * LOOK_S
        assert inf in board.told[1:]  # while calls waited here


def test_what_is_not_wanted_any_more_is_left_to_the_others() -> None:
    with beside(board := Board(inf)) as (_, clock):
        work(12)
        until = clock.now() + 2 * LOOK_S
        while clock.now() < until:
            assert str(single("alone"))
        assert board.told[-1] == 0
    left()
    assert [*board.wanted] == [0]


def test_a_process_that_counts_each_run_for_itself_takes_no_share() -> None:
    with beside(board := Board(inf), share=False) as (run, _):
        work(12)
        assert room_in(run).residency.tokens == 10 * SEEN and not board.told


def test_a_call_that_has_the_server_to_itself_asks_nobody() -> None:
    with beside(board := Board(inf)) as (_, _):
        assert str(single("mine")) and str(single("next"))
    assert not board.told


class OwnClient:
    """The client of one process, of the server that all ask."""

    def __init__(self, server: RadixServer) -> None:
        self._server, self.cache_address = server, "here"

    def __getattr__(self, name: str) -> Any:
        return getattr(self._server, name)


def computed_by_two_processes(room: int, board: Board | None) -> int:
    clock = VirtualClock()
    server, policy = RadixServer(clock, room), Policy(clock=clock, leases=board)
    first, second = (Run(cast(Any, OwnClient(server)), policy=policy) for _ in range(2))
    with first:
        mine = [agent(at) for at in range(12)]
        with second:
            its = [agent(12 + at) for at in range(12)]
            assert all([str(each) for each in its])
            assert room_in(first) is not room_in(second)
        assert all([str(each) for each in mine])
    left()
    return server.computed


def test_two_processes_do_not_overfill_the_cache_together() -> None:
    least = computed_by_two_processes(10**6, None)
    board = Board()
    assert computed_by_two_processes(ROOM, board) <= 1.02 * least
    assert not board.wanted
    assert computed_by_two_processes(ROOM, None) > 1.2 * least  # the naive twin
