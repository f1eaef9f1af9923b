"""What goes and what stays: limits, and the runs that stay whatever the limits are."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings, strategies as st

from appl.config import Config
from appl.tracing import Recorder
from appl.tracing.keeping import (
    Retention,
    RunFilter,
    RunRow,
    automatic_removal,
    index,
    keep_marks,
    removals,
    run_filter,
)

from .conftest import Project, made

NOW = datetime(2026, 3, 1, tzinfo=UTC)


@st.composite
def rows(draw: st.DrawFn) -> list[RunRow]:
    count = draw(st.integers(0, 12))
    made_rows = []
    for number in range(count):
        began = NOW - timedelta(hours=draw(st.integers(0, 300)))
        made_rows.append(
            RunRow(
                Path(f"/nowhere/runs/{number:03}.trace"),
                state=draw(st.sampled_from(run_filter.STATES)),
                began=began.isoformat(),
                size=draw(st.integers(0, 1000)),
                failed=draw(st.integers(0, 1)),
                imported=draw(st.booleans()),
            )
        )
    return made_rows


limits = st.builds(
    Retention,
    st.none() | st.integers(0, 300).map(lambda hours: timedelta(hours=hours)),
    st.none() | st.integers(0, 10),
    st.none() | st.integers(0, 5000),
    st.booleans(),
)


@settings(max_examples=200, deadline=None)
@given(rows(), limits)
def test_gc_never_takes_what_is_to_stay_and_holds_its_limits(
    every: list[RunRow], retention: Retention
) -> None:
    gone = removals(every, retention, NOW)
    names = {each.row.name for each in gone}
    left = [row for row in every if row.name not in names]
    for each in gone:
        assert each.row.state not in ("running", "waiting", "unreadable")
        assert not each.row.imported
        assert not (retention.failed and (each.row.failed or each.row.state == "crashed"))
        assert each.reason
    stays = ("running", "waiting", "unreadable")
    free = [row for row in left if not row.imported and row.state not in stays]
    if not retention.failed:
        if retention.runs is not None:
            assert len(free) <= retention.runs
        if retention.age is not None:
            assert all(datetime.fromisoformat(row.began) >= NOW - retention.age for row in free)
        if retention.size is not None and free:
            assert sum(row.size for row in left if not row.imported) <= max(
                retention.size,
                sum(row.size for row in left if row not in free and not row.imported),
            )
    if not retention.limits:
        assert not gone


def test_the_newest_are_left(home: Path) -> None:
    paths = [made(home, number) for number in range(5)]
    rows_ = index.rows(home)
    gone = removals(rows_, Retention(runs=2), NOW)
    assert [each.row.path for each in gone] == paths[:3]


def test_gc_leaves_marked_and_running_runs(project: Project) -> None:
    home = project.folder / ".appl"
    paths = [made(home, number) for number in range(4)]
    assert project.appl("trace", "keep", paths[0].stem).code == 0
    live = Recorder(home / "runs" / "20251231T000000.000Z-live-0001.trace", {"program": "live"})
    try:
        dry = project.appl("trace", "gc", "--runs", "1", "--dry-run", "--json").data
        assert {run["name"] for run in dry["removed"]} == {paths[1].stem, paths[2].stem}
        assert len(project.traces) == 5
        done = project.appl("trace", "gc", "--runs", "1")
        assert done.code == 0
        assert "removed 2 runs" in done.err
    finally:
        live.close()
    assert [path.stem for path in project.traces] == [live.path.stem, paths[0].stem, paths[3].stem]
    project.appl("trace", "keep", "--off", paths[0].stem)
    assert not keep_marks.is_kept(paths[0])


def test_gc_needs_a_limit_and_takes_it_from_the_settings(project: Project) -> None:
    home = project.folder / ".appl"
    made(home, 1)
    refused = project.appl("trace", "gc")
    assert refused.code == 2
    assert "keep_runs" in refused.err
    project.write("appl.toml", 'keep_age = "0s"\nkeep_size = "1GB"\n')
    assert (
        project.appl("trace", "gc", "--json").data["removed"][0]["reason"] == "older than 0 hours"
    )


def test_gc_runs_by_itself_only_where_that_is_set(project: Project) -> None:
    home = project.folder / ".appl"
    made(home, 1)
    project.write("appl.toml", "keep_runs = 1\n")
    project.run("ask")
    assert len(project.traces) == 2
    project.write("appl.toml", "keep_runs = 1\ngc = true\n")
    project.run("ask")
    assert len(project.traces) == 1


@pytest.mark.parametrize("wrong", ["keep_age = 3", 'keep_age = "soon"', 'keep_size = "big"'])
def test_a_limit_that_cannot_be_read_is_refused(project: Project, wrong: str) -> None:
    project.write("appl.toml", wrong)
    done = project.appl("trace", "gc")
    assert done.code == 2
    assert "must be a" in done.err


def test_lengths_and_sizes() -> None:
    assert (run_filter.length("2h"), run_filter.length("1.5d")) == (
        timedelta(hours=2),
        timedelta(hours=36),
    )
    assert (run_filter.size("500MB"), run_filter.size("2GiB"), run_filter.size("12")) == (
        500_000_000,
        2 << 30,
        12,
    )
    assert run_filter.moment("1d", NOW) == NOW - timedelta(days=1)
    assert run_filter.moment("2026-01-31", NOW) == datetime(2026, 1, 31, tzinfo=UTC)
    for text in ("", "h", "-1h", "1y"):
        with pytest.raises(ValueError, match="as in"):
            run_filter.length(text)


@given(rows(), st.sampled_from(run_filter.STATES), st.integers(0, 300))
def test_filters_are_all_held(every: list[RunRow], state: str, hours: int) -> None:
    since = NOW - timedelta(hours=hours)
    chosen = run_filter.found(every, RunFilter(states=(state,), since=since))
    assert all(row.state == state for row in chosen)
    assert all(datetime.fromisoformat(row.began) >= since for row in chosen)
    assert len(chosen) == sum(
        row.state == state and datetime.fromisoformat(row.began) >= since for row in every
    )


@settings(max_examples=20, deadline=None)
@given(limits, st.lists(st.booleans(), max_size=5), st.integers(0, 3))
def test_tidying_leaves_the_files_of_marked_and_running_runs(
    retention: Retention, kept: list[bool], crashed: int
) -> None:
    with TemporaryDirectory() as folder:
        home = Path(folder) / ".appl"
        paths = [made(home, number) for number in range(len(kept))]
        for path, wanted in zip(paths, kept, strict=True):
            keep_marks.keep(path, wanted)
        for number in range(crashed):
            made(home, 10 + number, ended=False)
        live = Recorder(home / "runs" / "20251231T000000.000Z-live-0001.trace", {"program": "p"})
        try:
            automatic_removal.tidy(
                Config(
                    home=home,
                    keep_age=None
                    if retention.age is None
                    else f"{retention.age.total_seconds():.0f}s",
                    keep_runs=retention.runs,
                    keep_size=None if retention.size is None else str(retention.size),
                    keep_failed=retention.failed,
                )
            )
            assert live.path.exists()
            assert all(path.exists() for path, wanted in zip(paths, kept, strict=True) if wanted)
            rest = [row for row in index.rows(home) if not row.kept and row.state != "running"]
            if retention.runs is not None and not retention.failed:
                assert len(rest) <= retention.runs
            if retention.failed:
                assert sum(row.state == "crashed" for row in rest) == crashed
        finally:
            live.close()
