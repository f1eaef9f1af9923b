"""A backend that asks to be left alone is, by all; one that seems dead is asked by one call alone."""

from __future__ import annotations

import itertools

import pytest

from appl import gen, ppl
from appl.backend import Request
from appl.errors import BackendBusy, BackendRefused, BackendUnavailable, CircuitOpen
from appl.testing import Answer, Circuit, Late, Policy, Retries, VirtualClock, running


@ppl
def fan(width: int) -> list[str]:
    answers = [gen() for _ in range(width)]
    return [str(each) for each in answers]


def test_all_calls_wait_as_long_as_the_server_asked_for() -> None:
    clock = VirtualClock()
    asked: list[float] = []

    def answer(request: Request) -> Answer:
        asked.append(clock.now())
        return BackendBusy("429", retry_after=20.0) if len(asked) == 1 else "yes"

    policy = Policy(clock=clock, retries=Retries(base_s=0.5))
    backend = Late(answer, clock, lambda _: 1.0 + len(asked), concurrency=2)
    with running(backend, policy=policy):
        assert fan(6) == ["yes"] * 6
    first = asked[0] + 2.0  # when the 429 came
    assert [when for when in asked if first < when < first + 20] == []
    assert len(asked) == 7


def test_a_dead_backend_is_probed_by_one_call_and_then_asked_by_all() -> None:
    clock = VirtualClock()
    log: list[float] = []

    def answer(request: Request) -> Answer:
        log.append(clock.now())
        return BackendUnavailable("refused") if clock.now() < 20 else "yes"

    circuit = Circuit(failures=5, pause_s=1, cap_s=4)
    policy = Policy(clock=clock, circuit=circuit, retries=Retries(patience_s=100))
    backend = Late(answer, clock, 0.001)
    with running(backend, policy=policy):
        assert fan(50) == ["yes"] * 50
    assert 4 <= len([when for when in log if 0 < when < 20]) <= 12  # 1 + 2 + 4 + 4 + … seconds
    assert len(log) < 50 + 12 + 50


class Unreached(Late):
    """A backend that cannot be connected with before it is *up*."""

    def __init__(self, clock: VirtualClock, up: float) -> None:
        super().__init__(lambda _: "yes", clock, 0.001)
        self._up, self.probes = up, list[float]()

    async def connect(self) -> None:
        self.probes.append(self.clock.now())
        await self.clock.sleep(0.1)
        if self.clock.now() < self._up:
            raise BackendUnavailable("nobody listens")


def test_failures_to_connect_open_the_circuit_and_one_call_looks_again() -> None:
    clock = VirtualClock()
    circuit = Circuit(failures=3, pause_s=2, cap_s=8)
    policy = Policy(
        clock=clock, circuit=circuit, retries=Retries(attempts=5, base_s=0, patience_s=100)
    )
    backend = Unreached(clock, 20.0)
    with running(backend, policy=policy):
        assert fan(30) == ["yes"] * 30
    pauses = [round(b - a - 0.1) for a, b in itertools.pairwise(backend.probes)]
    assert pauses == [0, 0, 2, 4, 8, 8]


def test_who_cannot_connect_for_long_gives_up() -> None:
    clock = VirtualClock()
    policy = Policy(clock=clock, retries=Retries(attempts=9, base_s=0, patience_s=10))
    with (
        pytest.raises((CircuitOpen, BackendUnavailable)),
        running(Unreached(clock, 1e9), policy=policy),
    ):
        fan(30)
    assert clock.now() < 60


def test_who_has_waited_long_enough_for_a_dead_backend_gives_up() -> None:
    clock = VirtualClock()
    policy = Policy(clock=clock, retries=Retries(patience_s=10))
    backend = Late(lambda _: BackendUnavailable("refused"), clock, 0.001, concurrency=3)
    with pytest.raises((CircuitOpen, BackendUnavailable)), running(backend, policy=policy):
        fan(30)
    assert clock.now() < 60
    assert backend.present == 0


def test_a_refusal_is_a_sign_of_life() -> None:
    clock = VirtualClock()
    policy = Policy(clock=clock, circuit=Circuit(failures=2), retries=Retries(attempts=1))
    script: list[Answer] = [
        BackendUnavailable("1"), BackendRefused("no"), BackendUnavailable("2"), "yes",
    ]  # fmt: skip
    lines = iter(script)

    @ppl
    def one() -> str:
        return str(gen())

    with running(Late(lambda _: next(lines), clock), policy=policy):
        for kind in (BackendUnavailable, BackendRefused, BackendUnavailable):
            with pytest.raises(kind):
                one()
        assert one() == "yes"
    assert clock.now() < 5


def test_without_a_circuit_every_call_fails_for_itself() -> None:
    clock = VirtualClock()
    policy = Policy(clock=clock, circuit=None, retries=Retries(attempts=1))
    backend = Late(lambda _: BackendUnavailable("refused"), clock, 0.001)
    with pytest.raises(BackendUnavailable), running(backend, policy=policy):
        fan(30)
    assert len(backend.requests) == 30
