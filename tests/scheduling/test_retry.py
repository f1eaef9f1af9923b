"""Attempts that fail are made again: when, how often, and when not."""

from __future__ import annotations

import asyncio

import pytest

from appl import gen, ppl
from appl.backend import Chunk, Request
from appl.errors import (
    AuthenticationFailed,
    BackendBusy,
    BackendError,
    BackendRefused,
    BackendUnavailable,
    MalformedResponse,
)
from appl.runtime.scheduling.connecting import let_go
from appl.runtime.scheduling.patience import wait_s
from appl.runtime.scheduling.retry import RetryBudget
from appl.testing import (
    Answer,
    AttemptFailed,
    CallDispatched,
    Log,
    Policy,
    Retries,
    Scripted,
    Streamed,
    VirtualClock,
    running,
)

AT_ONCE = Policy(retries=Retries(base_s=0))


@ppl
def ask() -> str:
    "Well?"
    return str(gen())


@pytest.mark.parametrize(
    "error", [BackendUnavailable("reset"), MalformedResponse("cut"), BackendBusy("429")]
)
def test_a_call_is_tried_again(error: BackendError) -> None:
    log = Log()
    with running(Scripted([error, "yes"]), policy=AT_ONCE, instruments=[log]) as seen:
        assert ask() == "yes"
    assert len(seen.requests) == 2
    assert [event.attempt for event in log.of(CallDispatched)] == [1, 2]
    assert [(e.attempt, e.error) for e in log.of(AttemptFailed)] == [(1, error)]


@pytest.mark.parametrize("error", [BackendRefused("400"), AuthenticationFailed("401"), KeyError()])
def test_what_will_not_be_answered_later_is_asked_once(error: Exception) -> None:
    backend = Scripted([error, "yes"])
    with pytest.raises(type(error)), running(backend, policy=AT_ONCE):
        ask()
    assert len(backend.requests) == 1


def test_an_error_that_a_backend_raises_to_several_calls_ends_none_that_asks_again() -> None:
    async def attempts(asked: asyncio.Future[None], again: asyncio.Future[str]) -> str:
        try:
            await asked
        except BackendUnavailable:
            return await again
        raise AssertionError

    async def two() -> list[str]:
        loop = asyncio.get_running_loop()
        asked, again = loop.create_future(), loop.create_future()
        both = [asyncio.ensure_future(attempts(asked, again)) for _ in range(2)]
        asked.set_exception(error := BackendUnavailable("reset"))
        await asyncio.wait(both, timeout=0)
        let_go(error)
        again.set_result("yes")
        return await asyncio.gather(*both)

    assert asyncio.run(two()) == ["yes", "yes"]


def test_the_last_error_stands() -> None:
    errors = [BackendUnavailable(str(number)) for number in range(4)]
    backend = Scripted(errors)
    with pytest.raises(BackendUnavailable, match="2"), running(backend, policy=AT_ONCE):
        ask()
    assert len(backend.requests) == 3


def test_a_call_that_has_been_seen_in_part_is_not_tried_again() -> None:
    @ppl
    def told() -> list[str]:
        "Well?"
        return list(gen(stream=True).text_stream)

    backend = Scripted([Streamed(("be", "gun"), BackendUnavailable("cut")), "yes"])
    with pytest.raises(BackendUnavailable, match="cut"), running(backend, policy=AT_ONCE):
        told()
    assert len(backend.requests) == 1


def test_the_naive_policy_tries_once() -> None:
    backend = Scripted([BackendUnavailable("reset"), "yes"])
    with pytest.raises(BackendUnavailable), running(backend, policy=Policy.naive()):
        ask()


def test_only_the_sample_that_is_missing_is_asked_again() -> None:
    failed: list[int] = []

    def answer(request: Request) -> Answer:
        if request.sample == 1 and not failed:
            failed.append(1)
            return BackendUnavailable("reset")
        return f"sample {request.sample}"

    @ppl
    def several() -> list[str]:
        "Well?"
        return [str(each) for each in gen(n=3).samples]

    with running(Scripted(answer, features={"stream"}), policy=AT_ONCE) as seen:
        assert several() == ["sample 0", "sample 1", "sample 2"]
    assert sorted(request.sample for request in seen.requests) == [0, 1, 1, 2]


def test_waiting_times_are_drawn_from_seed_address_and_attempt() -> None:
    retries = Retries(base_s=1, cap_s=4)
    waits = [wait_s(retries, 7, "/f.0/gen.0", failed, 0) for failed in range(1, 9)]
    assert waits == [wait_s(retries, 7, "/f.0/gen.0", failed, 0) for failed in range(1, 9)]
    assert waits != [wait_s(retries, 8, "/f.0/gen.0", failed, 0) for failed in range(1, 9)]
    assert all(0 <= each <= min(4, 2**k) for k, each in enumerate(waits))
    assert wait_s(retries, 7, "/f.0/gen.0", 1, retry_after=20) == pytest.approx(waits[0] + 20)
    assert wait_s(retries, 7, "/f.0/gen.0", 5000, 0) <= 4


def test_retries_are_a_share_of_new_calls() -> None:
    budget = RetryBudget(Retries(share=0.2, spare=10))
    assert sum(budget.spend(0) for _ in range(100)) == 10
    assert sum(budget.spend(100) for _ in range(100)) in (19, 20)


def test_a_backend_that_always_fails_is_not_asked_ever_more() -> None:
    policy = Policy(retries=Retries(base_s=0, attempts=5, share=0.1, spare=2), circuit=False)
    backend = Scripted(lambda _: MalformedResponse("HTML"))

    @ppl
    def many() -> None:
        answers = [gen() for _ in range(100)]
        assert len(answers) == 100

    with pytest.raises(MalformedResponse), running(backend, policy=policy):
        many()
    assert len(backend.requests) <= 100 + 2 + 10


def test_a_call_that_is_turned_away_waits_for_its_turn() -> None:
    policy = Policy(retries=Retries(base_s=0, attempts=2))
    with running(Scripted([*[BackendBusy("429")] * 20, "yes"]), policy=policy):
        assert ask() == "yes"


def test_a_sample_that_nobody_has_seen_is_tried_again_though_others_were_seen() -> None:
    failed: list[int] = []

    def answer(request: Request) -> Answer:
        if request.sample == 1 and not failed:
            failed.append(1)
            return BackendUnavailable("reset")
        return Streamed((Chunk(request.sample, "yes"),))

    @ppl
    def several() -> list[str]:
        "Well?"
        answer = gen(n=2, stream=True)
        assert "".join(answer.text_stream) == "yes"
        return [str(each) for each in answer.samples]

    with running(Scripted(answer, features={"stream"}), policy=AT_ONCE):
        assert len(several()) == 2


def test_a_stream_of_nothing_may_be_tried_again() -> None:
    script = [Streamed((Chunk(0, ""),), BackendUnavailable("cut")), Streamed(("yes",))]

    @ppl
    def told() -> str:
        "Well?"
        return "".join(gen(stream=True).text_stream)

    with running(Scripted(script), policy=AT_ONCE):
        assert told() == "yes"


def test_the_clock_runs_what_waits() -> None:
    clock = VirtualClock()

    async def main() -> float:
        await clock.sleep(3600)
        return clock.now()

    assert clock.run(main()) == 3600


def test_a_wait_between_attempts_takes_the_time_of_the_clock_of_a_test() -> None:
    clock, failures = VirtualClock(), iter([BackendUnavailable("down"), BackendBusy("busy")])

    def answer(request: Request) -> str:
        for error in failures:
            raise error
        return "yes"

    with running(Scripted(answer), policy=Policy(clock=clock)):
        assert ask() == "yes"
    assert clock.now() > 0
