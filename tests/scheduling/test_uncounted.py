"""Calls go uncounted while room is not short and nothing is shared; else they are counted."""

from __future__ import annotations

from typing import Any

import pytest

import appl
from appl import gen, ppl
from appl.runtime.run import Run
from appl.runtime.scheduling.scheduler import Scheduler
from appl.runtime.scheduling.warming import PrefixFirst
from appl.testing import Limits

from .test_warming import Server, group, said


def ahead_of(run: Run) -> PrefixFirst:
    scheduler = run.dispatch.scheduler
    assert isinstance(scheduler, Scheduler) and scheduler.ahead is not None
    return scheduler.ahead


@ppl
def single(name: str, words: int) -> Any:
    f"{said(name, words)}"
    return gen(max_tokens=8)


def counted(server: Server, programs: int, words: int, **policy: Any) -> bool:
    """True if an account was made when so many programs asked at once."""
    with Run(server, policy=server.policy(**policy)) as run:
        for answer in [single(f"p{at}-", words) for at in range(programs)]:
            assert str(answer) == "x"
        ahead = ahead_of(run)
        assert not ahead.room.uncounted
        return bool(ahead.room.cache.known)


@pytest.mark.parametrize("cache_tokens", [None, 50_000])
def test_many_prompts_that_share_nothing_are_not_counted_where_all_fit(
    cache_tokens: int | None,
) -> None:
    assert not counted(Server(cache_tokens), 100, 200)


def test_they_are_counted_where_the_cache_may_be_short() -> None:
    server = Server(1500)
    assert counted(server, 20, 200)
    assert server.most <= 1500


def test_those_that_wait_in_the_queue_take_no_room() -> None:
    assert not counted(Server(1500), 20, 200, limits=Limits(concurrency=4))


def test_what_shares_a_beginning_with_one_in_the_queue_is_still_sent_after_it() -> None:
    @ppl
    def crowd() -> list[str]:
        first = [single(f"p{at}-", 120) for at in range(12)]
        first += group("g-", 400, 1)
        assert str(first[0]) == "x"
        return [str(answer) for answer in (*first, *group("g-", 400, 6))]

    server = Server(100_000)
    with Run(server, policy=server.policy(limits=Limits(concurrency=2))):
        assert crowd() == ["x"] * 19
    assert server.computed - server.needed() < 10  # all but the role and one branch


def test_the_answers_that_a_prompt_waits_for_are_reckoned_with() -> None:
    @ppl
    def vote(name: str) -> Any:
        f"{said(name, 40)}"
        drafts = [gen(max_tokens=8, seed=seed) for seed in range(4)]
        for draft in drafts:
            f"{draft}"
        return gen(max_tokens=8)

    for cache_tokens, fits in ((30_000, True), (900, False)):
        server = Server(cache_tokens)
        with Run(server, policy=server.policy()) as run:
            for answer in [vote(f"v{at}-") for at in range(10)]:
                assert str(answer) == "x"
            assert not ahead_of(run).room.uncounted
            assert fits is not bool(ahead_of(run).room.cache.known)


def test_what_the_graph_tells_of_a_program_is_reckoned_with() -> None:
    @ppl
    def read(name: str) -> str:
        f"{said(name, 120)}"
        return str(gen(max_tokens=8)).upper()

    @ppl
    def read_on(name: str) -> str:
        f"{said(name, 120)}"
        for _ in range(9):
            f"{gen(max_tokens=8)}"
        return str(gen(max_tokens=8)).upper()

    for program, fits in ((read, True), (read_on, False)):
        server = Server(9000)
        with Run(server, policy=server.policy()) as run:
            assert appl.map(program, [f"p{at}-" for at in range(40)]) == ["X"] * 40
            assert fits is not bool(ahead_of(run).room.cache.known)
