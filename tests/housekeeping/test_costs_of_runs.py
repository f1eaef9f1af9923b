"""The sums that must hold over runs that go on, run again, or are replayed: what the provider counted
is spent, reused or in doubt, once."""

from __future__ import annotations

from pathlib import Path

import pytest

from appl.backend import Emit, Request, Response
from appl.testing import Policy, Retries, Run
from appl.tracing import Appender, Recorder, Rerunner, Resumer, Trace, profile_data
from appl.tracing.explaining import costs
from appl.tracing.format import block
from tests.traces.programs import PROGRAMS, Answering

POLICY = Policy(retries=Retries(attempts=2, base_s=0, spare=1000), circuit=None)


class Provider(Answering):
    """Counts what it would bill: every answer that it gave."""

    def __init__(self) -> None:
        super().__init__()
        self.billed = self.tokens = 0

    async def complete(self, request: Request, emit: Emit | None = None) -> Response:
        response = await super().complete(request, emit)
        self.billed += response.cost or 0
        self.tokens += response.usage.prompt_tokens or 0
        return response


def recorded(path: Path, name: str = "tree") -> Provider:
    provider = Provider()
    recorder = Recorder(path, {"profile": profile_data(provider.profile)}, durability="process")
    with Run(
        provider, instruments=[recorder], gate=recorder.gate, barrier=recorder.barrier, seed=7,
        policy=POLICY,
    ):  # fmt: skip
        PROGRAMS[name]()
    recorder.close()
    return provider


@pytest.mark.parametrize("name", ["tree", "failing", "tasks"])
def test_what_is_spent_is_what_the_provider_billed(tmp_path: Path, name: str) -> None:
    provider = recorded(tmp_path / "one.trace", name)
    found = costs.of(Trace.open(tmp_path / "one.trace"))
    assert found.spent.cost == provider.billed
    assert found.spent.prompt_tokens == provider.tokens
    assert found.reused.calls == 0


def ends(path: Path) -> list[int]:
    found, every = block.Scan(), list[int]()
    with path.open("rb") as file:
        for _ in block.scan(file, found):
            every.append(found.good)
    return every


@pytest.mark.parametrize("share", [0.2, 0.5, 0.8])
def test_a_resume_adds_what_it_paid_and_nothing_is_counted_twice(
    tmp_path: Path, share: float
) -> None:
    recorded(tmp_path / "whole.trace")
    places = ends(tmp_path / "whole.trace")
    path = tmp_path / "cut.trace"
    path.write_bytes((tmp_path / "whole.trace").read_bytes()[: places[int(share * len(places))]])
    before = Trace.open(path)
    paid = costs.of(before)
    sent = sum(1 for call in before.calls if call.outcome is None and call.attempts)
    assert paid.in_doubt.calls == sent
    provider, resumer = Provider(), Resumer(before)
    appender = Appender(resumer, durability="process")
    with Run(
        provider, instruments=[resumer, appender], gate=appender.gate, barrier=appender.barrier,
        seed=7, world=resumer, policy=POLICY,
    ):  # fmt: skip
        PROGRAMS["tree"]()
    appender.close()
    after = costs.of(Trace.open(path))
    assert after.spent.cost == paid.spent.cost + provider.billed
    assert after.in_doubt.calls == sent


def test_a_rerun_reuses_what_it_does_not_spend(tmp_path: Path) -> None:
    first = recorded(tmp_path / "one.trace")
    provider, rerunner = (
        Provider(),
        Rerunner(tmp_path / "one.trace", pins={"/ask.0/gen.0": "Pinned."}),
    )
    recorder = Recorder(tmp_path / "two.trace", {"profile": profile_data(provider.profile)})
    with Run(
        provider, instruments=[rerunner, recorder], gate=recorder.gate, barrier=recorder.barrier,
        seed=7, world=rerunner, policy=POLICY,
    ):  # fmt: skip
        PROGRAMS["tree"]()
    recorder.close()
    found = costs.of(Trace.open(tmp_path / "two.trace"))
    assert found.spent.cost == provider.billed > 0
    assert (
        found.spent.cost + found.reused.cost == first.billed - 120
    )  # the pinned one costs nothing
    assert found.in_doubt.calls == 0
