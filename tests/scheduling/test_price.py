"""What calls cost: exact, rounded one way, never more than was reserved, and free only if unworked."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from types import MappingProxyType

import pytest
from hypothesis import given, settings, strategies as st

import appl
from appl import gen, ppl
from appl.backend import Request, Response, Sample, Usage
from appl.backend.http import unreachable
from appl.backend.price import (
    NOTHING,
    Overridden,
    Price,
    limit_of,
    millionths,
    price_for,
    price_of,
    used_by,
)
from appl.errors import (
    AuthenticationFailed,
    BackendBusy,
    BackendError,
    BackendRefused,
    BackendTimeout,
    BackendUnavailable,
    InvalidOption,
    MalformedResponse,
)
from appl.testing import Allowance, Late, Policy, Retries, Run, VirtualClock
from appl.tracing import Recorder, Trace, profile_data
from appl.tracing.explaining import costs

decimals = st.decimals(0, 100_000, places=6)
counts = st.integers(0, 10**9)


@settings(max_examples=40)
@given(decimals, decimals, st.none() | decimals, counts, counts, st.none() | counts)
def test_costs_are_exact_and_a_part_of_a_millionth_is_a_whole_one(
    prompt: Fraction,
    answer: Fraction,
    cached: Fraction | None,
    asked: int,
    said: int,
    held: int | None,
) -> None:
    price = Price(float(prompt), float(answer), None if cached is None else float(cached))
    found = min(held or 0, asked)
    of_cached = Fraction(prompt if cached is None else cached)
    exact = (asked - found) * Fraction(prompt) + found * of_cached + said * Fraction(answer)
    assert price.cost(Usage(asked, said, held)) == math.ceil(exact)


@settings(max_examples=40)
@given(decimals, decimals, decimals, counts, counts, counts)
def test_no_usage_costs_more_than_the_most(
    prompt: Fraction, answer: Fraction, cached: Fraction, asked: int, said: int, held: int
) -> None:
    price = Price(float(prompt), float(answer), float(cached))
    cost = price.cost(Usage(asked, said, held))
    assert cost is not None and cost <= price.most(asked, said)
    assert price.most(asked, said) == -(-price.trillionths(asked, said) // 1_000_000)


def test_what_is_not_said_makes_the_cost_unknown() -> None:
    price = Price(1, 2)
    assert price.cost(Usage(1, None)) is None and price.cost(Usage(None, 1)) is None
    assert price.cost(Usage(100, 10)) == price.cost(Usage(100, 10, 60)) == 120


@pytest.mark.parametrize(
    ("units", "up", "down"),
    [(0.0, 0, 0), (2.3, 2_300_000, 2_300_000), (100 * 3e-06, 300, 300), (1e-7, 1, 0)],
)
def test_amounts_of_others_have_no_noise_of_floats(units: float, up: int, down: int) -> None:
    assert (millionths(units), limit_of(units)) == (up, down)


@pytest.mark.parametrize("price", [-1.0, math.nan, math.inf])
def test_a_price_is_an_amount_of_money(price: float) -> None:
    with pytest.raises(InvalidOption, match="number of at least 0"):
        Price(1.0, price)


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        (3, "a table like"),
        ({"prompt": 1.0}, "both needed"),
        ({"prompt": 1.0, "answer": True}, "answer must be a number"),
        ({"prompt": 1.0, "answer": 1.0, "cache": 1.0}, "did you mean 'cached'"),
    ],
)
def test_a_row_that_is_no_price_says_why(row: object, problem: str) -> None:
    with pytest.raises(InvalidOption, match=problem):
        price_of(row)


def test_the_price_of_every_other_model_is_the_last_that_counts() -> None:
    prices = {"a": Price(1, 1), "": Price(2, 2)}
    assert price_for(prices, "x", "a") == Price(1, 1)
    assert price_for(prices, "x", "y") == Price(2, 2)
    assert price_for({}, "x") is None


def test_a_price_of_the_users_hides_none_of_the_others_that_a_backend_brings() -> None:
    brought = {"a": Price(1, 1), "b": Price(3, 3), "": Price(5, 5)}
    prices = Overridden({"a": Price(2, 2)}, brought)
    assert [price_for(prices, name) for name in "abc"] == [Price(n, n) for n in (2, 3, 5)]
    others = Overridden({"": Price(7, 7)}, {"b": Price(3, 3)})
    assert [price_for(others, name) for name in "bc"] == [Price(3, 3), Price(7, 7)]
    assert price_for(Overridden({}, {}), "a") is None


class Listed(Late):
    """A backend that knows what its models cost."""

    prices = MappingProxyType({"dear": Price(20.0, 20.0), "mine": Price(20.0, 20.0)})


def test_budgets_take_the_backends_price_of_a_model_that_the_user_does_not_name() -> None:
    backend = Listed(lambda _: Response((Sample("a", "stop"),), Usage(10, 10)), VirtualClock())
    policy = Policy(clock=backend.clock, prices={"mine": Price(1.0, 1.0)})

    @ppl
    def ask(model: str) -> str:
        "Well?"
        return str(gen(model, max_tokens=10))

    spent = []
    with Run(backend, policy=policy):
        for model in ("mine", "dear"):
            with appl.budget(cost=1.0) as block:
                ask(model)
            spent.append(block.spent.cost)
    assert spent == [20, 400]


UNSENT = BackendUnavailable("no route", worked=False)
FREE = (
    BackendBusy("429"), AuthenticationFailed("401"), BackendRefused("400"), UNSENT,
    BackendTimeout("away", deadline="connect"), unreachable(OSError("refused"), "x"),
)  # fmt: skip
DOUBTFUL = (
    BackendTimeout("late", deadline="first token"), BackendUnavailable("500"), MalformedResponse("?"),
    unreachable(OSError("reset"), "x", begun=True), BackendRefused("filtered", worked=True),
    RuntimeError("a bug"), BackendUnavailable("a forged count", usage=(1, -2, None)),
)  # fmt: skip
PAID = MalformedResponse("cut", usage=(18, 2, None)), BackendRefused("filtered", usage=(18, 2, 9))


def test_one_function_says_what_failed_attempts_have_used() -> None:
    assert [used_by(error) for error in FREE] == [NOTHING] * len(FREE)
    assert [used_by(error) for error in DOUBTFUL] == [None] * len(DOUBTFUL)
    assert [used_by(error) for error in PAID] == [Usage(18, 2), Usage(18, 2, 9)]


@ppl
def asks() -> str:
    "Well?"
    return str(gen(max_tokens=10))


PRICES = {"": Price(2.0, 10.0, 3.0)}
WORST = (18 * 3 + 10 * 10, 28, 1)


def weather(city: str) -> str:
    """Say what the weather is.

    Args:
        city: Where.
    """
    return city


@ppl
def asks_with_tools() -> str:
    "Well?"
    return str(gen(max_tokens=10, tools=[weather]))


@ppl
def asks_for_a_number() -> str:
    "Well?"
    return str(gen(max_tokens=10, response_format=dict[str, int]))


@ppl
def chooses() -> str:
    "Well?"
    return str(gen(choices=["yes", "nö"]))


@ppl
def asks_for_all_there_is() -> str:
    "Well?"
    return str(gen())


@ppl
def asks_twice() -> str:
    f"Well? {asks()}"
    return str(gen(max_tokens=10))


FORMS = asks_with_tools, asks_for_a_number, chooses, asks_for_all_there_is, asks_twice


@pytest.mark.parametrize("program", FORMS, ids=lambda program: program.__name__)
def test_costs_have_as_much_in_doubt_as_a_budget_reserved(
    program: Callable[[], str], tmp_path: Path
) -> None:
    def answer(request: Request) -> Response | BaseException:
        if "." in request.address.rpartition("/")[0].rpartition("/")[0]:  # the inner one
            return Response((Sample("so", "stop"),), Usage(500, 1))  # denser than was thought
        return MalformedResponse("?")

    backend = Late(answer, VirtualClock(), context=700)
    policy = Policy(clock=backend.clock, prices=PRICES, retries=Retries(attempts=1))
    recorder = Recorder(tmp_path / "one.trace", {"profile": profile_data(backend.profile)})
    with (
        Run(backend, instruments=[recorder], gate=recorder.gate, policy=policy),
        appl.budget(cost=0.5) as block,
        pytest.raises(MalformedResponse),
    ):
        program()
    recorder.close()
    found = costs.of(Trace.open(tmp_path / "one.trace"), PRICES)
    assert found.in_doubt.calls == 1 and not found.in_doubt.open_ended
    assert found.in_doubt.cost + found.spent.cost == block.spent.cost
    sums = found.in_doubt, found.spent
    assert sum(s.prompt_tokens + s.completion_tokens for s in sums) == block.spent.tokens


def charged(path: Path, error: BaseException) -> tuple[tuple[int, ...], costs.Costs]:
    """What a budget and the costs of the trace say of an attempt that fails, and one that does not."""
    lines = iter([error, Response((Sample("yes", "stop"),), Usage(6, 4))])
    backend = Late(lambda _: next(lines), VirtualClock())
    policy = Policy(
        clock=backend.clock, prices=PRICES, budget=Allowance(cost=1.0, tokens=1000),
        retries=Retries(attempts=2, base_s=0),
    )  # fmt: skip
    recorder = Recorder(path, {"profile": profile_data(backend.profile)})
    with (
        Run(backend, instruments=[recorder], gate=recorder.gate, policy=policy),
        appl.budget(cost=0.5) as block,
        contextlib.suppress(BackendError, RuntimeError),
    ):
        asks()
    recorder.close()
    return block.spent, costs.of(Trace.open(path), PRICES)


@pytest.mark.parametrize("error", FREE, ids=str)
def test_what_is_free_is_free_in_budgets_and_in_costs(error: BackendError, tmp_path: Path) -> None:
    spent, cost = charged(tmp_path / "one.trace", error)
    assert spent == ((52, 10, 1) if error.retriable else (0, 0, 0))
    assert cost.in_doubt.calls == 0 and cost.spent.calls == error.retriable


@pytest.mark.parametrize("error", DOUBTFUL, ids=str)
def test_what_is_in_doubt_is_charged_at_its_worst_and_shown_so(
    error: BaseException, tmp_path: Path
) -> None:
    spent, cost = charged(tmp_path / "one.trace", error)
    again = getattr(error, "retriable", False)
    assert spent == tuple(a + b * again for a, b in zip(WORST, (52, 10, 1), strict=True))
    assert (cost.in_doubt.calls, cost.spent.calls) == (1, int(again))
    assert cost.in_doubt.cost == WORST[0]


@pytest.mark.parametrize("error", PAID, ids=str)
def test_what_a_failed_attempt_says_is_what_it_costs(error: BackendError, tmp_path: Path) -> None:
    spent, cost = charged(tmp_path / "one.trace", error)
    own = PRICES[""].cost(Usage(*error.usage or ()))
    assert own is not None
    assert spent == (own + 52 * error.retriable, 20 + 10 * error.retriable, 1 + error.retriable)
    assert (cost.spent.cost, cost.in_doubt.calls) == (spent[0], 0)


class Unreachable(Late):
    """A server that cannot be connected with the first time."""

    def __init__(self) -> None:
        super().__init__(lambda _: Response((Sample("yes", "stop"),), Usage(6, 4)), VirtualClock())
        self.errors = [BackendUnavailable("503")]

    async def connect(self) -> None:
        if self.errors:
            raise self.errors.pop()


def test_a_probe_that_failed_has_sent_no_request(tmp_path: Path) -> None:
    backend = Unreachable()
    recorder = Recorder(tmp_path / "one.trace", {"profile": profile_data(backend.profile)})
    policy = Policy(clock=backend.clock)
    with (
        Run(backend, instruments=[recorder], gate=recorder.gate, policy=policy),
        appl.budget(tokens=100) as block,
    ):
        assert asks() == "yes"
    recorder.close()
    found = costs.of(Trace.open(tmp_path / "one.trace"))
    assert block.spent == (None, 10, 1)
    assert (found.spent.calls, found.in_doubt.calls) == (1, 0)
