"""What is read lazily is what is read as a whole, and what a plain reader finds, of every file."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import json
import random
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from appl.cli.trace import document
from appl.errors import TraceCorrupt, TraceError
from appl.tracing import Trace
from appl.tracing.reading.lazy import opened_lazily

from .bombs import PARAMS, USER, call, file
from .damage import drawn
from .judging import command
from .samples import GOLDEN

TRACES = sorted(GOLDEN.glob("*.trace"))
_PLACE = re.compile(" at 0x[0-9a-f]+")


def told(trace: Trace) -> str:
    """All that *trace* says, with what its data leave out."""
    calls = [*trace.earlier, *trace.calls]
    every = [
        trace.as_data(),
        [[_fields(call), call.spans()] for call in calls],
        [_fields(used) for used in trace.tools.values()],
        [*trace.observations],
        [trace.moments, trace.records, trace.masked],
    ]
    return _PLACE.sub("", repr(every))


def _fields(each: Any) -> list[object]:
    fields = dataclasses.fields(each)
    return [getattr(each, field.name) for field in fields if field.name != "messages"]


def told_lazily(path: Path) -> str:
    with opened_lazily(path) as run:
        return told(run)


def compare(seeds: Iterable[int], path: Path) -> int:
    """Read the files of *seeds* in both ways; how many could be read."""
    opened = 0
    for seed in seeds:
        path.write_bytes(drawn(seed)[2])
        found = []
        for read in (lambda path: told(Trace.open(path)), told_lazily):
            try:
                found.append(read(path))
            except TraceError as error:
                found.append(f"{type(error).__name__}: {error}")
        if found[0][:1] == "[":
            assert found[0] == found[1], seed
            opened += 1
        elif found[1][:1] == "[":  # nobody has asked for the record that is wrong
            assert "is not valid" in found[0], seed
        else:
            assert found[0].partition(":")[0] == found[1].partition(":")[0], seed
    return opened


@pytest.mark.parametrize("path", TRACES, ids=lambda path: path.stem)
def test_a_good_trace_is_the_same_lazily(path: Path) -> None:
    assert told_lazily(path) == told(Trace.open(path))


@pytest.mark.parametrize("path", TRACES, ids=lambda path: path.stem)
def test_every_value_can_be_asked_for_alone_and_in_any_order(path: Path) -> None:
    whole, dice = Trace.open(path), random.Random(path.stem)
    with opened_lazily(path) as run:
        for address in dice.sample([*whole.by_address], len(whole.calls)):
            assert run.by_address[address].as_data() == whole.by_address[address].as_data()
        for at in dice.sample(range(len(whole.calls)), len(whole.calls)):
            assert run.calls[at].as_data() == whole.calls[at].as_data()
        assert [*run.by_address] == [*whole.by_address] and [*run.tools] == [*whole.tools]
        assert run.scopes[::-1] == whole.scopes[::-1]
        assert "/nowhere.0" not in run.by_address and run.tools.get("/nowhere.0") is None


def test_a_damaged_or_forged_trace_is_the_same_lazily(tmp_path: Path) -> None:
    assert compare(range(60), tmp_path / "a.trace") > 10


@pytest.mark.long
def test_many_damaged_and_forged_traces_are_the_same_lazily(tmp_path: Path) -> None:
    assert compare(range(5_000), tmp_path / "a.trace") > 1_000


def test_a_document_that_was_begun_is_not_followed_by_another(tmp_path: Path) -> None:
    path = tmp_path / "a.trace"
    wrong = [["M", 999, "user", 7], ["N", 999, None, 999, b""], call(999, node=999)]
    path.write_bytes(file([PARAMS], wrong))
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
    trace = Trace.open(path)
    for each, data in zip(trace.calls, trace.as_data()["calls"], strict=True):
        spans = [[span._asdict() for span in spans] for spans in each.spans()]
        expected = json.dumps({**data, "spans": spans}, indent=2)
        assert "".join(document.of_call(trace, each)) == expected + "\n"
