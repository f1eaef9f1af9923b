"""Warming pays or is not done: decided by what it saves and costs, by the times of this server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from appl import gen, ppl
from appl.backend import Request
from appl.runtime.run import Run
from appl.runtime.scheduling.warming_cost import ServerTimes, SharedBeginning, times_of
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
    times = ServerTimes()
    times.request_s, times.prompt_s = 0.05, 0.000025
    # Four share 1,000 tokens: 3,000 computed again take 75 ms, and those four wait for 50 ms.
    assert times.pays(SharedBeginning(32, 1000, 4), 4)
    # Three share them: 2,000 computed again take 50 ms, and that is what the three wait.
    assert not times.pays(SharedBeginning(32, 1000, 3), 3)
    # Beside 27 others: 50 ms for 30 are 1.5 s; 50 ms for three and 25 ms for 27 are 0.825 s.
    assert times.pays(SharedBeginning(32, 1000, 3), 30)
    # However many share it, no more than half a batch of 8,192 tokens is computed again.
    assert times.pays(SharedBeginning(7, 200, 64), 64)
    times.request_s = 0.11
    assert not times.pays(SharedBeginning(7, 200, 64), 64)


def test_a_time_above_the_expected_one_raises_its_parts_by_their_shares() -> None:
    times = ServerTimes()
    times.request_s, times.prompt_s = 0.05, 0.00005
    times.learn(0.2, before=0, own=1000)  # 0.1 s were expected: half for it, half for its tokens
    assert times.request_s == pytest.approx(0.055)
    assert times.prompt_s == pytest.approx(0.000055)
    assert times.computed == 1000


def test_the_times_of_a_server_are_kept_for_its_later_runs() -> None:
    first, second = Server(trip_s=0.04), Server(trip_s=0.04)
    first.seconds(lambda: groups(8, 2048, 10))
    assert times_of(first).computed
    assert times_of(second).computed == 0
