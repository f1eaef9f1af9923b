"""A trace that somebody removes or cuts while its run goes on: the run is told, and soon."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import appl
from appl.errors import TraceWriteError
from appl.tracing import Trace
from appl.tracing.recording import Writer


def cut(path: Path) -> None:
    os.truncate(path, 20)


LOSSES = [
    pytest.param(Path.unlink, "somebody removed the file", id="removed"),
    pytest.param(cut, "somebody cut the file to", id="cut"),
]


@appl.ppl
def ask(question: str) -> appl.Generation:
    f"{question}"
    return appl.gen()


@pytest.mark.parametrize(("lose", "reason"), LOSSES)
def test_no_further_call_is_started(
    lose: Callable[[Path], None], reason: str, tmp_path: Path
) -> None:
    path = tmp_path / "run.trace"
    with (
        pytest.raises(TraceWriteError, match=reason),
        appl.record(path, backend="appl.testing:Echo"),
    ):
        str(ask("Is it there?"))
        lose(path)
        with pytest.raises(TraceWriteError, match=f"{reason}.*no further call is started"):
            while True:  # ends within a second: the writer looks as often
                str(ask("Is it there?"))


@pytest.mark.parametrize(("lose", "reason"), LOSSES)
def test_a_run_that_ends_at_once_is_told_at_its_end(
    lose: Callable[[Path], None], reason: str, tmp_path: Path
) -> None:
    path = tmp_path / "run.trace"
    with (
        pytest.raises(TraceWriteError, match=f"{reason}.*the trace is not complete"),
        appl.record(path, backend="appl.testing:Echo"),
    ):
        str(ask("Is it there?"))
        lose(path)


@pytest.mark.parametrize(("lose", "reason"), LOSSES)
def test_a_run_that_shall_go_on_says_that_it_does(
    lose: Callable[[Path], None], reason: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "run.trace"
    with appl.record(path, backend="appl.testing:Echo", on_trace_error="warn"):
        str(ask("Is it there?"))
        lose(path)
        told = ""
        while reason not in told:  # ends within a second: the writer looks as often
            str(ask("Is it there?"))
            told += capfd.readouterr().err
        assert str(ask("And now?"))
    told += capfd.readouterr().err
    assert told.count("; the run goes on unrecorded\n") == told.count(reason) == 1
    assert "no further call" not in told


def test_a_run_that_ends_at_once_warns_that_its_trace_is_not_complete(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "run.trace"
    with appl.record(path, backend="appl.testing:Echo", on_trace_error="warn"):
        str(ask("Is it there?"))
        path.unlink()
    told = capfd.readouterr().err
    assert "somebody removed the file" in told and "; the trace is not complete" in told
    assert "goes on" not in told and "no further call" not in told


def test_a_file_that_is_moved_is_written_where_it_is(tmp_path: Path) -> None:
    path, elsewhere = tmp_path / "run.trace", tmp_path / "moved.trace"
    with appl.record(path, backend="appl.testing:Echo"):
        str(ask("Is it there?"))
        path.rename(elsewhere)
        str(ask("And now?"))
    assert len(Trace.open(elsewhere).calls) == 2


def test_a_writer_without_work_looks_too(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "run.trace")
    writer.append(b"\x91\xc0")
    writer.barrier()
    (tmp_path / "run.trace").unlink()
    with pytest.raises(TraceWriteError, match="somebody removed the file"):
        while True:
            writer.wait_for_room()
    with pytest.raises(TraceWriteError, match="somebody removed the file"):
        writer.close()


def test_a_script_that_loses_its_trace_ends_with_an_error(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import pathlib, appl\n"
        "appl.init(backend='appl.testing:Echo')\n"
        "@appl.ppl\n"
        "def ask():\n"
        "    'Hello'\n"
        "    return appl.gen()\n"
        "print(ask())\n"
        "for file in pathlib.Path('.appl/runs').glob('*.trace'):\n"
        "    file.unlink()\n"
    )
    done = subprocess.run(
        [sys.executable, program], cwd=tmp_path, capture_output=True, text=True, timeout=60,
        env={k: v for k, v in os.environ.items() if not k.startswith("APPL_")},
    )  # fmt: skip
    assert done.returncode == 1
    assert "somebody removed the file" in done.stderr
