"""A stream that ``appl.run`` returned is read after the run; its record is complete all the same."""

from __future__ import annotations

import contextlib
import contextvars
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import appl
from appl import gen, ppl
from appl.errors import BackendError, RunClosed
from appl.testing import Held, Streamed
from appl.tracing import Trace


class Watched(Held):
    """Tells when it was closed, which comes after the trace was."""

    def __init__(self, answer: Streamed) -> None:
        super().__init__(lambda _: answer)
        self.ended = threading.Event()

    async def aclose(self) -> None:
        await super().aclose()
        self.ended.set()


made: list[Watched] = []


def backend() -> Held:
    made.append(Watched(Streamed(("a", "b", "c"))))
    return made[-1]


def failing() -> Held:
    made.append(Watched(Streamed(("a",), BackendError("gone"))))
    return made[-1]


@ppl
def program():
    "x"
    return gen(stream=True).text_stream


@ppl
async def asynchronous():
    "x"
    return gen(stream=True).text_stream


@pytest.fixture(autouse=True)
def folder(tmp_path: Path) -> Iterator[Path]:
    made.clear()
    with contextlib.chdir(tmp_path):
        Path("appl.toml").write_text(f'backend = "{__name__}:backend"')
        yield tmp_path


def recorded() -> Trace:
    (path,) = Path(".appl/runs").glob("*.trace")
    return Trace.open(path)


def closed() -> Trace:
    """The trace, once it is closed."""
    assert made[0].ended.wait(30)
    return recorded()


def test_the_run_returns_before_the_answer_is_there() -> None:
    stream = appl.run(program)
    assert not stream.pending.done
    reader = iter(stream)
    for letter in "abc":
        made[0].release("/program.0/gen.0")
        assert next(reader) == letter and recorded().state == "running"
    made[0].release("/program.0/gen.0")
    assert list(reader) == [] and list(stream) == ["a", "b", "c"]
    trace = closed()
    (call,) = trace.calls
    assert trace.state == trace.reason == "finished" and made[0].closed
    assert [count for _, count in call.shown][:2] == [1, 2]


def test_all_else_has_ended_when_the_run_returns() -> None:
    others = []

    @ppl
    def both():
        "x"
        others.append(gen())
        made[0].release("/both.0/gen.0")
        return gen(stream=True).text_stream

    stream = appl.run(both)
    assert others[0].done() and not stream.pending.done
    made[0].release(*["/both.0/gen.1"] * 4)
    assert "".join(stream) == "abc" and len(closed().calls) == 2


def test_nothing_can_be_started_in_a_run_that_has_returned() -> None:
    frames = []

    @ppl
    def keeping():
        "x"
        frames.append(contextvars.copy_context())
        return gen(stream=True).text_stream

    stream = appl.run(keeping)
    with pytest.raises(RunClosed):
        frames[0].run(gen)
    made[0].release(*["/keeping.0/gen.0"] * 4)
    assert "".join(stream) == "abc"


def test_a_failure_is_raised_to_the_reader_only() -> None:
    Path("appl.toml").write_text(f'backend = "{__name__}:failing"')
    stream = appl.run(program)
    made[0].release(*["/program.0/gen.0"] * 2)
    said = []
    with pytest.raises(BackendError, match="gone"):
        said.extend(iter(stream))
    trace = closed()
    assert trace.state == trace.reason == "finished" and trace.calls[0].outcome == "failed"


def test_a_stream_that_is_read_on_another_thread() -> None:
    stream = appl.run(program)
    made[0].release(*["/program.0/gen.0"] * 4)
    found = []
    thread = threading.Thread(target=lambda: found.extend(stream))
    thread.start()
    thread.join()
    assert found == ["a", "b", "c"]


async def test_in_a_loop_as_in_a_web_server() -> None:
    for f in (program, asynchronous):
        stream = await appl.run(f)
        assert not stream.pending.done
        made[-1].release(*[f"/{f.__name__}.0/gen.0"] * 4)
        assert [chunk async for chunk in stream] == ["a", "b", "c"]


def test_the_stream_of_a_coroutine_function_whose_loop_is_closed() -> None:
    stream = appl.run(asynchronous)
    made[0].release(*["/asynchronous.0/gen.0"] * 4)
    assert list(stream) == ["a", "b", "c"] and closed().state == "finished"


def test_it_can_be_replayed() -> None:
    stream = appl.run(program)
    made[0].release(*["/program.0/gen.0"] * 4)
    first = list(stream)
    path = closed().path
    with appl.session.replayed(path):
        assert list(program()) == first


SCRIPT = """
import appl
from test_returned_stream import made, program
stream = appl.run(program)
made[0].release("/program.0/gen.0")
print(next(iter(stream)), flush=True)
"""


def test_one_that_nobody_reads_is_cancelled_when_the_process_ends(folder: Path) -> None:
    Path("appl.toml").write_text('backend = "test_returned_stream:backend"')
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=60,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([*sys.path, str(Path(__file__).parent)])},
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "a\n"), done.stderr
    trace = recorded()
    assert trace.state == trace.reason == "finished"
    assert trace.calls[0].outcome == "cancelled" and trace.calls[0].begun == {(0, 0): "a"}
