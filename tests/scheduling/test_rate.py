"""Requests in a period, tokens a minute: never more, in the order of coming, without polling."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from hypothesis import given, settings, strategies as st

from appl import gen, ppl
from appl.backend import Request, Response, Sample, Usage
from appl.runtime.scheduling.rate import Rate
from appl.testing import Answer, Late, Limits, Policy, VirtualClock, running


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


@dataclass
class Caller:
    """Asks for leave at ``comes_at``, and gives up after ``patience``."""

    comes_at: float
    patience: float

    @property
    def leaves_at(self) -> float:
        """When it gives up."""
        return self.comes_at + self.patience


CALLERS = st.lists(
    st.builds(Caller, st.integers(0, 12).map(float), st.integers(0, 30).map(lambda s: s + 0.5)),
    min_size=1,
    max_size=20,
).map(lambda callers: sorted(callers, key=lambda caller: caller.comes_at))


def begun_by_hand(callers: list[Caller], requests: int, period: float) -> list[float | None]:
    """When each of *callers* is let through, worked out one after the other."""
    begun: list[float | None] = []
    line = 0.0  # when the caller before was let through, or gave up at the head of the line
    for caller in callers:
        last = [at for at in begun if at is not None][-requests:]
        free = last[0] + period if len(last) == requests else 0.0
        ready = max(caller.comes_at, line, free)
        through = ready < caller.leaves_at
        line = max(line, ready if through else caller.leaves_at)
        begun.append(ready if through else None)
    return begun


@settings(max_examples=50, deadline=None)
@given(callers=CALLERS, requests=st.integers(1, 3), period=st.sampled_from([1.0, 7.0]))
def test_who_waits_goes_in_the_order_of_coming_and_who_gives_up_takes_nothing(
    callers: list[Caller], requests: int, period: float
) -> None:
    clock = VirtualClock()
    begun: list[float | None] = [None] * len(callers)

    async def ask(rate: Rate, number: int, caller: Caller) -> None:
        await clock.sleep(caller.comes_at)
        asking = asyncio.ensure_future(rate.take(1))
        clock.at(caller.leaves_at, asking.cancel)
        await asyncio.wait([asking])
        if not asking.cancelled():
            begun[number] = clock.now()

    async def main() -> None:
        rate = Rate(Limits(requests=requests, period_s=period), clock)
        await asyncio.gather(*(ask(rate, *each) for each in enumerate(callers)))

    clock.run(main())
    expected = begun_by_hand(callers, requests, period)
    assert [None if at is None else round(at, 4) for at in begun] == expected
