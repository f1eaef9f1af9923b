"""A row of the list of runs: what the last record of a finished run says is what its calls say."""

from __future__ import annotations

from pathlib import Path

import pytest

from appl.testing import Run
from appl.tracing import Appender, Resumer, Trace
from appl.tracing.explaining import costs
from appl.tracing.format import block, block_file, codec, table
from appl.tracing.keeping import RunRow, row_of
from appl.tracing.reading import runs
from tests.housekeeping.test_costs_of_runs import POLICY, Provider, ends, recorded
from tests.traces.programs import PROGRAMS


def check(row: RunRow) -> None:
    """Compare *row* with what all calls of its run say."""
    trace = Trace.open(row.path)
    paid = costs.of(trace)
    assert row.totals == trace.sums()
    assert row.costs == paid.as_data() and row.cost == paid.spent.known("cost")
    assert row.seconds == trace.seconds()
    assert row.models == sorted(filter(None, paid.models))


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_row_of_a_finished_run_says_what_its_calls_say(tmp_path: Path, name: str) -> None:
    recorded(tmp_path / "one.trace", name)
    check(row_of(tmp_path / "one.trace"))


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_last_record_has_the_sums_of_each_model(tmp_path: Path, name: str) -> None:
    recorded(tmp_path / "one.trace", name)
    found = runs.finished(tmp_path / "one.trace")
    assert found is not None
    assert found.models == Trace.open(tmp_path / "one.trace").totals_by_model()


@pytest.mark.parametrize("share", [0.2, 0.5, 0.8])
def test_the_row_of_a_resumed_run_counts_all_its_processes(tmp_path: Path, share: float) -> None:
    recorded(tmp_path / "whole.trace")
    places, path = ends(tmp_path / "whole.trace"), tmp_path / "cut.trace"
    path.write_bytes((tmp_path / "whole.trace").read_bytes()[: places[int(share * len(places))]])
    resumer = Resumer(path)
    appender = Appender(resumer, durability="process")
    with Run(
        Provider(), instruments=[resumer, appender], gate=appender.gate, barrier=appender.barrier,
        seed=7, world=resumer, policy=POLICY,
    ):  # fmt: skip
        PROGRAMS["tree"]()
    appender.close()
    assert runs.finished(path) is not None
    check(row_of(path))


def with_sums(path: Path, target: Path, *sums: object) -> None:
    """Write the trace at *path* with other *sums* in its last record, or without any."""
    encoder = block_file.Encoder()
    with path.open("rb") as file, target.open("wb") as copy:
        copy.write(block.MAGIC)
        for raw in block.scan(file, block.Scan()):
            arrays = [
                [*array[:5], *sums] if array[0] == table.tag_of(table.CloseRecord) else array
                for array in codec.unpack(raw)
            ]
            copy.write(encoder.block(b"".join(map(codec.pack, arrays))))


def test_a_trace_of_an_earlier_release_is_read_whole_and_says_the_same(tmp_path: Path) -> None:
    new, old = tmp_path / "new.trace", tmp_path / "old.trace"
    recorded(new)
    with_sums(new, old)
    found = runs.finished(old)
    assert found is not None and found.models is None
    check(row_of(old))
    assert row_of(old).totals == row_of(new).totals and row_of(old).costs == row_of(new).costs


@pytest.mark.parametrize(
    "sums",
    [
        7,
        {},
        {"elapsed_us": 1, "models": []},
        {"elapsed_us": "1", "models": {}},
        {"elapsed_us": 1, "models": {"a": 1}},
        {"elapsed_us": 1, "models": {"a": {"calls": 1}}},
        {"elapsed_us": 1, "models": {"a": [1.5]}},
        {"elapsed_us": 1, "models": {b"a": [1], "a": [1]}},
    ],
)
def test_sums_that_are_none_are_not_listed(tmp_path: Path, sums: object) -> None:
    recorded(tmp_path / "one.trace")
    with_sums(tmp_path / "one.trace", tmp_path / "forged.trace", sums)
    check(row_of(tmp_path / "forged.trace"))
