"""Deadlines: for the first token, between tokens, for the call with all its attempts."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from appl import gen, ppl
from appl.backend import Request
from appl.errors import BackendTimeout, BackendUnavailable, CallCancelled
from appl.runtime.scheduling.dispatcher import CommonDeadline
from appl.testing import Answer, Deadlines, Late, Policy, Retries, Streamed, VirtualClock, running


@ppl
def ask(timeout: float | None = None) -> str:
    "Well?"
    return str(gen(timeout=timeout))


def late(delays: list[float], *answers: Answer, **profile: object) -> Late:
    """Answers *answers* with *delays* between their pieces; the last of each again and again."""
    clock = VirtualClock()
    waits, said = iter(delays), iter(answers)
    last: list[float] = [0.0]

    def delay(_: Request) -> float:
        last[0] = next(waits, last[0])
        return last[0]

    return Late(lambda _: next(said), clock, delay, **profile)


def policy(backend: Late, attempts: int = 3, **deadlines: float) -> Policy:
    retries = Retries(attempts=attempts, base_s=0)
    return Policy(clock=backend.clock, deadlines=Deadlines(**deadlines), retries=retries)


def test_a_first_token_that_does_not_come_is_a_reason_to_ask_again() -> None:
    backend = late([9.0, 1.0], "never", Streamed(("y", "es")))
    with running(backend, policy=policy(backend, first_token_s=5)):
        assert ask() == "yes"
    assert backend.cancelled == ["/ask.0/gen.0"]
    assert backend.clock.now() == 5 + 3


def test_tokens_may_come_slowly_but_not_too_slowly() -> None:
    pieces = Streamed(("a", "b", "c"))
    slow = late([4.0], pieces)
    with running(slow, policy=policy(slow, first_token_s=5, between_tokens_s=5)):
        assert ask() == "abc"
    stuck = late([4.0], pieces, pieces)
    with (
        pytest.raises(BackendTimeout, match="no next token within 3 s") as caught,
        running(stuck, policy=policy(stuck, 2, first_token_s=5, between_tokens_s=3)),
    ):
        ask()
    assert caught.value.deadline == "between tokens"
    assert len(stuck.requests) == 2


def test_the_total_holds_for_all_attempts() -> None:
    backend = late([2.0], *[BackendUnavailable("reset")] * 9)
    with (
        pytest.raises(BackendTimeout, match=r"no answer within 5\.0 s") as caught,
        running(backend, policy=policy(backend, 9)),
    ):
        ask(timeout=5.0)
    assert caught.value.deadline == "total" and not caught.value.retriable
    assert len(backend.requests) == 3
    assert backend.clock.now() == 5


def test_a_total_of_the_settings_holds_where_a_call_says_nothing() -> None:
    backend = late([2.0], "yes", "yes")
    with running(backend, policy=policy(backend, total_s=1)):
        with pytest.raises(BackendTimeout):
            ask()
        assert ask(timeout=3) == "yes"


def test_a_backend_that_cannot_stream_has_no_deadlines_for_tokens() -> None:
    backend = late([9.0], "yes", features={"n"})
    with running(backend, policy=policy(backend, first_token_s=5)):
        assert ask() == "yes"


def test_a_deadline_between_tokens_that_a_program_has_read_ends_the_call() -> None:
    @ppl
    def told() -> Iterator[str]:
        "Well?"
        yield from gen(stream=True).text_stream

    backend = late([1.0], Streamed(("a", "b")), Streamed(("a", "b")))
    seen: list[str] = []
    with running(backend, policy=policy(backend, first_token_s=5, between_tokens_s=0.5)):
        with pytest.raises(BackendTimeout):
            seen += told()
        assert len(backend.requests) == 1


def test_a_cancelled_call_is_not_taken_for_a_late_one() -> None:
    backend = late([50.0], "never")

    @ppl
    def cancelled() -> str:
        "Well?"
        answer = gen()
        answer.cancel()
        return str(answer)

    with running(backend, policy=policy(backend, first_token_s=60)), pytest.raises(CallCancelled):
        cancelled()
    assert len(backend.requests) <= 1


def test_the_default_deadline_ends_what_takes_too_long_and_nothing_else() -> None:
    clock = VirtualClock()
    deadline = CommonDeadline(clock, 10)
    ended: dict[str, float] = {}

    async def sleep(seconds: float, name: str) -> str:
        await clock.sleep(seconds)
        return name

    async def attempt(name: str, begins: float, takes: float) -> str:
        await clock.sleep(begins)
        try:
            with deadline:
                return await sleep(takes, name)
        finally:
            ended[name] = clock.now()

    async def main() -> list[object]:
        every = [("a", 0, 9), ("b", 1, 50), ("c", 2, 9), ("d", 5, 50), ("e", 12, 9.5)]
        waiting = [attempt(*each) for each in every]
        return list(await asyncio.gather(*waiting, return_exceptions=True))

    results = clock.run(main())
    assert [each if isinstance(each, str) else type(each) for each in results] == [
        "a", BackendTimeout, "c", BackendTimeout, "e",
    ]  # fmt: skip
    assert ended == {"a": 9, "b": 11, "c": 11, "d": 15, "e": 21.5}
    assert str(results[1]) == "no answer within 10 s"


def test_what_is_cancelled_from_elsewhere_is_not_taken_for_late() -> None:
    clock = VirtualClock()
    deadline = CommonDeadline(clock, 10)

    async def attempt() -> None:
        with deadline:
            await clock.sleep(50)

    async def main() -> None:
        for at in (3, 10):  # before the deadline, and at the same moment
            task = asyncio.ensure_future(attempt())
            await clock.sleep(at)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    clock.run(main())
