"""Warming pays or is not done: decided by what it saves and costs, with one constant."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from appl import gen, ppl
from appl.backend import Request
from appl.runtime.scheduling import SharedBeginning
from appl.testing import Policy, Run, VirtualClock
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
    took = server.seconds(lambda: groups(1, 200, 8))
    assert not server.warmed
    always = Server(trip_s=0.15).seconds(lambda: groups(1, 200, 8), warm="always")
    assert took < always - 0.05


@pytest.mark.parametrize("number, shared, branches", [(1, 2000, 10), (8, 2048, 10), (32, 1024, 4)])
def test_a_long_one_of_many_is_sent_ahead(number: int, shared: int, branches: int) -> None:
    def load() -> None:
        groups(number, shared, branches)

    server = Server(trip_s=0.04)
    took = server.seconds(load)
    assert len(server.warmed) == number
    assert took < 0.8 * Server(trip_s=0.04).seconds(load, warm=False)


def test_a_process_with_a_history_decides_as_a_fresh_one() -> None:
    def judge() -> None:
        groups(24, 5, 400, "judge")

    fresh, used = Server(trip_s=0.15), Server(trip_s=0.15)
    used.seconds(lambda: [groups(1, 240, 40, f"{at}-") for at in range(12)])
    used.seconds(lambda: groups(4, 4000, 4, "long"))
    used.warmed.clear()
    assert used.seconds(judge) == pytest.approx(fresh.seconds(judge), abs=0.05)
    assert len(used.warmed) == len(fresh.warmed)


def test_never_and_always_are_its_twins() -> None:
    never, always = Server(), Server()
    never.seconds(lambda: groups(8, 2048, 10), warm=False)
    always.seconds(lambda: groups(4, 300, 2), warm="always")
    assert not never.warmed
    assert len(always.warmed) == 4


def test_the_decision_can_be_checked_by_hand() -> None:
    # Each of four calls waits for 1,500 tokens, and each of all four is spared three times 2,000.
    assert SharedBeginning(end=63, tokens=2000, calls=4).pays(everybody=4)
    assert not SharedBeginning(end=15, tokens=480, calls=4).pays(everybody=4)
    # Beside 12 others, which are spared them, too.
    assert SharedBeginning(end=15, tokens=480, calls=4).pays(everybody=16)
    assert not SharedBeginning(end=63, tokens=2000, calls=1).pays(everybody=1000)
