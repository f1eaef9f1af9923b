"""What is read when it is asked for is the same in every order, of every file."""

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
from appl.tracing import Observation, Trace

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


def _told_in_order(path: Path, _: random.Random) -> str:
    return told(Trace.open(path))


def told_in_any_order(path: Path, dice: random.Random) -> str:
    """The same, after some of it was asked for in another order."""
    run = Trace.open(path)
    every: list[Any] = [*run.earlier, *run.calls, *run.tools.values(), *run.observations]
    for each in dice.sample(every, min(len(every), 50)):
        name = "value" if isinstance(each, Observation) else "messages response error message"
        for field in dice.sample(name.split(), len(name.split())):
            getattr(each, field, None)
    return told(run)


def compare(seeds: Iterable[int], path: Path) -> int:
    """Read the files of *seeds* in two orders; how many could be read."""
    opened = 0
    for seed in seeds:
        path.write_bytes(drawn(seed)[2])
        found = []
        for read in (_told_in_order, told_in_any_order):
            try:
                found.append(read(path, random.Random(seed)))
            except TraceError as error:
                found.append(type(error).__name__)
        assert found[0] == found[1], seed
        opened += found[0][:1] == "["
    return opened


@pytest.mark.parametrize("path", TRACES, ids=lambda path: path.stem)
def test_every_value_can_be_asked_for_alone_and_in_any_order(path: Path) -> None:
    whole, run, dice = Trace.open(path), Trace.open(path), random.Random(path.stem)
    data = {call.address: call.as_data() for call in whole.calls}
    for address in dice.sample([*data], len(data)):
        assert run.by_address[address].as_data() == data[address]
    assert told_in_any_order(path, dice) == told(whole)


def test_a_damaged_or_forged_trace_is_the_same_in_any_order(tmp_path: Path) -> None:
    assert compare(range(60), tmp_path / "a.trace") > 10


@pytest.mark.long
def test_many_damaged_and_forged_traces_are_the_same_in_any_order(tmp_path: Path) -> None:
    assert compare(range(5_000), tmp_path / "a.trace") > 1_000


def test_what_was_read_can_be_read_again_when_the_file_is_gone(tmp_path: Path) -> None:
    path = tmp_path / "a.trace"
    path.write_bytes((GOLDEN / "dialogues.trace").read_bytes())
    run = Trace.open(path)
    path.unlink()
    before = told(Trace.open(GOLDEN / "dialogues.trace"))
    assert told(run) == before.replace(str(GOLDEN / "dialogues.trace"), str(path))


def test_a_file_that_somebody_changed_is_told_from_the_one_that_was_opened(tmp_path: Path) -> None:
    path = tmp_path / "a.trace"
    path.write_bytes((GOLDEN / "dialogues.trace").read_bytes())
    run = Trace.open(path)
    path.write_bytes(bytes(path.stat().st_size))
    with pytest.raises(TraceCorrupt, match=r"block \d is damaged"):
        told(run)


def _open_files() -> int:
    return sum(1 for _ in Path("/dev/fd").iterdir())


def test_the_file_is_closed_with_the_last_that_may_read_it(tmp_path: Path) -> None:
    path, before = GOLDEN / "dialogues.trace", _open_files()
    call = Trace.open(path).calls[-1]
    assert _open_files() == before + 1 and call.messages
    del call
    assert _open_files() == before


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
