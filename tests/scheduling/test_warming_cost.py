"""Warming pays or is not done: decided by what it saves and costs, by the times of this server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from appl import gen, ppl
from appl.backend import Request
from appl.runtime.run import Run
from appl.runtime.scheduling.server_times import ServerTimes
from appl.runtime.scheduling.warming_cost import SharedBeginning, pays
from appl.testing import Policy, VirtualClock
from appl.testing.radix import RadixServer


class Server(RadixServer):
    """Counts the beginnings that are sent ahead; it computes one in each prompt of a batch."""

    def __init__(self, **times: Any) -> None:
        super().__init__(VirtualClock(), 1_000_000, together=False, **times)
        self.warmed: list[int] = []

    async def warm(self, request: Request, tokens: int) -> None:
        self.warmed.append(tokens)
        await super().warm(request, tokens)

    def seconds(self, program: Callable[[], object], warm: Any = True) -> float:
        """The time that *program* takes with this policy."""
        began = self.clock.now()
        with Run(self, policy=Policy(clock=self.clock, warm=warm)):
            program()
        return self.clock.now() - began


def said(name: str, words: int) -> str:
    return " ".join(f"{name}-{at}" for at in range(words))


@ppl(ctx="copy")
def branch(name: str) -> Any:
    f"{said(name, 24)}"
    return gen(max_tokens=32)


@ppl
def group(name: str, shared: int, branches: int) -> list[Any]:
    f"{said(name, shared)}"
    return [branch(f"{name}.{at}") for at in range(branches)]


@ppl
def groups(number: int, shared: int, branches: int, name: str = "g") -> list[str]:
    found = [group(f"{name}{at}", shared, branches) for at in range(number)]
    return [str(answer) for answers in found for answer in answers]


def test_a_small_beginning_of_few_calls_is_not_waited_for() -> None:
    server = Server(trip_s=0.15)
    took = server.seconds(lambda: groups(1, 240, 8))
    assert not server.warmed
    always = Server(trip_s=0.15).seconds(lambda: groups(1, 240, 8), warm="always")
    assert took < always - 0.05


@pytest.mark.parametrize("number, shared, branches", [(1, 2000, 10), (8, 2048, 10), (32, 1024, 4)])
def test_a_long_one_of_many_is_sent_ahead(number: int, shared: int, branches: int) -> None:
    def load() -> None:
        groups(number, shared, branches)

    server = Server(trip_s=0.04)
    took = server.seconds(load)
    assert len(server.warmed) == number
    assert took < 0.8 * Server(trip_s=0.04).seconds(load, warm=False)


def test_a_server_that_was_slow_to_compute_prompts_gets_smaller_ones_ahead() -> None:
    server = Server(prefill=2000, trip_s=0.01)
    server.seconds(lambda: groups(1, 300, 6, "before"))
    assert not server.warmed
    server.seconds(lambda: groups(4, 4000, 4, "long"))
    server.warmed.clear()
    server.seconds(lambda: groups(1, 300, 6, "after"))
    assert len(server.warmed) == 1


def test_a_server_that_is_far_away_gets_none_that_was_worth_it_nearby() -> None:
    server = Server(trip_s=1.0)
    server.seconds(lambda: [groups(1, 240, 40, f"{at}-") for at in range(12)])
    assert 0 < len(server.warmed) < 6
    server.warmed.clear()
    server.seconds(lambda: groups(1, 240, 40, "later"))
    assert not server.warmed


def test_what_a_call_under_way_has_computed_is_not_sent_ahead() -> None:
    @ppl
    def late() -> list[str]:
        f"{said('shared', 2000)}"
        first = gen(max_tokens=400)
        assert str(gen(messages="A short question.", max_tokens=100))
        later = [branch(f"later{at}") for at in range(10)]
        return [str(answer) for answer in (first, *later)]

    server = Server(trip_s=0.01)
    server.seconds(late)
    assert not server.warmed
    assert server.computed < 2 * 2000


def test_never_and_always_are_its_twins() -> None:
    never, always = Server(), Server()
    never.seconds(lambda: groups(8, 2048, 10), warm=False)
    always.seconds(lambda: groups(4, 300, 2), warm="always")
    assert not never.warmed
    assert len(always.warmed) == 4


def test_the_decision_can_be_checked_by_hand() -> None:
    times = ServerTimes(request_s=0.05, prompt_s=0.000025)
    # Four share 1,000 tokens: 3,000 computed again take 75 ms, and those four wait for 50 ms.
    assert pays(SharedBeginning(32, 1000, 4), 4, times)
    # Three share them: 2,000 computed again take 50 ms, and that is what the three wait.
    assert not pays(SharedBeginning(32, 1000, 3), 3, times)
    # Beside 27 others: 50 ms for 30 are 1.5 s; 50 ms for three and 25 ms for 27 are 0.825 s.
    assert pays(SharedBeginning(32, 1000, 3), 30, times)
    # However many share it, no more than half a batch of 8,192 tokens is computed again.
    assert pays(SharedBeginning(7, 200, 64), 64, times)
    times = ServerTimes(request_s=0.11, prompt_s=0.000025)
    assert not pays(SharedBeginning(7, 200, 64), 64, times)
