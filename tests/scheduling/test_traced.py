"""Dispatcher are recorded, shown, and no part of a replay."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import appl
from appl import gen, ppl
from appl.cli import main
from appl.errors import BackendBusy, BackendUnavailable, BudgetExceeded
from appl.testing import Policy, Retries, Run, Scripted, running
from appl.tracing import Recorder, Replayer, Trace, profile_data


@ppl
def ask() -> str:
    "Well?"
    return str(gen(max_tokens=5))


def recorded(path: Path, backend: Scripted) -> Recorder:
    return Recorder(path, {"program": "ask", "profile": profile_data(backend.profile)})


def test_attempts_are_shown_and_not_repeated(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "run.trace"
    backend = Scripted([BackendUnavailable("reset by peer"), BackendBusy("full"), "yes"])
    recorder = recorded(path, backend)
    policy = Policy(retries=Retries(base_s=0))
    with running(backend, policy=policy, instruments=[recorder], gate=recorder.gate):
        assert ask() == "yes"
    recorder.close()
    (call,) = Trace.open(path).calls
    assert [(each.number, type(each.error)) for each in call.attempts] == [
        (1, BackendUnavailable), (2, BackendBusy), (3, type(None)),
    ]  # fmt: skip
    assert main(["trace", "show", str(path), "/ask.0/gen.0"]) == 0
    shown = capsys.readouterr().out
    assert "in vain, attempt 1: BackendUnavailable: reset by peer; again after 0.00 s" in shown
    assert main(["trace", "show", str(path), "/ask.0/gen.0", "--json"]) == 0
    retries = json.loads(capsys.readouterr().out)["retries"]
    assert [each["attempt"] for each in retries] == [1, 2]
    replayer = Replayer(path)
    with Run(replayer.backend, instruments=[replayer], world=replayer):
        assert ask() == "yes"
    replayer.finish()


def test_a_replay_stops_where_the_budget_stopped_the_run(tmp_path: Path) -> None:
    path = tmp_path / "run.trace"
    backend = Scripted(["yes", "yes"])
    recorder = recorded(path, backend)

    def program() -> tuple[str, str]:
        with appl.budget(calls=1):
            first = ask()
            try:
                return first, ask()
            except BudgetExceeded as error:
                return first, str(error)

    with running(backend, instruments=[recorder], gate=recorder.gate):
        before = program()
    recorder.close()
    assert len(backend.requests) == 1 and "it was not sent" in before[1]
    replayer = Replayer(path)
    with Run(replayer.backend, instruments=[replayer], world=replayer):
        assert program() == before
    replayer.finish()
