"""Money as it is summed and shown: known costs exactly, unknown ones never as 0."""

from __future__ import annotations

import contextlib
import io
import json
import subprocess
import sys
from decimal import ROUND_HALF_EVEN, Decimal
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

import appl
from appl import gen, ppl
from appl.backend import Response, Sample, Usage
from appl.backend.price import FREE, Free, Overridden, Price, money, total
from appl.cli import main
from appl.cli.display import Counts
from appl.errors import BudgetExceeded
from appl.runtime.scheduling import Account, Amounts
from appl.testing import Allowance, CallEnded, Late, Policy, VirtualClock, running
from appl.tracing import Totals, Trace
from appl.tracing.explaining import UsageSum
from appl.tracing.explaining.costs import of
from appl.tracing.replaying import tally
from tests.wire.servers import FaultServer

costs = st.lists(st.none() | st.integers(0, 10**9), max_size=20)


def answer(cost: int | None = None, usage: Usage = Usage(), model: str = "") -> Response:  # noqa: B008
    return Response((Sample("yes", "stop"),), usage, model, cost=cost)


@given(costs)
def test_every_sum_counts_the_same_and_says_what_it_lacks(each: list[int | None]) -> None:
    known = sum(cost for cost in each if cost is not None)
    unknown = sum(1 for cost in each if cost is None)
    account, amount, counts, sums = Account(Allowance(calls=99)), UsageSum(), Counts(), Totals()
    live = tally.Amount()
    for cost in each:
        account.book(Amounts(cost, 1, 1), Amounts())
        amount.add(Usage(), cost)
        counts.add(CallEnded("/gen.0", answer(cost), None, 1))
        sums.spend(answer(cost))
        live.add(answer(cost))
    expected = None if unknown and not known else known
    assert account.spent == (expected, len(each), len(each)) and account.unpriced == unknown
    assert (sums.cost, sums.cost_unknown) == (known, unknown)
    assert (counts.sums.cost, counts.sums.cost_unknown) == (known, unknown)
    assert counts.as_data()["cost"] == expected == live.as_data()["cost"]
    assert (amount.cost, amount.unknown["cost"]) == (known, unknown)
    shown = {total(known, unknown), total(sums.cost, sums.cost_unknown), live.money()}
    assert len(shown) == 1
    (text,) = shown
    assert ("at least" in text) == bool(known and unknown)
    assert (text == "unknown") == bool(unknown and not known)
    assert (f"cost {text}" in counts.line()) == bool(known or unknown)


@given(st.integers(1, 10**12))
def test_money_has_cents_or_three_digits(millionths: int) -> None:
    exact = Decimal(millionths) / 10**6
    text = money(millionths)
    shown = Decimal(text.removeprefix("$").replace(",", ""))
    if exact >= 1:
        assert shown == exact.quantize(Decimal("0.01"), ROUND_HALF_EVEN)
    else:
        assert abs(shown - exact) * 200 <= exact  # a half of the third digit
        assert len(text) <= len("$0.001234")


@pytest.mark.parametrize(
    ("millionths", "text"),
    [(None, "unknown"), (0, "$0"), (1, "$0.000001"), (310, "$0.00031"), (12_345, "$0.0123"),
     (500_000, "$0.50"), (999_999, "$1.00"), (2_500_000, "$2.50"), (1_234_567_890, "$1,234.57")],
)  # fmt: skip
def test_money_reads_so(millionths: int | None, text: str) -> None:
    assert money(millionths) == text


USAGE = Usage(1_000_000, 1_000_000, 0)


@pytest.mark.parametrize(
    ("own", "reported", "brought", "cost"),
    [
        ({"m": Price(1, 2)}, 77, Price(5, 5), 3_000_000),
        ({}, 77, Price(5, 5), 77),
        ({"": Price(1, 2)}, 77, Price(5, 5), 77),
        ({}, None, Price(5, 5), 10_000_000),
        ({"": Price(1, 2)}, None, Price(5, 5), 10_000_000),
        ({"": Price(1, 2)}, None, None, 3_000_000),
        ({}, None, None, None),
        ({"m": Price(1, 2)}, None, FREE, 3_000_000),
        ({}, None, FREE, 0),
        ({}, 0, Price(5, 5), 0),
    ],
)
def test_the_order_is_own_price_then_report_then_table(
    own: dict[str, Price], reported: int | None, brought: Price | None, cost: int | None
) -> None:
    prices = Overridden(own, {} if brought is None else {"m": brought})
    assert prices.cost("m", answer(reported, USAGE)) == cost
    assert prices.cost("alias", answer(reported, USAGE, "m")) == cost


def test_what_runs_here_is_free_however_little_it_says() -> None:
    assert Overridden({}, Free()).cost("m", answer()) == 0
    assert Overridden({}, {"m": Price(0, 0)}).cost("m", answer()) == 0
    assert Overridden({}, {"m": Price(0, 1)}).cost("m", answer()) is None


@ppl
def ask() -> str:
    "Well?"
    return str(gen(max_tokens=10))


class Priced(Late):
    prices = {"m": Price(2, 8)}  # noqa: RUF012


def test_own_prices_and_the_backends_reach_the_answer() -> None:
    for own, cost in (({}, 6 * 2 + 4 * 8), ({"m": Price(1, 1)}, 10)):
        backend = Priced(lambda _: answer(None, Usage(6, 4)), VirtualClock(), models=("m",))
        with (
            running(backend, policy=Policy(clock=backend.clock, prices=own)),
            appl.budget(calls=9) as block,
        ):
            asked = gen("m", messages=[{"role": "user", "content": "Well?"}])  # type: ignore[list-item]
            assert asked.cost == cost == block.spent.cost


def test_a_budget_of_calls_says_unknown_of_a_cost_that_nobody_knows() -> None:
    backend = Late(lambda _: answer(None, Usage(6, 4)), VirtualClock())
    with running(backend, policy=Policy(clock=backend.clock)), appl.budget(calls=9) as block:
        assert (block.spent.cost, block.unpriced) == (0, 0)
        ask()
    assert (block.spent.cost, block.unpriced) == (None, 1)


def test_a_budget_of_money_names_the_model_and_the_line_to_write() -> None:
    backend = Late(lambda _: answer(), VirtualClock(), name="lan", default_model="zz")
    policy = Policy(clock=backend.clock, budget=Allowance(cost=1.0))
    with (
        pytest.raises(BudgetExceeded, match=r"'lan/zz'.*\[prices\] \"lan/zz\" = \{"),
        running(backend, policy=policy),
    ):
        ask()
    assert backend.requests == []


def script(folder: Path, toml: str) -> tuple[str, Trace]:
    """What a plain program says on stderr, and its trace."""
    (folder / "appl.toml").write_text(toml)
    code = (
        "from appl import gen, ppl\n\n@ppl\ndef ask():\n    'Well?'\n    return gen(max_tokens=5)"
        "\n\nprint(ask())\n"
    )
    (folder / "program.py").write_text(code)
    done = subprocess.run(
        [sys.executable, "program.py"], cwd=folder, capture_output=True, text=True, check=True
    )
    (path,) = (folder / ".appl" / "runs").glob("*.trace")
    return done.stderr, Trace.open(path)


def lan(url: str, prices: str = "") -> str:
    return f'model = "lan/gpt-4o"\n{prices}\n[backends.lan]\ntype = "openai"\nbase_url = "{url}"\n'


def command(folder: Path, *words: str) -> str:
    """What ``appl WORDS`` prints."""
    with contextlib.chdir(folder), contextlib.redirect_stdout(io.StringIO()) as out:
        assert main([*words]) == 0
    return out.getvalue()


def test_a_server_of_ones_own_is_not_priced_as_the_provider_of_the_same_name(
    tmp_path: Path,
) -> None:
    with FaultServer() as server:
        said, trace = script(tmp_path, lan(server.openai_url))
    assert "appl: 1 call, cost unknown" in said.splitlines()
    assert "cost unknown" in command(tmp_path, "trace", "show")
    assert "unknown" in command(tmp_path, "trace", "cost") and of(trace).spent.known("cost") is None
    assert json.loads(command(tmp_path, "trace", "show", "--json"))["totals"]["cost"] is None
    assert "unknown" in command(tmp_path, "trace", "ls")


def test_what_was_paid_stays_what_it_was_when_prices_change(tmp_path: Path) -> None:
    prices = '[prices]\n"lan/gpt-4o" = {prompt = 1000, answer = 5000}'
    with FaultServer() as server:
        said, trace = script(tmp_path, lan(server.openai_url, prices))
    usage = trace.calls[0].response.usage  # type: ignore[union-attr]
    assert usage.prompt_tokens is not None and usage.completion_tokens is not None
    paid = Decimal(usage.prompt_tokens) * 1000 / 10**6
    paid += Decimal(usage.completion_tokens) * 5000 / 10**6
    shown = money(int(paid * 10**6))
    assert f"appl: 1 call, cost {shown}" in said.splitlines()
    before = command(tmp_path, "trace", "cost")
    (tmp_path / "appl.toml").write_text(lan("http://127.0.0.1:9", prices.replace("1000", "9")))
    command(tmp_path, "trace", "replay")
    assert shown in before and command(tmp_path, "trace", "cost") == before
    assert f"spent {shown}" in command(tmp_path, "trace", "show")


def test_the_embedded_model_costs_nothing_and_nothing_is_said_of_it(tmp_path: Path) -> None:
    said, trace = script(tmp_path, 'model = "embedded/embedded"\n')
    assert "cost" not in said and of(trace).spent.known("cost") == 0
    assert "$" not in command(tmp_path, "trace", "show")
