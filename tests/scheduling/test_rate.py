"""Requests in a period, tokens a minute: never more, in the order of coming, without polling."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from appl import gen, ppl
from appl.backend import Request, Response, Sample, Usage
from appl.runtime.scheduling.policy import Limits, Policy
from appl.testing import Answer, Late, VirtualClock, running


@ppl
def fan(width: int, longest: int) -> None:
    answers = [gen(max_tokens=longest) for _ in range(width)]
    assert len(answers) == width


@settings(max_examples=25, deadline=None)
@given(
    width=st.integers(1, 60), requests=st.integers(1, 12), period=st.sampled_from([1.0, 7.0, 60.0])
)
def test_no_window_has_more_requests_than_the_limit(
    width: int, requests: int, period: float
) -> None:
    clock, begun = VirtualClock(), list[float]()
    backend = Late(lambda _: begun.append(clock.now()) or "yes", clock, 0.5)  # type: ignore[func-returns-value]
    limits = Limits(requests=requests, period_s=period)
    with running(backend, policy=Policy(clock=clock, limits=limits)):
        fan(width, 10)
    assert len(begun) == width
    for first, later in zip(begun, begun[requests:], strict=False):
        assert later - first >= period - 1e-6
    assert begun[-1] <= (width - 1) // requests * period + 1e-6  # and as soon as that


def used(tokens: int) -> Answer:
    return Response((Sample("yes", "stop"),), Usage(0, tokens))


def test_tokens_are_those_asked_for_until_it_is_known_what_was_used() -> None:
    clock, begun = VirtualClock(), list[float]()

    def answer(request: Request) -> Answer:
        begun.append(clock.now())
        return used(100)

    backend = Late(answer, clock, 0.001)
    policy = Policy(clock=clock, limits=Limits(tokens_per_minute=6000))
    with running(backend, policy=policy):
        fan(20, 2992)  # and 8 for the prompt: two of these are a minute's
    assert begun[:2] == [0, 0]
    assert begun[-1] < 20  # most of what was reserved came back
    assert 6000 + 100 * begun[-1] + 3000 >= 100 * 20


def test_a_call_larger_than_the_limit_waits_for_a_full_bucket() -> None:
    clock = VirtualClock()
    backend = Late(lambda _: used(50_000), clock, 0.001)
    policy = Policy(clock=clock, limits=Limits(tokens_per_minute=6000))
    with running(backend, policy=policy):
        fan(2, 50_000)
    assert len(backend.requests) == 2
    assert 450 < clock.now() < 510
