"""Prefix first: what calls share is computed once, whatever comes when; nothing is lost by it."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import strategies as st

from appl import gen, ppl
from appl.backend import Emit, Request, Response, Sample
from appl.errors import BackendUnavailable, CallCancelled
from appl.runtime.scheduling import PrefixOrder, Scheduler
from appl.testing import Fake, Limits, Policy, Run, VirtualClock, on_backend_loop
from tests.drawn import examples


class Server(Fake):
    """Computes a prompt in some seconds of its clock, and has it in its cache at the end of them.

    These are as many for a short prompt as for a long one, so that warming would not pay. A word is a token. ``computed`` counts the tokens that no cache had when a request came,
    ``most`` is the largest number of different tokens that were being worked on at once.
    """

    def __init__(
        self, cache_tokens: int | None = None, seconds: float = 5, fails: bool = False
    ) -> None:
        super().__init__(lambda _: "x", features=frozenset({"n", "prefix_cache"}))
        self.cache_tokens, self._seconds, self._fails = cache_tokens, seconds, fails
        self.clock = VirtualClock()
        self._cache: set[int] = set()
        self._here: dict[object, set[int]] = {}
        self.computed = self.most = 0
        self.warmed: list[int] = []
        self.connected = 0

    def policy(self, **changes: Any) -> Policy:
        """One whose time is the server's, so that a program that is slow to ask is waited for.

        It warms without a look at what that costs.
        """
        return Policy(**{"clock": self.clock, "warm": "always", **changes})

    def on_idle(self, final: bool = True) -> bool:
        return self.clock.advance()

    def order(self, queue: Any) -> PrefixOrder:
        return PrefixOrder(self, queue)

    async def connect(self) -> None:
        await asyncio.sleep(0)
        self.connected += 1

    def words(self, request: Request) -> list[str]:
        links = request.messages.links() if request.messages else []
        return [
            word for link in links for word in (link.message.role, *link.message.content.split())
        ]

    def prompt_tokens(self, request: Request) -> Sequence[int]:
        return [hash(word) % 2**31 for word in self.words(request)]

    async def warm(self, request: Request, tokens: int) -> None:
        assert self.connected == 1
        self.warmed.append(tokens)
        if self._fails:
            raise BackendUnavailable("not now")
        await self._compute(self.words(request)[:tokens])

    async def complete(self, request: Request, emit: Emit | None = None) -> Response:
        self.requests.append(request)
        await self._compute(self.words(request))
        return Response((Sample("x", "stop"),) * request.n)

    async def _compute(self, words: list[str]) -> None:
        prompt = beginnings(words)
        self.computed += len(prompt - self._cache)
        key = object()
        self._here[key] = prompt
        self.most = max(self.most, len(set().union(*self._here.values())))
        try:
            if self._seconds:
                await self.clock.sleep(self._seconds)
            self._cache |= prompt
        finally:
            del self._here[key]

    def needed(self) -> int:
        """The nodes of the tree of all prompts."""
        prompts = [self.words(request) for request in self.requests]
        return len(set().union(*map(beginnings, prompts)))


def beginnings(words: list[str]) -> set[int]:
    """One number for each beginning of a prompt."""
    return set(
        itertools.accumulate(words, lambda before, word: hash((before, word)), initial=0)
    ) - {0}


def said(name: str, words: int) -> str:
    return " ".join(f"{name}{at}" for at in range(words))


@ppl(ctx="copy")
def branch(name: str, words: int = 3) -> Any:
    f"{said(name, words)}"
    return gen(max_tokens=8)


@ppl
def group(name: str, shared: int, branches: int) -> list[Any]:
    f"{said(name, shared)}"
    return [branch(f"{name}-{at}-") for at in range(branches)]


@ppl
def groups(number: int, shared: int, branches: int) -> list[str]:
    found = [group(f"g{at}-", shared, branches) for at in range(number)]
    return [str(answer) for each in found for answer in each]


@pytest.mark.parametrize("number, shared, branches", [(1, 400, 10), (6, 300, 8), (12, 500, 4)])
def test_what_branches_share_is_computed_once(number: int, shared: int, branches: int) -> None:
    server = Server()
    with Run(server, policy=server.policy()):
        groups(number, shared, branches)
    assert len(server.requests) == number * branches
    assert server.computed - server.needed() < number  # the role's own token, in each group
    assert len(server.warmed) == number


def test_without_warming_the_same_calls_compute_it_again_and_again() -> None:
    server = Server()
    with Run(server, policy=server.policy(warm=False)):
        groups(6, 300, 8)
    assert server.computed > 4 * server.needed()
    assert not server.warmed


@ppl(ctx="copy")
def inner(name: str) -> list[Any]:
    f"{said(name, 200)}"
    return [branch(f"{name}-{at}-") for at in range(8)]


@ppl
def nested() -> list[str]:
    f"{said('root-', 400)}"
    found = [inner(f"i{at}-") for at in range(4)]
    return [str(answer) for each in found for answer in each]


def test_beginnings_of_beginnings_are_computed_once() -> None:
    server = Server()
    with Run(server, policy=server.policy()):
        nested()
    assert server.computed == server.needed()
    assert len(server.warmed) == 5


def test_little_is_not_sent_ahead_and_one_alone_is_not_held_back() -> None:
    server = Server()
    with Run(server, policy=server.policy()):
        groups(3, 20, 5)
        assert str(group("alone-", 900, 1)[0]) == "x"
    assert not server.warmed


def test_a_second_burst_finds_what_the_first_has_computed() -> None:
    @ppl
    def twice() -> list[str]:
        f"{said('both-', 500)}"
        first = [str(each) for each in [branch(f"a{at}-") for at in range(4)]]
        return first + [str(each) for each in [branch(f"b{at}-") for at in range(4)]]

    server = Server()
    with Run(server, policy=server.policy()):
        twice()
    assert server.computed == server.needed()
    assert len(server.warmed) == 1


def test_branches_find_what_calls_that_were_alone_have_computed() -> None:
    @ppl
    def chain() -> list[str]:
        f"{said('begin-', 40)}"
        first = gen(max_tokens=8)
        assert str(first) == "x"
        f"{first} {said('then-', 500)}"
        assert str(gen(max_tokens=8)) == "x"
        return [str(each) for each in [branch(f"{at}-") for at in range(4)]]

    server = Server()
    with Run(server, policy=server.policy()):
        assert chain() == ["x"] * 4
    assert server.computed == server.needed()
    assert not server.warmed


def test_what_goes_on_from_an_answer_is_not_waited_for() -> None:
    @ppl
    def steps() -> list[str]:
        f"{said('begin-', 20)}"
        first = gen(max_tokens=8)
        f"{first} {said('then-', 400)}"
        return [str(first), str(gen(max_tokens=8))]

    server = Server(seconds=1)
    with Run(server, policy=server.policy(gather_s=3600)):
        assert steps() == ["x", "x"]
    assert server.clock.now() == 2


def test_when_a_prefix_cannot_be_sent_ahead_the_calls_go_all_the_same() -> None:
    server = Server(fails=True)
    with Run(server, policy=server.policy()):
        assert groups(2, 400, 6) == ["x"] * 12
    assert len(server.warmed) == 2


def test_a_cancelled_call_that_was_held_is_not_sent() -> None:
    @ppl
    def program() -> list[str]:
        f"{said('held-', 500)}"
        answers = [branch(f"{at}-") for at in range(6)]
        answers[2].cancel()
        found = []
        for answer in answers:
            try:
                found.append(str(answer))
            except CallCancelled:
                found.append("cancelled")
        return found

    server = Server()
    with Run(server, policy=server.policy()):
        found = program()
    assert found.count("x") >= 5
    assert len(server.requests) == found.count("x")


def prefix_order(run: Run) -> PrefixOrder:
    """The order of the calls of *run*, which has one server."""
    scheduler = run.dispatch.scheduler
    assert isinstance(scheduler, Scheduler) and isinstance(scheduler.order, PrefixOrder)
    return scheduler.order


async def gathered(order: PrefixOrder) -> None:
    """Wait until *order* waits for more calls, for as long as its clock stands."""
    while order.busy or all(why != "gathering" for _, why in order.waiting()):
        await asyncio.sleep(0)


def test_a_run_that_ends_while_calls_are_gathered_leaves_nothing_under_way() -> None:
    server = Server()
    run = Run(server, policy=server.policy(gather_s=3600))
    order = prefix_order(run)

    async def left() -> None:
        while order.busy or list(order.waiting()):
            await asyncio.sleep(0)

    with contextlib.suppress(ZeroDivisionError), run:
        asked = [branch("never"), gen(messages=said("never-", 400))]
        on_backend_loop(lambda: gathered(order))
        assert asked and server.clock.now() == 0
        raise ZeroDivisionError
    on_backend_loop(left)


@pytest.mark.parametrize("room", [700, 1500])
def test_no_more_is_under_way_than_the_cache_holds(room: int) -> None:
    server = Server(cache_tokens=room, seconds=1)  # so that nobody waits for too long
    with Run(server, policy=server.policy()):
        assert len(groups(10, 400, 5)) == 50
    assert server.most <= room
    assert server.computed - server.needed() < 10


@examples(15, 40, st.integers(0, 10**6))
def test_any_tree_of_prompts_is_answered_under_any_limits(seed: int) -> None:
    dice = random.Random(seed)

    @ppl(ctx="copy")
    def node(depth: int, name: str) -> list[Any]:
        f"{said(name, dice.choice([0, 1, 40, 150, 400]) + 1)}"
        found = [gen(max_tokens=4, n=dice.choice([1, 1, 2])) for _ in range(dice.randint(0, 3))]
        if depth:
            for at in range(dice.randint(0, 3)):
                found += node(depth - 1, f"{name}.{at}")
            if found and dice.random() < 0.2:
                dice.choice(found).cancel()
            if found and dice.random() < 0.3:
                f"{dice.choice(found)}"
                found.append(gen())
        return found

    server = Server(
        dice.choice([None, 200, 1000, 5000]),
        seconds=dice.choice([0, 0.004, 7]),
        fails=dice.random() < 0.2,
    )
    limits = Limits(concurrency=dice.choice([None, 1, 3]))
    order = dice.choice(["program", "fifo"])
    warm = dice.choice([True, "always"])
    policy = server.policy(limits=limits, order=order, warm=warm, gather_s=0.005)
    ended = 0
    with Run(server, policy=policy):
        started = node(3, "r")
        for each in started:
            with contextlib.suppress(CallCancelled):
                assert str(each) == "x"
            ended += 1
    assert ended == len(started)
    addresses = [request.address for request in server.requests]
    assert len(set(addresses)) == len(addresses)


def alone_then(more: int) -> Server:
    """A long prompt comes alone, and then *more* that share most of it, before any is sent."""
    server = Server()
    run = Run(server, policy=server.policy(gather_s=3600))
    order = prefix_order(run)

    @ppl
    def program() -> list[str]:
        f"{said('long-', 400)}"
        answers = [branch("first-")]
        on_backend_loop(lambda: gathered(order))
        assert not server.requests
        answers += [branch(f"{at}-") for at in range(more)]
        return [str(answer) for answer in answers]

    with run:
        assert program() == ["x"] * (1 + more)
    return server


def test_a_long_prompt_that_nobody_shares_is_sent_once() -> None:
    server = alone_then(0)
    assert not server.warmed
    assert len(server.requests) == 1


def test_those_that_come_while_it_is_waited_for_others_share_it_after_all() -> None:
    server = alone_then(5)
    assert len(server.warmed) == 1
    assert server.computed == server.needed()
