"""Random programs, recorded, edited at random and run again: no answer of another question is handed
out, and nearly everything that could be reused is.

The ceiling of reuse is counted from the two traces alone: of each question, as often as both the
record and the new run have it.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from appl.testing import Policy, Retries, Run
from appl.tracing import RecordedCall, Recorder, Replayer, Rerunner, Trace, profile_data
from appl.tracing.explaining import RerunReport
from appl.tracing.replaying.sequencer import Recorded

sys.path.insert(0, str(Path(__file__).parent.parent / "tracing"))
sys.path.insert(0, str(Path(__file__).parent))

import edits
import programs
import rehearsal
from reuse import Verdict, judge

EDITED, LONG_EDITED = 36, 5000


def run(program: programs.Tree, asynchronous: bool) -> Any:
    """The values of *program* in the run that is open, as JSON has them."""
    interpret = programs.run_async if asynchronous else programs.run_sync
    return json.loads(json.dumps(interpret(program)))


def recorded(
    seed: int, program: programs.Tree, asynchronous: bool, path: Path, again: Rerunner | None
) -> Any:
    """Run *program* and record it to *path*; *again* answers what it can."""
    live = rehearsal.backend(seed)
    recorder = Recorder(
        path, {"program": "random", "profile": profile_data(live.profile)}, durability="process"
    )
    retries = Retries(attempts=1 + seed % 2, base_s=0, spare=1000)
    watching = [recorder] if again is None else [again, recorder]
    try:
        with Run(
            live, instruments=watching, gate=recorder.gate, barrier=recorder.barrier,
            world=again, policy=Policy(retries=retries, circuit=None),
        ):  # fmt: skip
            return run(program, asynchronous)
    finally:
        recorder.close()


class Swift(Rerunner):
    """Waits less for programs that may still move: too early, it would reuse less."""

    patience_s = 0.03


def edited_and_run_again(
    seed: int, folder: Path, verdict: Verdict, rerunner: type[Rerunner] = Swift
) -> None:
    """One program, one edit."""
    asynchronous = seed % 2 == 1
    program = programs.tree(seed, asynchronous)
    first, second = folder / f"{seed}.trace", folder / f"{seed}.again.trace"
    recorded(seed, program, asynchronous, first, None)
    edit, changed = edits.edited(seed, program, asynchronous)
    name = f"program {seed}, {edit}"
    before = Trace.open(first)
    again = rerunner(before)
    values = recorded(seed + 7, changed, asynchronous, second, again)
    report = RerunReport(again)
    after = Trace.open(second)
    judge(name, before, after, verdict)
    verdict.runs += 1
    verdict.edits[edit] += 1
    if edit == "nothing" and report.live and before.reason == "finished":
        failed = {call.address for call in before.calls if call.outcome == "failed"}
        verdict.wrong += [f"{name}: {each.address} live: {each.cause}" for each in report.live
                          if each.address not in failed and not failed]  # fmt: skip
    if _replayed(changed, asynchronous, second) != values:
        verdict.wrong.append(f"{name}: replays to other values")


def _replayed(program: programs.Tree, asynchronous: bool, path: Path) -> Any:
    replayer = Replayer(path)
    with Run(replayer.backend, instruments=[replayer], world=replayer):
        values = run(program, asynchronous)
    replayer.finish()
    return values


def edited_programs(folder: Path, seeds: range, rerunner: type[Rerunner] = Swift) -> Verdict:
    verdict = Verdict()
    for seed in seeds:
        try:
            edited_and_run_again(seed, folder, verdict, rerunner)
        except Exception as error:
            verdict.wrong.append(f"program {seed}: {type(error).__name__}: {error}")
    return verdict


def test_edited_programs_get_only_their_own_answers_and_nearly_all_of_them(tmp_path: Path) -> None:
    verdict = edited_programs(tmp_path, range(EDITED))
    print(verdict)
    assert not verdict.wrong, verdict.wrong[:3]
    assert verdict.runs == EDITED and set(verdict.edits) == set(edits.EDITS), verdict
    assert verdict.reused >= 0.95 * verdict.ceiling > 0, verdict
    assert {"reused", "moved"} <= set(verdict.kinds), verdict


class ByPlace(Swift):
    """Taken out: the content. Whatever is recorded in a call's place answers it."""

    def of_call(self, call: Any) -> Any:
        found = self.trace.by_address.get(call.address)
        if found is not None and found.address not in self.claimed and self._is_worth(found):
            return Recorded(found)
        return super().of_call(call)


class Once(Swift):
    """Taken out: that a record is given once."""

    def _twins(self, request: Any) -> list[RecordedCall]:
        return self._by_content.get(self.trace.content_of(request), [])


class NeverElsewhere(Swift):
    """Taken out: the search for the same question in another place."""

    def _twins(self, request: Any) -> list[RecordedCall]:
        return []


@pytest.mark.parametrize("rerunner", [ByPlace, Once])
def test_without_a_check_of_the_lookup_wrong_answers_are_found(
    tmp_path: Path, rerunner: type[Rerunner]
) -> None:
    found = (edited_programs(tmp_path, range(at, at + 10), rerunner) for at in range(60, 360, 10))
    assert any(each.wrong for each in found)


def test_without_the_search_elsewhere_less_is_reused(tmp_path: Path) -> None:
    verdict = edited_programs(tmp_path, range(24), NeverElsewhere)
    assert verdict.reused < 0.95 * verdict.ceiling, verdict


@pytest.mark.long
def test_five_thousand_edited_programs(tmp_path: Path) -> None:
    verdict = edited_programs(tmp_path, range(1000, 1000 + LONG_EDITED))
    print(verdict)
    assert not verdict.wrong, verdict.wrong[:3]
    assert verdict.reused >= 0.95 * verdict.ceiling, verdict
