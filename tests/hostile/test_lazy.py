"""What is read call by call is what is read as a whole, of every file."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from appl.cli.trace import document
from appl.errors import TraceCorrupt, TraceError
from appl.tracing import Trace
from appl.tracing.format.totals import Totals
from appl.tracing.reading.streaming_reader import StreamingReader
from appl.tracing.reading.trace import Elapsed, observation_data, scope_data

from .bombs import PARAMS, USER, call, file
from .damage import drawn
from .judging import command
from .samples import GOLDEN

TRACES = sorted(GOLDEN.glob("*.trace"))


def in_passes(path: Path) -> dict[str, Any]:
    """The data of the run at *path*, read call by call."""
    totals, elapsed, calls = Totals(), Elapsed(), []
    with StreamingReader(path) as run:
        for each, earlier in run.records():
            totals.add(each, earlier)
            elapsed.add(each)
            if not earlier:
                calls.append(each.as_data())
        return {
            **run.trace.as_data(),
            "seconds": elapsed.seconds,
            "totals": totals.as_data(),
            "calls": calls,
            "scopes": [scope_data(scope) for scope in run.scopes()],
            "tools": [used.as_data() for used in run.tools()],
            "observations": [observation_data(seen) for seen in run.observations()],
            "warnings": [{"address": a, "message": m} for a, m in run.warnings()],
        }


def compare(seeds: Iterable[int], path: Path) -> int:
    """Read the files of *seeds* in both ways; how many could be read."""
    opened = 0
    for seed in seeds:
        path.write_bytes(drawn(seed)[2])
        found = []
        for read in (lambda path: Trace.open(path).as_data(), in_passes):
            try:
                found.append(repr(read(path)))  # of what is not a number, too
            except TraceError as error:
                found.append(type(error).__name__)
        assert found[0] == found[1], seed
        opened += found[0][:1] == "{"
    return opened


@pytest.mark.parametrize("path", TRACES, ids=lambda path: path.stem)
def test_a_good_trace_is_the_same_in_passes(path: Path) -> None:
    assert in_passes(path) == Trace.open(path).as_data()


@pytest.mark.parametrize("path", TRACES, ids=lambda path: path.stem)
def test_the_times_of_calls_need_no_prompts(path: Path) -> None:
    with StreamingReader(path) as run:
        found = list(run.calls(prompts=False))
    for each, whole in zip(found, Trace.open(path).calls, strict=True):
        assert all(
            getattr(each, name) == getattr(whole, name)
            for name in each.__slots__
            if name not in ("messages", "cuts", "begun", "masked", "attempts", "error")
        )


def test_a_damaged_or_forged_trace_is_the_same_in_passes(tmp_path: Path) -> None:
    assert compare(range(60), tmp_path / "a.trace") > 10


@pytest.mark.long
def test_many_damaged_and_forged_traces_are_the_same_in_passes(tmp_path: Path) -> None:
    assert compare(range(5_000), tmp_path / "a.trace") > 1_000


def test_a_document_that_was_begun_is_not_followed_by_another(tmp_path: Path) -> None:
    path = tmp_path / "a.trace"
    wrong = [["M", 9, "user", 7]]
    path.write_bytes(file(wrong))
    code, said = command(["show", str(path), "--json"])
    assert code == 4 and '"calls": [' not in said and '"exit_code": 4' in said
    path.write_bytes(file([USER, PARAMS, *(call(i + 2) for i in range(300))], wrong))
    code, said = command(["show", str(path), "--json"])
    assert code == 4 and '"calls": [' in said and '"exit_code"' not in said


def test_a_document_that_goes_on_and_on_ends(tmp_path: Path) -> None:
    path = tmp_path / "a.trace"
    path.write_bytes(file([USER, PARAMS, *(call(i) for i in range(300))]))
    out = io.StringIO()
    with contextlib.redirect_stdout(out), pytest.raises(TraceCorrupt, match="far longer"):
        document.write(path, False, lambda: None, most=100_000)
    assert 0 < len(out.getvalue()) <= 100_000


@pytest.mark.parametrize("path", TRACES, ids=lambda path: path.stem)
def test_the_document_of_a_call_is_its_data(path: Path) -> None:
    for each in Trace.open(path).calls:
        spans = [[span._asdict() for span in spans] for spans in each.spans()]
        expected = json.dumps({**each.as_data(), "spans": spans}, indent=2)
        assert "".join(document.of_call(each)) == expected + "\n"
