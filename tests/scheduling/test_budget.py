"""Budgets: never passed, whatever calls cost and however they end; and not in the way before that."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest
from hypothesis import strategies as st

import appl
from appl import gen, ppl
from appl.backend import Request, Response, Sample, Usage
from appl.backend.price import Price
from appl.errors import BackendBusy, BackendUnavailable, BudgetExceeded, InvalidOption
from appl.runtime.scheduling import Account, Amounts
from appl.runtime.scheduling.accounts import BudgetLedger
from appl.testing import Allowance, Answer, Late, Policy, Retries, VirtualClock, running
from tests.drawn import counts, examples

PROMPT = 18  # what is estimated for "Well?"


def used(prompt: int, answer: int, cached: int | None = None) -> Response:
    return Response((Sample("yes", "stop"),), Usage(prompt, answer, cached))


def late(answer: Answer | None = None, **profile: Any) -> Late:
    return Late(lambda _: answer or used(6, 4), VirtualClock(), **profile)


def policy(backend: Late, **limits: float) -> Policy:
    return Policy(clock=backend.clock, budget=Allowance(**limits))  # type: ignore[arg-type]


@ppl
def fan(width: int, longest: int = 10) -> list[str]:
    "Well?"
    answers = [gen(max_tokens=longest) for _ in range(width)]
    return [str(each) for each in answers]


def test_a_fan_out_of_1000_never_passes_its_budget() -> None:
    backend = late()
    with (
        pytest.raises(BudgetExceeded) as caught,
        running(backend, policy=policy(backend, calls=400)),
    ):
        fan(1000)
    assert len(backend.requests) == 400
    assert (caught.value.limit, caught.value.most, caught.value.asked) == ("calls", 400, 1)
    assert backend.present == 0


@counts(250, 1000)
def test_calls_wait_for_what_others_leave_and_stop_only_when_it_is_spent(count: int) -> None:
    backend = late()  # 10 tokens are used where 28 are reserved
    with running(backend, policy=policy(backend, tokens=10 * count + 18)):
        assert len(fan(count)) == count
    assert 28 * backend.most <= 10 * count + 18
    again, most = late(), 10 * count - 1
    with (
        pytest.raises(BudgetExceeded, match=f"{most} tokens"),
        running(again, policy=policy(again, tokens=most)),
    ):
        fan(count)
    assert 10 * len(again.requests) <= most
    assert 10 * len(again.requests) > most - 28


def test_a_call_that_could_pass_the_budget_is_not_sent() -> None:
    backend = late()
    message = "27 left, and this call may take 28"
    limited = policy(backend, tokens=27)
    with pytest.raises(BudgetExceeded, match=message), running(backend, policy=limited):
        fan(1)
    assert backend.requests == []


def test_a_block_holds_for_what_is_called_inside_and_for_that_alone() -> None:
    backend = late()
    with running(backend, policy=Policy(clock=backend.clock)):
        fan(5)
        with appl.budget(calls=3) as small:
            assert fan(2) == ["yes"] * 2
            with pytest.raises(BudgetExceeded):
                fan(2)
        fan(5)
    assert small.spent.calls == 3 and small.reserved == (0, 0, 0)
    assert len(backend.requests) == 5 + 3 + 5


@ppl
def tried(width: int) -> set[int]:
    """The limits that stopped some of *width* calls."""
    "Well?"
    stopped = set()
    for each in [gen(max_tokens=10) for _ in range(width)]:
        try:
            str(each)
        except BudgetExceeded as error:
            stopped.add(error.most)
    return stopped


def test_nested_budgets_all_hold() -> None:
    backend = late()
    with running(backend, policy=policy(backend, calls=6)):
        with appl.budget(calls=5) as outer:
            with appl.budget(calls=2) as inner:
                assert tried(9) == {2}
            with appl.budget(calls=100):
                assert tried(9) == {5}
        assert tried(9) == {6}
    assert (inner.spent.calls, outer.spent.calls, len(backend.requests)) == (2, 5, 6)


def test_a_block_in_a_program_holds_for_its_parallel_parts() -> None:
    backend = late()

    @ppl
    def part() -> str:
        "Well?"
        return str(gen())

    @ppl
    def whole() -> int:
        done = 0
        with appl.budget(calls=4):
            for each in [appl.call(part) for _ in range(9)]:
                try:
                    done += str(each) == "yes"
                except BudgetExceeded:
                    done += 100
        return done

    with running(backend, policy=Policy(clock=backend.clock)):
        assert whole() == 4 + 500


def test_what_nobody_says_is_the_worst_case() -> None:
    silent = late(Response((Sample("yes", "stop"),)))
    with running(silent, policy=Policy(clock=silent.clock)), appl.budget(tokens=100) as spent:
        fan(3)
    assert spent.spent == (None, 3 * 28, 3) and spent.unpriced == 3


def test_an_answer_of_any_length_cannot_be_in_a_budget_of_tokens() -> None:
    @ppl
    def endless() -> None:
        "Well?"
        gen()

    backend = late()
    large = policy(backend, tokens=10**9)
    with pytest.raises(BudgetExceeded, match="give max_tokens"), running(backend, policy=large):
        endless()
    known = late(context=100)
    with running(known, policy=policy(known, tokens=100)):
        endless()


def test_cost_is_that_of_the_prices() -> None:
    backend = late(used(1000, 100, cached=400))
    prices = {"": Price(prompt=2.0, answer=8.0, cached=0.5)}
    plan = Policy(clock=backend.clock, prices=prices, budget=Allowance(cost=1.0))
    with running(backend, policy=plan), appl.budget(cost=0.5) as spent:
        fan(1, longest=1000)
    assert spent.spent.cost == 600 * 2 + 400 * 0.5 + 100 * 8
    unpriced = Policy(budget=Allowance(cost=1.0))
    with pytest.raises(BudgetExceeded, match="no price"), running(late(), policy=unpriced):
        fan(1)


def test_who_is_turned_away_has_spent_nothing_and_who_is_cut_off_the_worst() -> None:
    script: list[Answer] = [BackendBusy("429"), BackendUnavailable("cut"), used(6, 4)]
    lines = iter(script)
    backend = Late(lambda _: next(lines), VirtualClock())
    with running(backend, policy=Policy(clock=backend.clock)), appl.budget(tokens=100) as spent:
        fan(1)
    assert spent.spent == (None, 28 + 10, 2)


def test_a_budget_of_nothing_in_particular_is_refused() -> None:
    with pytest.raises(InvalidOption, match="needs a limit"):
        appl.budget()
    with pytest.raises(InvalidOption, match="at least 0"):
        appl.budget(tokens=-1)
    with pytest.raises(InvalidOption, match=r"budget.cost must be a number, got '1\$'"):
        appl.budget(cost="1$")  # type: ignore[arg-type]


@examples(20, 60, st.integers(0, 10**9))
def test_random_costs_failures_and_cancels_never_pass_any_budget(seed: int) -> None:
    dice = random.Random(seed)
    clock = VirtualClock()

    def answer(request: Request) -> Answer:
        longest = request.sampling.max_tokens or 0
        fate = dice.random()
        if fate < 0.15:
            return BackendBusy("429")
        if fate < 0.3:
            return BackendUnavailable("cut")
        return used(dice.randint(1, PROMPT), dice.randint(0, longest))

    backend = Late(answer, clock, lambda _: dice.choice([0.1, 1.0, 7.0]))

    @ppl
    def tree(depth: int) -> None:
        "Well?"
        kind = dice.choice(["tokens", "calls"])
        with appl.budget(**{kind: dice.randint(1, 300 if kind == "tokens" else 12)}) as block:
            blocks.append(block)
            answers = [gen(max_tokens=dice.randint(1, 40)) for _ in range(dice.randint(0, 9))]
            deeper = [appl.call(tree, depth - 1) for _ in range(dice.randint(0, 2) if depth else 0)]
            for each in answers:
                if dice.random() < 0.2:
                    each.cancel()
            for one in [*answers, *deeper]:
                try:
                    str(one)
                except appl.ApplError:
                    holds()

    def holds() -> None:
        for block in blocks:
            account = block._account
            assert account is not None
            for limit, spent, reserved in zip(
                account.limits, block.spent, block.reserved, strict=True
            ):
                assert reserved is not None and reserved >= 0
                if limit is not None:
                    assert spent is not None and 0 <= spent <= limit - reserved

    blocks: list[appl.budget] = []
    plan = Policy(
        clock=clock, budget=Allowance(calls=40), retries=Retries(base_s=0.1), circuit=None
    )
    with running(backend, policy=plan):
        for _ in range(3):
            try:
                tree(2)
            except appl.ApplError:
                holds()
            holds()
    assert all(block.reserved == (0, 0, 0) for block in blocks)
    assert backend.present == 0


def test_leaving_the_line_lets_the_next_one_in() -> None:
    async def main() -> None:
        ledger, account = BudgetLedger(), Account(Allowance(tokens=100))
        first = await ledger.reserve(account, Amounts(0, 60, 1))
        large = asyncio.create_task(ledger.reserve(account, Amounts(0, 90, 1)))
        small = asyncio.create_task(ledger.reserve(account, Amounts(0, 40, 1)))
        await asyncio.sleep(0)
        assert not small.done()  # who came first goes first
        large.cancel()
        await asyncio.wait([large])
        await asyncio.wait([small])
        assert account.reserved.tokens == 100
        first.settle(Amounts(0, 10, 1))
        first.settle(Amounts(0, 10, 1))
        assert (account.spent.tokens, account.reserved.tokens) == (10, 40)

    asyncio.run(main())


def test_a_budget_that_a_run_gets_later_forgets_nobody_who_waits() -> None:
    async def main() -> None:
        ledger, block = BudgetLedger(), Account(Allowance(tokens=100))
        first = await ledger.reserve(block, Amounts(0, 100, 1))
        early = asyncio.create_task(ledger.reserve(block, Amounts(0, 50, 1)))
        await asyncio.sleep(0)
        ledger.late = Account(Allowance(calls=10))
        account = ledger.charged(block)
        assert account is not None
        later = asyncio.create_task(ledger.reserve(account, Amounts(0, 50, 1)))
        await asyncio.sleep(0)
        first.settle(Amounts(0, 0, 1))
        await asyncio.sleep(0)
        assert early.done() and later.done()
        assert (block.reserved.tokens, ledger.late.reserved.calls) == (100, 1)

    asyncio.run(main())


def test_a_choice_is_as_long_as_what_may_be_chosen() -> None:
    @ppl
    def pick() -> str:
        "Well?"
        return str(appl.select(["yes", "no"]))

    answer = Response((Sample("yes", "stop"),), Usage(20, 2), choice_method="constrained")
    backend = late(answer, features={"choices"})
    with running(backend, policy=policy(backend, tokens=100)):
        assert pick() == "yes"


def test_text_that_takes_more_tokens_than_was_thought_is_reserved_as_such() -> None:
    backend = late(used(10 * PROMPT, 5))
    with running(backend, policy=Policy(clock=backend.clock)), appl.budget(tokens=10**6) as block:
        fan(1)
        assert block.spent.tokens == 10 * PROMPT + 5
        message = f"may take {10 * PROMPT + 10};"
        with pytest.raises(BudgetExceeded, match=message), appl.budget(tokens=100):
            fan(1)
