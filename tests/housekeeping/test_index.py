"""The index says what a scan says, whatever happened to it or to the folder."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from appl.tracing import Recorder
from appl.tracing.keeping import RunRow, index, row_of
from appl.tracing.reading import runs

from .conftest import made


def seen(rows: list[Any]) -> list[dict[str, Any]]:
    return [row.as_data() for row in rows]


def scanned(home: Path) -> list[RunRow]:
    """The rows of the runs, without any index."""
    own, others = runs.paths(home), runs.foreign(home)
    found = [*(row_of(path) for path in own), *(row_of(path, imported=True) for path in others)]
    return sorted(found, key=lambda row: (row.began, row.name), reverse=True)


def agree(home: Path) -> list[dict[str, Any]]:
    indexed = seen(index.rows(home))
    assert indexed == seen(scanned(home))
    return indexed


def stored(home: Path) -> int:
    with sqlite3.connect(home / index.FILE) as connection:
        (count,) = connection.execute("SELECT count(*) FROM runs").fetchone()
    return int(count)


def test_a_row_tells_what_a_run_was(home: Path) -> None:
    made(home, 1, calls=3, failing=1, cost=7, model="small")
    (row,) = index.rows(home)
    assert (row.state, row.program, row.calls, row.failed) == ("finished", "talk", 4, 1)
    assert (row.cost, row.models, row.tokens) == (21, ["small"], 45)
    assert (
        row.costs["in_doubt"]["calls"] == 1
    )  # a ValueError of the backend says nothing of its cost


def test_an_empty_home_gets_no_index(home: Path) -> None:
    assert index.rows(home) == []
    assert not home.exists()


def test_files_are_private_and_rows_come_back_from_the_index(home: Path) -> None:
    made(home, 1)
    agree(home)
    assert (home / index.FILE).stat().st_mode & 0o777 == 0o600
    assert stored(home) == 1
    agree(home)


def test_a_running_run_is_read_each_time(home: Path) -> None:
    path = home / "runs" / "20260101T000000.000Z-live-0001.trace"
    recorder = Recorder(path, {"program": "live"}, durability="process")
    assert [row.state for row in index.rows(home)] == ["running"]
    assert stored(home) == 0
    recorder.close()
    assert [row["state"] for row in agree(home)] == ["finished"]


def test_what_cannot_be_read_is_listed_with_its_error(home: Path) -> None:
    made(home, 1)
    (home / "runs" / "20260101T000000.000Z-bad-0001.trace").write_bytes(b"nonsense")
    states = [row["state"] for row in agree(home)]
    assert sorted(states) == ["finished", "unreadable"]


def corrupt_bytes(path: Path) -> None:
    path.write_bytes(b"this is no database" * 100)


def corrupt_pages(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[100:] = b"\xff" * (len(data) - 100)
    path.write_bytes(bytes(data))


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:1000])


def another_program(path: Path) -> None:
    path.unlink()
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE theirs (a)")
        connection.execute("INSERT INTO theirs VALUES (1)")


def another_version(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version=99")


def wrong_rows(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE runs SET row = '[1]'")


def other_columns(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("ALTER TABLE runs RENAME COLUMN row TO data")


def deleted(path: Path) -> None:
    path.unlink()


def emptied(path: Path) -> None:
    path.write_bytes(b"")


@pytest.mark.parametrize(
    "damage",
    [
        corrupt_bytes, corrupt_pages, cut, another_program, another_version, wrong_rows,
        other_columns, deleted, emptied,
    ],
)  # fmt: skip
def test_a_damaged_or_foreign_index_is_made_anew(home: Path, damage: Any) -> None:
    for number in range(3):
        made(home, number)
    agree(home)
    damage(home / index.FILE)
    agree(home)
    agree(home)
    if damage is not wrong_rows:
        assert stored(home) == 3


def test_another_programs_file_is_kept_beside(home: Path) -> None:
    made(home, 1)
    agree(home)
    another_program(home / index.FILE)
    agree(home)
    with sqlite3.connect(home / "runs.db.old") as connection:
        assert connection.execute("SELECT a FROM theirs").fetchall() == [(1,)]


def test_a_link_in_place_of_the_index_is_not_followed(home: Path, tmp_path: Path) -> None:
    made(home, 1)
    target = tmp_path / "elsewhere"
    target.write_bytes(b"mine")
    (home / index.FILE).symlink_to(target)
    agree(home)
    assert target.read_bytes() == b"mine"


def test_a_busy_index_is_done_without(home: Path) -> None:
    made(home, 1)
    agree(home)
    with sqlite3.connect(home / index.FILE, isolation_level=None) as other:
        other.execute("PRAGMA locking_mode=EXCLUSIVE")
        other.execute("BEGIN EXCLUSIVE")
        assert len(index.rows(home)) == 1
        other.execute("ROLLBACK")


def test_many_processes_at_once_agree(home: Path) -> None:
    for number in range(12):
        made(home, number)
    code = (
        "import sys; from pathlib import Path; from appl.tracing.keeping import index\n"
        "print(*sorted(row.name for row in index.rows(Path(sys.argv[1]))))"
    )
    running = [
        subprocess.Popen([sys.executable, "-c", code, str(home)], stdout=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    said = {done.communicate(timeout=60)[0] for done in running}
    assert len(said) == 1
    assert len(said.pop().split()) == 12
    agree(home)
    assert stored(home) == 12


STEPS = st.lists(
    st.tuples(st.sampled_from(["add", "remove", "touch", "grow", "corrupt", "drop", "look"]),
              st.integers(0, 5)),
    max_size=12,
)  # fmt: skip


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(STEPS)
def test_after_any_steps_the_index_is_the_scan(steps: list[tuple[str, int]]) -> None:
    with TemporaryDirectory() as folder:
        home = Path(folder) / ".appl"
        for number, (step, which) in enumerate(steps):
            here = sorted((home / "runs").glob("*.trace"))
            chosen = here[which % len(here)] if here else None
            if step == "add":
                made(home, number, calls=which, failing=which % 2, ended=which != 3)
            elif step == "drop":
                shutil.rmtree(home / index.FILE, ignore_errors=True)
                (home / index.FILE).unlink(missing_ok=True)
            elif step == "corrupt" and home.exists():
                (home / index.FILE).write_bytes(os.urandom(300))
            elif chosen is not None and step == "remove":
                chosen.unlink()
            elif chosen is not None and step == "touch":
                os.utime(chosen, (which, which))
            elif chosen is not None and step == "grow":
                with chosen.open("ab") as file:
                    file.write(b"torn")
            agree(home)
