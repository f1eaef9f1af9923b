"""How long calls wait for a server that refuses them, which is left alone, and who looks again."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from typing import Any

import pytest
from hypothesis import strategies as st

import appl
from appl import gen, ppl
from appl.backend import Request, Response, Sample, Usage
from appl.errors import (
    BackendBusy,
    BackendError,
    BackendRefused,
    BackendTimeout,
    BackendUnavailable,
)
from appl.testing import (
    Answer,
    CallDispatched,
    Late,
    Limits,
    Log,
    Policy,
    Retries,
    Run,
    Streamed,
    VirtualClock,
    running,
)
from tests.drawn import counts, examples

from .outages import YEARS, Case, Ends, Said, Simulation, Word, played


def drawn_case(dice: random.Random) -> Case:
    """A server that is busy, dead and well by turns, and calls that come at once or by and by."""
    turns = sorted(dice.uniform(0, 200) for _ in range(6))
    weights = [[dice.choice([0, 0, 1, 4]) + 0.01 for _ in range(3)] for _ in range(7)]
    waits = dice.choice([[None], [0.0], [None, 1.0], [None, 5.0, 30.0], [None, YEARS], [3.0, 99.0]])
    key = dice.random()

    def says(number: int, attempt: int, now: float) -> Word:
        own = random.Random(f"{key} {number} {attempt}")
        kind = own.choices(["ok", "busy", "dead"], weights[sum(at <= now for at in turns)])[0]
        return Word(own.uniform(0.01, 3.0), kind, None if kind == "ok" else own.choice(waits))

    late = dice.choice([0, 0, 5])
    ready = [0.0] * dice.randint(1, 12) + sorted(dice.uniform(0, 250) for _ in range(late))
    retries = Retries(
        attempts=dice.choice([2, 3, 50]),
        spare=10**6,
        patience_s=dice.choice([2.0, 20.0, 60.0]),
        base_s=dice.choice([0.1, 0.5, 8.0]),
    )
    return Case(says, tuple(ready), retries)


@examples(150, 3000, st.integers(0, 10**9))
def test_each_call_ends_when_the_rule_says(seed: int) -> None:
    case = drawn_case(random.Random(seed))
    assert played(case, seed)[0].of == Simulation(case, seed).run(), seed


# -- the bounds, whatever the limits are


@ppl
def fan(width: int) -> list[str]:
    "Well?"
    answers = [gen() for _ in range(width)]
    return [str(each) for each in answers]


@ppl
def ends_of(width: int) -> list[str]:
    """How so many calls at once end: with an answer, or by which error."""
    "Well?"
    answers, found = [gen() for _ in range(width)], []
    for answer in answers:
        try:
            found.append(str(answer))
        except BackendError as error:
            found.append(type(error).__name__)
    return found


KINDS = [("busy", wait) for wait in (0.0, 1.0, YEARS, None)]
KINDS += [("dead", wait) for wait in (0.0, 1.0, YEARS, None)]


def refusing(kind: str, wait: float | None, good: float) -> Any:
    """A server that answers a share of its calls, and refuses the others so."""

    def says(number: int, attempt: int, now: float) -> Word:
        own = random.Random(f"{kind} {wait} {number} {attempt}")
        if own.random() < good:
            return Word(own.uniform(0.2, 2.0), "ok")
        return Word(own.uniform(0.001, 0.1), kind, wait)

    return says


def begun(ends: Ends, server: Said, number: int, at: float) -> float:
    """The moment from which the patience of a call counts that ended *at* then."""
    heard = [(asked + word.seconds, who, word.kind) for asked, who, word in server.log]
    own = [when for when, who, kind in heard if who == number and kind != "ok"]
    good = [when for when, _, kind in heard if kind == "ok" and when <= at]
    return min([*own, max([*good, ends.ready[number]])])


@pytest.mark.parametrize(("kind", "wait"), KINDS)
@pytest.mark.parametrize("width", [1, 20, 200, pytest.param(600, marks=pytest.mark.long)])
def test_each_call_ends_soon_after_its_patience(kind: str, wait: float | None, width: int) -> None:
    for good in (0.0, 0.1, 0.7):
        ends_in_time(refusing(kind, wait, good), width)


def ends_in_time(says: Any, width: int, patience_s: float = 6.0) -> None:
    clock = VirtualClock()
    server, ends = Said(says, clock), Ends(clock)
    policy = Policy(
        clock=clock, retries=Retries(patience_s=patience_s), limits=Limits(concurrency=200)
    )
    with running(server, policy=policy, instruments=[ends]):
        found = ends_of(width)
    assert len(ends.of) == width
    assert {"BackendBusy", "BackendUnavailable", "yes"} >= {*found}
    for number, (at, how) in ends.of.items():
        if how != "ok":
            late = begun(ends, server, number, at) + 1.2 * patience_s + 2
            assert at <= late, (number, at, late)


@counts(2000, 10_000)
def test_a_healthy_map_never_ends_by_it(count: int) -> None:
    clock = VirtualClock()
    backend = Late(lambda _: "yes", clock)
    policy = Policy(
        clock=clock, retries=Retries(patience_s=2.0), limits=Limits(concurrency=count // 100)
    )
    with running(backend, policy=policy):
        assert fan(count) == ["yes"] * count
    assert clock.now() == 100  # the last one has waited for fifty times the patience


@counts(1000, 10_000)
def test_a_map_at_a_server_that_refuses_now_and_then_never_ends_by_it(count: int) -> None:
    clock, seen = VirtualClock(), Counter[str]()

    def answer(request: Request) -> Answer:
        seen[request.address] += 1
        bad = number_of_gen(request) % 10 == 0 and seen[request.address] < 3
        return BackendBusy("429", retry_after=seen[request.address] - 1) if bad else "yes"

    policy = Policy(
        clock=clock, retries=Retries(patience_s=60.0), limits=Limits(concurrency=count // 100)
    )
    with running(Late(answer, clock), policy=policy):
        assert fan(count) == ["yes"] * count


def number_of_gen(request: Request) -> int:
    return int(request.address.rpartition(".")[2])


# -- who is left alone, and who looks again


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

    policy = Policy(clock=clock, retries=Retries(patience_s=100, cap_s=4))
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


def test_after_failures_to_connect_one_call_looks_again() -> None:
    clock = VirtualClock()
    policy = Policy(
        clock=clock,
        retries=Retries(attempts=9, base_s=1, cap_s=8, patience_s=100, spare=1000),
    )
    backend = Unreached(clock, 40.0)
    with running(backend, policy=policy):
        assert fan(30) == ["yes"] * 30
    pauses = [b - a - 0.1 for a, b in itertools.pairwise(backend.probes)]
    assert max(pauses[:4]) < 2  # until it is taken for dead
    assert [round(pause) for pause in pauses[4:8]] == [2, 4, 8, 8]


@pytest.mark.parametrize("backend", [
    lambda clock: Unreached(clock, 1e9),
    lambda clock: Late(lambda _: BackendUnavailable("refused"), clock, 0.001, concurrency=3),
])  # fmt: skip
def test_who_has_waited_long_enough_for_a_dead_backend_gives_up(backend: Any) -> None:
    clock = VirtualClock()
    policy = Policy(clock=clock, retries=Retries(attempts=9, patience_s=10))
    with running(dead := backend(clock), policy=policy):
        assert ends_of(30) == ["BackendUnavailable"] * 30
    assert 10 <= clock.now() < 10.2 and dead.present == 0


def test_a_refusal_for_good_is_a_sign_of_life() -> None:
    clock = VirtualClock()
    policy = Policy(clock=clock, retries=Retries(attempts=5, base_s=0))
    script: list[Answer] = [*[BackendUnavailable("?")] * 4, BackendRefused("no")] * 2
    lines = iter([*script, "yes"])
    with running(Late(lambda _: next(lines), clock), policy=policy):
        assert ends_of(1) == ends_of(1) == ["BackendRefused"]
        assert ends_of(1) == ["yes"]
    assert clock.now() == 11  # nobody has waited


def test_with_one_attempt_every_call_fails_for_itself() -> None:
    clock = VirtualClock()
    policy = Policy(clock=clock, retries=Retries(attempts=1))
    backend = Late(lambda _: BackendUnavailable("refused", retry_after=YEARS), clock, 0.001)
    with running(backend, policy=policy):
        assert ends_of(30) == ["BackendUnavailable"] * 30
        assert ends_of(30) == ["BackendUnavailable"] * 30
    assert len(backend.requests) == 60 and clock.now() < 0.01


# -- a wait that is longer than the patience


def test_a_wait_beyond_the_patience_ends_all_at_once_in_the_words_of_the_server() -> None:
    clock = VirtualClock()
    words = "mill answered 429: come back tomorrow"
    backend = Late(lambda _: BackendBusy(words, retry_after=50_000.0), clock, 0.1, concurrency=3)
    with running(backend, policy=Policy(clock=clock)):
        assert ends_of(40) == ["BackendBusy"] * 40
        with pytest.raises(BackendBusy, match=f"^{words}; .* longer than 60 s: .*retries.patience"):
            fan(1)
    assert clock.now() == 0.1 and len(backend.requests) == 3


def test_calls_that_rest_and_calls_that_wait_end_at_once_too() -> None:
    clock = VirtualClock()
    times: list[float] = []

    def answer(request: Request) -> Answer:
        times.append(clock.now())
        return BackendBusy("429", retry_after=5.0 if len(times) < 5 else YEARS)

    backend = Late(answer, clock, 1.0, concurrency=3)
    with running(backend, policy=Policy(clock=clock)):
        assert ends_of(40) == ["BackendBusy"] * 40
    assert times[4] + 1.0 <= clock.now() == times[-1] + 1.0 and len(times) < 8


def test_new_calls_are_not_sent_while_that_holds_and_are_sent_again_afterwards() -> None:
    clock = VirtualClock()
    up = [1000.0]

    def answer(request: Request) -> Answer:
        left = up[0] - clock.now()
        return "yes" if left <= 0 else BackendBusy("429", retry_after=left)

    backend = Late(answer, clock, 0.5)
    with running(backend, policy=Policy(clock=clock)) as seen:
        assert ends_of(2) == ["BackendBusy"] * 2
        pass_time(clock, 900)
        assert ends_of(2) == ["BackendBusy"] * 2 and len(seen.requests) == 2
        pass_time(clock, 960)
        assert ends_of(2) == ["yes"] * 2  # within their patience
    assert 1000 <= clock.now() < 1003


def test_a_service_recovers_within_the_hour_from_a_wait_of_years() -> None:
    clock = VirtualClock()
    lines: list[Answer] = [BackendBusy("429", retry_after=YEARS), *["yes"] * 3]
    backend = Late(lambda _: lines.pop(0), clock, 0.5)
    with running(backend, policy=Policy(clock=clock)) as seen:
        assert ends_of(1) == ["BackendBusy"]
        pass_time(clock, 3000)
        assert ends_of(3) == ["BackendBusy"] * 3 and len(seen.requests) == 1
        pass_time(clock, 3600.5)
        assert ends_of(3) == ["yes"] * 3
    assert clock.now() == 3601.5  # one call alone has asked first


def pass_time(clock: VirtualClock, until: float) -> None:
    """Have it be *until*; nothing waits for the clock."""
    clock.at(until, lambda: None)
    while clock.now() < until:
        assert clock.advance()


# -- one of many models, streams, limits of our own, and ends from elsewhere


def test_one_model_that_is_left_alone_holds_no_other_up() -> None:
    clock = VirtualClock()

    def answer(request: Request) -> Answer:
        return BackendBusy("daily quota", retry_after=YEARS) if request.model == "a" else "yes"

    @ppl
    def both() -> list[str]:
        "x"
        found = []
        for model in "aabab":
            try:
                found.append(str(gen(model)))
            except BackendBusy:
                found.append("busy")
        return found

    with running(Late(answer, clock), policy=Policy(clock=clock)) as seen:
        assert both() == ["busy", "busy", "yes", "busy", "yes"]
    assert [request.model for request in seen.requests] == ["a", "b", "b"]


def test_a_stream_of_which_nothing_was_seen_waits_and_ends_alike() -> None:
    clock = VirtualClock()
    script: list[Answer] = [BackendBusy("429", retry_after=3.0), Streamed(("al", "l"))]
    lines = iter([*script, *[Streamed((), BackendUnavailable("cut"))] * 99])

    @ppl
    def streamed() -> str:
        "x"
        return "".join(gen(stream=True).text_stream)

    policy = Policy(clock=clock, retries=Retries(attempts=99, patience_s=6))
    with running(Late(lambda _: next(lines), clock), policy=policy):
        assert streamed() == "all"
        before = clock.now()
        with pytest.raises(BackendUnavailable):
            streamed()
    assert 6 <= clock.now() - before <= 6 + 2


def test_the_wait_for_a_budget_does_not_count() -> None:
    clock = VirtualClock()
    yes = Response((Sample("yes", "stop"),), Usage(1, 2))

    def answer(request: Request) -> Answer:
        well = request.model == "slow" or clock.now() > 20
        return yes if well else BackendBusy("429")

    delay: Any = lambda request: 100.0 if request.model == "slow" else 0.5  # noqa: E731
    policy = Policy(clock=clock, retries=Retries(patience_s=10))
    with running(Late(answer, clock, delay), policy=policy):
        refused = gen("n", messages="x")
        with appl.budget(tokens=200):
            slow = gen("slow", messages="x", max_tokens=150)
            waits = gen("n", messages="x", max_tokens=100)  # until the slow one is back
            with pytest.raises(BackendBusy):
                str(refused)
            assert 10 < clock.now() < 12
            assert (str(slow), str(waits)) == ("yes", "yes")


def test_who_comes_later_with_priority_goes_before_those_that_wait_for_the_server() -> None:
    clock = VirtualClock()
    lines = iter([BackendBusy("429", retry_after=30.0), *["yes"] * 99])
    backend = Late(lambda _: next(lines), clock, 1.0, concurrency=1)

    @ppl
    def urgent() -> None:
        "x"
        answers = [gen() for _ in range(9)]
        appl.sleep(0)
        str(gen(priority=5))
        assert len(answers) == 9

    with running(backend, policy=Policy(clock=clock)):
        urgent()
    order = [number_of_gen(request) for request in backend.requests]
    assert order.index(9) <= 3


def test_calls_that_are_cancelled_or_late_while_they_wait_leave_their_places_to_others() -> None:
    clock = VirtualClock()

    def answer(request: Request) -> Answer:
        return BackendUnavailable("down") if clock.now() < 10 else "yes"

    @ppl
    def program() -> list[str]:
        "x"
        answers = [gen(), *[gen(timeout=7.0) for _ in range(3)], *[gen() for _ in range(8)]]
        for late in answers[1:4]:
            with pytest.raises(BackendTimeout):
                str(late)
        for answer in answers[4:8]:
            answer.cancel()
        return [str(answer) for answer in [answers[0], *answers[8:]]]

    with running(Late(answer, clock, 0.5), policy=Policy(clock=clock)) as backend:
        assert program() == ["yes"] * 5
    assert backend.present == 0 and 10 < clock.now() < 20


def test_the_deadline_of_a_call_ends_it_while_it_waits() -> None:
    clock = VirtualClock()
    backend = Late(lambda _: BackendBusy("429", retry_after=20.0), clock, 1.0)
    with (
        running(backend, policy=Policy(clock=clock)),
        pytest.raises(BackendTimeout, match="within 5"),
    ):
        str(gen(messages="x", timeout=5.0))
    assert clock.now() == 5


def test_a_pause_of_the_run_does_not_count() -> None:
    clock, log = VirtualClock(), Log()
    backend = Late(lambda _: BackendBusy("429", retry_after=4.0), clock, 1.0)
    policy = Policy(clock=clock, retries=Retries(patience_s=10, base_s=0))

    def after(seconds: float, act: str) -> None:
        clock.at(seconds, lambda: getattr(run.dispatch.scheduler, act)())

    with Run(backend, policy=policy, instruments=[log]) as run:
        after(3.0, "pause")
        after(500.0, "resume")
        assert ends_of(3) == ["BackendBusy"] * 3
    assert 510 <= clock.now() <= 511
    assert len(log.of(CallDispatched)) > 3


def test_a_run_waits_for_what_another_run_was_told() -> None:
    from appl.runtime.scheduling import Traffic

    clock = VirtualClock()
    policy = Policy(clock=clock)
    traffic = Traffic(policy, None)
    backend = Late(lambda _: BackendBusy("429", retry_after=YEARS), clock, 1.0)
    for _ in range(2):
        with Run(backend, policy=policy, traffic=traffic):
            assert ends_of(2) == ["BackendBusy"] * 2
    assert len(backend.requests) == 2 and clock.now() == 1.0
