"""What a record tells of a provider's cache: what it saved, and why calls did not read from it."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from appl.backend import Emit, Request, Response
from appl.backend.price import Price
from appl.testing import Policy, Run
from appl.tracing import Recorder, Trace, profile_data
from appl.tracing.explaining import CacheReport, cache_report
from tests.bill.programs import ask, said
from tests.bill.world import Provider

FACTS = said("facts", 9_000)
PRICE = Price(5, 30, 0.5, 6.25)


class Reasoned(Provider):
    """A provider that gives a reason of its own."""

    async def complete(self, request: Request, emit: Emit | None = None) -> Response:
        """Answer with a reason."""
        return replace(await super().complete(request, emit), cache_miss="system_changed")


def reported(path: Path, provider: Provider, number: int = 5) -> CacheReport:
    """The report of a fan-out with *provider*."""
    recorder = Recorder(path, {"profile": profile_data(provider.profile)})
    policy = Policy(clock=provider.clock)
    with Run(provider, instruments=[recorder], gate=recorder.gate, policy=policy):
        for answer in [ask(FACTS, f"question {at}") for at in range(number)]:
            str(answer)
    recorder.close()
    return cache_report(Trace.open(path).every_call(), lambda _: PRICE)


def test_a_saving_is_the_price_without_a_cache_less_the_price_with_it(tmp_path: Path) -> None:
    provider = Provider("openai")
    found = reported(tmp_path / "one.trace", provider)
    counts = provider.counts
    assert found.read == sum(each.read for each in counts) > 0
    assert found.written == sum(each.written for each in counts) > 0
    exact = (provider.uncached - provider.price) * 5
    assert exact - len(counts) <= found.saved <= exact + len(counts)
    assert found.misses == {"the first one with its beginning": 1}
    assert "saved $0." in found.lines()[0]


def test_calls_that_are_sent_at_once_are_told_to_have_come_too_early(tmp_path: Path) -> None:
    found = reported(tmp_path / "one.trace", Provider("openai", plain=True))
    assert found.read == 0 and found.saved < 0 and "cost $" in found.lines()[0]
    assert sorted(found.misses.values()) == [1, 4]
    assert "sent before the answer to another one with its beginning" in found.misses


@pytest.mark.parametrize("plain", [True, False])
def test_the_providers_own_reason_comes_first(tmp_path: Path, plain: bool) -> None:
    found = reported(tmp_path / "one.trace", Reasoned("openai", plain=plain), 3)
    assert set(found.misses) == {"system_changed"}


def test_the_command_says_it(tmp_path: Path) -> None:
    path = tmp_path / "one.trace"
    reported(path, Provider("openai"))
    command = [sys.executable, "-m", "appl", "trace", "cost", str(path)]
    said = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path).stdout
    assert "WRITTEN" in said and "prompt tokens read" in said
    assert "read nothing, 1 call: the first one with its beginning" in said


def test_without_a_price_a_saving_is_unknown(tmp_path: Path) -> None:
    path = tmp_path / "one.trace"
    reported(path, Provider("openai"))
    found = cache_report(Trace.open(path).every_call(), lambda _: None)
    assert found.as_data()["saved"] is None and "unpriced" in found.lines()[0]
    nothing: list[Any] = []
    assert cache_report(nothing, lambda _: None).lines() == []
