"""Whatever fails: every call is answered once, or fails with what is wrong; nothing is left behind."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import strategies as st

import appl
from appl import gen, ppl
from appl.backend import Request
from appl.errors import (
    BackendBusy,
    BackendError,
    BackendTimeout,
    BackendUnavailable,
    MalformedResponse,
)
from appl.testing import (
    Allowance,
    Answer,
    AttemptFailed,
    CallDispatched,
    CallEnded,
    Deadlines,
    Late,
    Limits,
    Log,
    Policy,
    Retries,
    Streamed,
    VirtualClock,
    response,
    running,
)
from appl.tracing import Recorder, Replayer, profile_data
from tests.drawn import examples


@ppl
def fan(width: int) -> list[str]:
    "Well?"
    answers = [gen(max_tokens=10) for _ in range(width)]
    return [str(each) for each in answers]


def fault(dice: random.Random) -> BackendError:
    return dice.choice(
        [
            BackendBusy("429", retry_after=dice.choice([None, 0.0, 0.5, 3.0])),
            BackendBusy("503", status=503),
            BackendUnavailable("reset"),
            BackendTimeout("slow", deadline="first token"),
            MalformedResponse("HTML"),
        ]
    )


def drawn_policy(dice: random.Random, clock: VirtualClock) -> Policy:
    """Any of what may be switched on, with patience enough for all that is drawn."""
    return Policy(
        clock=clock,
        order=dice.choice(["program", "fifo"]),
        limits=Limits(
            concurrency=dice.choice([None, 1, 7]),
            requests=dice.choice([None, 40]), period_s=5,
            tokens_per_minute=dice.choice([None, 5000]),
        ),
        slow_start=dice.random() < 0.3,
        adaptive=dice.random() < 0.8,
        budget=Allowance(tokens=dice.choice([None, 10**6])),
        retries=Retries(attempts=10**4, share=50, spare=10**6, patience_s=10**6),
        deadlines=dice.choice([Deadlines(), Deadlines(first_token_s=20, between_tokens_s=20)]),
    )  # fmt: skip


@examples(10, 80, st.integers(0, 10**9), st.integers(1, 60), st.sampled_from([0.1, 0.5, 0.9]))
def test_no_call_is_lost_and_none_is_answered_twice(seed: int, width: int, share: float) -> None:
    dice, clock, log = random.Random(seed), VirtualClock(), Log()

    def answer(request: Request) -> Answer:
        if dice.random() < share:
            error = fault(dice)
            return error if dice.random() < 0.7 else Streamed(("be",), error)
        return f"answer to {request.address}"

    backend = Late(answer, clock, lambda _: dice.choice([0.01, 1.0, 4.0]))
    with running(backend, policy=drawn_policy(dice, clock), instruments=[log]):
        assert fan(width) == [f"answer to /fan.0/gen.{number}" for number in range(width)]
    ended = Counter(event.address for event in log.of(CallEnded))
    assert set(ended.values()) == {1} and len(ended) == width
    assert backend.present == 0
    for address in ended:
        numbers = [each.attempt for each in log.of(CallDispatched) if each.address == address]
        assert numbers == list(range(1, len(numbers) + 1))
        assert len([e for e in log.of(AttemptFailed) if e.address == address]) < len(numbers)


@examples(6, 40, st.integers(0, 10**9))
def test_cancelled_calls_leave_nothing_behind(seed: int) -> None:
    dice, clock = random.Random(seed), VirtualClock()

    def answer(request: Request) -> Answer:
        return fault(dice) if dice.random() < 0.4 else "yes"

    @ppl
    def some() -> int:
        "Well?"
        answers = [gen(max_tokens=10) for _ in range(30)]
        for each in answers:
            if dice.random() < 0.5:
                each.cancel()
        ended = 0
        for each in answers:
            try:
                ended += str(each) == "yes"
            except appl.CallCancelled:
                ended += 1
        return ended

    backend = Late(answer, clock, lambda _: dice.choice([0.01, 1.0, 4.0]))
    policy = drawn_policy(dice, clock)
    with running(backend, policy=policy), appl.budget(tokens=10**6) as spent:
        assert some() == 30
        assert some() == 30
    assert backend.present == 0
    assert spent.reserved == (0, 0, 0)


def test_a_backend_is_probed_once_before_its_first_call() -> None:
    class Probed(Late):
        probes = 0

        async def connect(self) -> None:
            self.probes += 1
            await self.clock.sleep(5)
            if self.probes == 1:
                raise BackendUnavailable("not up yet")

    backend = Probed(lambda _: "yes", VirtualClock())
    policy = Policy(
        clock=backend.clock, deadlines=Deadlines(first_token_s=2), retries=Retries(base_s=0)
    )
    with running(backend, policy=policy):
        assert fan(20) == ["yes"] * 20
    assert backend.probes == 2


def test_what_is_no_error_of_a_backend_is_not_tried_again() -> None:
    backend = Late(lambda _: ZeroDivisionError("a bug"), VirtualClock())
    with pytest.raises(ZeroDivisionError), running(backend, policy=Policy(clock=backend.clock)):
        fan(1)
    assert len(backend.requests) == 1


def test_a_replay_is_under_no_limit(tmp_path: Path) -> None:
    backend, path = Late(lambda _: response("yes"), VirtualClock()), tmp_path / "a.trace"
    recorder = Recorder(path, {"profile": profile_data(backend.profile)})
    with running(backend, policy=Policy(clock=backend.clock), instruments=[recorder]):
        assert fan(50) == ["yes"] * 50
    recorder.close()
    replayer = Replayer(path)
    policy = Policy(
        limits=Limits(concurrency=1, requests=1, period_s=60), budget=Allowance(calls=1)
    )
    with running(replayer.backend, policy=policy, world=replayer):
        assert fan(50) == ["yes"] * 50
    replayer.finish()


def test_who_comes_later_with_priority_does_not_wait_behind_all_that_wait_for_the_rate() -> None:
    clock = VirtualClock()
    backend = Late(lambda request: request.address, clock, 0.1)
    limits = Limits(requests=1, period_s=1)

    @ppl
    def urgent() -> str:
        answers = [gen() for _ in range(30)]
        str(answers[0])
        first = str(gen(priority=5))
        assert len(answers) == 30
        return first

    with running(backend, policy=Policy(clock=clock, limits=limits)):
        urgent()
    order = [request.address for request in backend.requests]
    assert order.index("/urgent.0/gen.30") <= 4


def test_calls_that_rest_hold_nobody_up() -> None:
    clock = VirtualClock()
    said: dict[str, int] = {}

    def answer(request: Request) -> Answer:
        said[request.address] = said.get(request.address, 0) + 1
        bad = int(request.address.rpartition(".")[2]) < 4 and said[request.address] < 3
        return MalformedResponse("HTML") if bad else "yes"

    backend = Late(answer, clock, 1.0, concurrency=4)
    policy = Policy(clock=clock, retries=Retries(base_s=1000, cap_s=1000, patience_s=9000))
    ends: list[float] = []

    @ppl
    def mixed() -> None:
        answers = [gen() for _ in range(40)]
        for each in answers[4:]:
            str(each)
        ends.append(clock.now())

    with running(backend, policy=policy):
        mixed()
    assert ends[0] <= 12
    assert backend.most == 4
