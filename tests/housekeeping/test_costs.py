"""The four kinds of cost: each attempt counts once, in one of them, and unknown is never 0."""

from __future__ import annotations

from typing import Any

from hypothesis import given, strategies as st

from appl.backend import Response, Sample, Usage
from appl.backend.price import Price
from appl.errors import BackendBusy, BackendTimeout, MalformedResponse
from appl.prompt import Message, Messages
from appl.tracing import Attempt, RecordedCall
from appl.tracing.explaining import costs

PRICES = {"m": Price(prompt=2, answer=10, cached=1)}
PROMPT = Messages.of([Message("user", "x" * 90)])


def call(*attempts: BaseException | None, **given: Any) -> RecordedCall:
    """A call of model ``m`` with the errors of its attempts; the last one may have an answer."""
    made = RecordedCall(
        "/a.0/gen.0", model="m", messages=PROMPT, sampling='{"max_tokens":50}', started=0
    )
    made.attempts = [Attempt(i, 0, error) for i, error in enumerate(attempts, 1)]
    for name, value in given.items():
        setattr(made, name, value)
    if made.response is not None:
        made.outcome = "answered"
    return made


def response(*counts: int | None, cost: int | None = None, text: str = "hi") -> Response:
    return Response((Sample(text, "stop"),), Usage(*counts), "m", cost=cost)


def kinds(*calls: RecordedCall, prices: dict[str, Price] | None = None) -> dict[str, Any]:
    found = costs.of_calls(calls, costs.Terms(PRICES if prices is None else prices))
    return {
        kind: (amount.calls, amount.known("prompt_tokens"), amount.known("cost"))
        for kind in costs.KINDS
        if (amount := getattr(found, kind)).calls
    }


def test_an_answer_is_spent_at_its_own_cost_or_at_the_price_of_its_tokens() -> None:
    assert kinds(call(None, response=response(100, 10, 0, cost=7))) == {"spent": (1, 100, 7)}
    assert kinds(call(None, response=response(100, 10, 60))) == {"spent": (1, 100, 240)}


def test_without_a_price_the_cost_is_unknown_and_not_nothing() -> None:
    found = costs.of_calls([call(None, response=response(100, 10))])
    assert found.spent.known("cost") is None
    assert found.spent.unknown["cost"] == 1
    assert found.as_data()["spent"]["cost"] is None
    assert "100 prompt tokens" in found.line()


def test_an_answer_without_usage_is_estimated() -> None:
    assert kinds(call(None, response=response())) == {"estimated": (1, 46, 182)}


def test_what_another_run_paid_is_reused() -> None:
    paid = response(100, 10, 0)
    assert kinds(call(response=paid, source="moved", of="/a.1/gen.0")) == {"reused": (1, 100, 300)}
    assert kinds(call(response=response(), source="pinned")) == {"reused": (1, 0, 0)}


def test_failed_attempts_are_free_or_paid_or_in_doubt() -> None:
    paid = MalformedResponse("cut off", usage=(100, 4, None))
    lost = BackendTimeout("late", deadline="first token")
    last = response(100, 10, 0)
    assert kinds(call(BackendBusy("429"), None, response=last)) == {"spent": (1, 100, 300)}
    assert kinds(call(paid, None, response=last)) == {"spent": (2, 200, 540)}
    assert kinds(call(lost, None, response=last)) == {
        "spent": (1, 100, 300),
        "in_doubt": (1, 46, 592),
    }
    assert kinds(call(BackendTimeout("away", deadline="connect"))) == {}


def test_a_call_in_flight_is_in_doubt_once_it_was_sent() -> None:
    assert kinds(call()) == {}
    assert kinds(call(None)) == {"in_doubt": (1, 46, 592)}
    assert kinds(call(None, outcome="cancelled")) == {"in_doubt": (1, 46, 592)}
    assert kinds(call(None, outcome="failed", error=BackendBusy("429"))) == {}


def test_the_upper_bound_is_unknown_where_nobody_limits_the_answer() -> None:
    found = costs.of_calls([call(None, sampling="{}")], costs.Terms(PRICES))
    assert found.in_doubt.known("completion_tokens") is None
    doubt = "in doubt at least 46 prompt tokens, ? completion tokens, cost unknown"
    assert found.line() == f"spent nothing; {doubt}"


def test_what_is_in_doubt_is_at_least_this_where_the_texts_are_not_there() -> None:
    doubt = "in doubt at least ? prompt tokens, 50 completion tokens, cost unknown"
    unread = costs.of_calls([call(None, messages=None)], costs.Terms(PRICES))
    private = costs.of_calls([call(None)], costs.terms_of({"privacy": {"mode": "private"}}))
    assert unread.line() == private.line() == f"spent nothing; {doubt}"
    assert unread.in_doubt.known("cost") is None


def test_the_context_of_the_model_limits_an_answer_that_nobody_else_does() -> None:
    found = costs.of_calls(
        [call(None, sampling="{}")], costs.terms_of({"profile": {"context": 99}})
    )
    assert (found.in_doubt.prompt_tokens, found.in_doubt.completion_tokens) == (46, 53)


def test_estimates_grow_with_what_the_answers_before_had_shown() -> None:
    dense = call(None, response=response(92, 1), ended=10)  # twice as many as was thought
    early, late = call(None), call(None)
    early.attempts[0].at, late.attempts[0].at = 9, 10
    again = call(None, incarnation=2)
    found = [costs.of_calls([dense, each]).in_doubt.prompt_tokens for each in (early, late, again)]
    assert found == [46, 92, 46]


def test_samples_of_a_cache_cost_nothing() -> None:
    one = Sample("hi", "stop")
    cached = Response((one, one), Usage(0, 0, 0), "m", reused=2)
    mixed = Response((one, one, one), Usage(10, 1, 0), "m", reused=2)
    found = costs.of_calls([call(response=cached), call(None, response=mixed)], costs.Terms(PRICES))
    assert (found.samples, found.spent.calls, found.spent.cost) == (4, 1, 30)


def test_a_second_attempt_that_was_not_waited_for_is_in_doubt() -> None:
    assert kinds(call(None, None, response=response(100, 10, 0)))["in_doubt"] == (1, 46, 592)


def test_prices_are_those_of_the_recorded_settings() -> None:
    row = {"prompt": 1.0, "answer": 2.0}
    head = {"backend": "openai", "settings": {"prices.openai/m": row, "prices.x": {"prompt": "?"}}}
    assert costs.prices_of(head) == {"openai/m": Price(1, 2), "m": Price(1, 2)}
    assert costs.prices_of({"settings": 3}) == {}


counts = st.none() | st.integers(0, 1000)


@given(st.lists(st.tuples(counts, counts, st.sampled_from([None, "reused", "shifted"]))))
def test_the_kinds_add_up_over_models_and_each_answer_counts_once(
    answers: list[tuple[int | None, int | None, str | None]],
) -> None:
    calls = [
        call(None, response=response(a, b), source=source, model=f"m{i % 3}")
        for i, (a, b, source) in enumerate(answers)
    ]
    found = costs.of_calls(calls, costs.Terms(PRICES))
    assert sum(getattr(found, kind).calls for kind in costs.KINDS) == len(calls)
    for kind in costs.KINDS:
        for name in costs.COUNTED:
            whole = getattr(getattr(found, kind), name)
            assert whole == sum(getattr(getattr(own, kind), name) for own in found.models.values())
