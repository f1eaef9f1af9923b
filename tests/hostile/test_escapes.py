"""No text of a trace moves the cursor, sets the clipboard or turns the writing direction."""

from __future__ import annotations

import contextlib
import io
import re
import time
from pathlib import Path

import pytest

from appl.backend import Request, Response, Sample, Sampling, Usage
from appl.cli import main
from appl.cli.display import AnswerPrinter, PlainDisplay
from appl.errors import BackendError
from appl.prompt import Message, Messages, ToolCall
from appl.testing import (
    AttemptFailed,
    CallDispatched,
    CallEnded,
    CallStarted,
    ChunkArrived,
    Delivered,
    Observed,
    RunEnded,
    ScopeEntered,
    ToolEnded,
    ToolStarted,
    Warned,
)
from appl.tracing import Recorder

ESCAPES = (
    "\x1b[2J\x1b[1;1H", "\x1b]52;c;ZXZpbA==\x07", "\x1b]0;title\x1b\\", "\x1b]8;;http://evil\x07x\x1b]8;;\x07",
    "\x9b31m", "\x9d0;t\x9c", "\x90q\x9c", "\x85", "\u202egpj.exe\u202c", "\u2066x\u2069", "\u200f", "\u061c",
    "over\rwritten", "back\x08\x08\x08", "\x07\x0b\x0c\x0e\x0f", "\x7f", "\u2028\u2029", "\ufeff", "\x1b", "\x1bP1$q",
)  # fmt: skip
ALL = "a".join(ESCAPES)
_UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]"
)
ADDRESS = f"/main.0/{ALL}.0/gen.0"


def hostile_run(path: Path, reason: str = "failed") -> None:
    """The escapes in every field that can hold text; *reason* is why the run ended."""
    recorder = Recorder(path, {"program": ALL, "entry": {"kind": ALL, "file": ALL, "function": ALL, "argv": [ALL]},
                               "backend": ALL, "model": ALL, "git": ALL, "settings": {ALL: ALL}, "programs": {ALL: ALL},
                               "seed": ALL, "places": [ALL], "versions": {ALL: ALL}})  # fmt: skip
    now = time.monotonic_ns()
    scope = ADDRESS.rpartition("/")[0]
    recorder.on_event(ScopeEntered(scope, "/main.0", ALL, ALL, 1, now, {"about": ALL}))
    tools = (ToolCall(ALL, ALL, ALL),)
    chain = Messages.of([Message("user", ALL, name=ALL), Message("assistant", ALL, tool_calls=tools),
                         Message("tool", ALL, tool_call_id=ALL)])  # fmt: skip
    answer = Response((Sample(ALL, ALL, None, tools, ALL),), Usage(1, 2, 3), ALL, choice_method=ALL)
    for number in range(3):
        request = Request(f"{scope}/gen.{number}", number, ALL, chain, Sampling(stop=(ALL,)))
        error = BackendError(ALL, ALL)
        error.add_note(ALL)
        for event in (
            CallStarted(request, "gen", (ADDRESS,) if number else (), ALL, 1, now),
            CallDispatched(request.address, 1, now),
            AttemptFailed(request.address, 1, error, now),
            CallEnded(
                request.address, *((None, error) if number == 1 else (answer, None)), now + 10**6
            ),  # type: ignore[arg-type]
            Delivered(request.address, now),
        ):
            recorder.on_event(event)
    for event in (
        ToolStarted(f"{scope}/{ALL}.0", ALL, ALL, "effect", ALL, 1, now),
        ToolEnded(f"{scope}/{ALL}.0", Message("tool", ALL, tool_call_id=ALL), None, now),
        Observed(scope, 0, ALL, {ALL: [ALL]}, now),
        Warned(scope, ALL, now),
        RunEnded(reason, BackendError(ALL), now),
    ):
        recorder.on_event(event)
    recorder.close()


def printed(*words: str) -> str:
    out = io.StringIO()
    with (
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(out),
        contextlib.suppress(SystemExit),
    ):
        main(list(words))
    return out.getvalue()


@pytest.fixture(params=["failed", ALL], ids=["failed", "ended by ALL"])
def run(tmp_path: Path, request: pytest.FixtureRequest) -> str:
    path = tmp_path / ".appl" / "runs" / "20260101T000000.000Z-run-abcd.trace"
    hostile_run(path, request.param)
    return str(path)


@pytest.mark.parametrize(
    "words",
    [
        ["show", "RUN"], ["show", "RUN", "CALL"], ["show", "RUN", "--json"], ["show", "RUN", ALL], ["show", ALL],
        ["show", "RUN", "CALL", "--json"], ["ls"], ["ls", ALL], ["ls", "--json"], ["cost", "RUN"], ["critical", "RUN"],
        ["stuck", "RUN"], ["diff", "RUN", "RUN"], ["diff", "RUN", "GOLDEN", "--all"], ["verify", "RUN"],
        ["diff", "GOLDEN", "RUN"], ["replay", "RUN"], ["resume", "RUN"], ["rerun", "RUN", "--dry-run"], ["fuzz", "RUN"],
        ["export", "RUN", "--markdown", "-"], ["import", "RUN"], ["export-test", "RUN"], ["gc"],
    ],
    ids=lambda words: " ".join(words).replace(ALL, "ALL"),
)  # fmt: skip
def test_a_command_prints_no_escape(words: list[str], run: str, tmp_path: Path) -> None:
    golden = str(Path(__file__).parents[1] / "traces" / "1" / "tree.trace")
    known = {"RUN": run, "CALL": ADDRESS, "GOLDEN": golden}
    with contextlib.chdir(tmp_path):
        said = printed("trace", *(known.get(word, word) for word in words))
    assert said
    assert _UNSAFE.findall(said) == []


@pytest.mark.parametrize("shower", [PlainDisplay, AnswerPrinter])
def test_a_display_of_progress_prints_no_escape(shower: type) -> None:
    out = io.StringIO()
    request = Request(ADDRESS, 0, ALL, Messages.of([Message("user", ALL)]), Sampling())
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        shown = shower()
        shown.on_event(CallStarted(request, "gen", (), ALL, 1, 0))
        for piece in ALL:
            shown.on_event(ChunkArrived(ADDRESS, _chunk(piece), 0))
        shown.on_event(CallEnded(ADDRESS, None, BackendError(ALL), 1))
        shown.on_event(Warned(ADDRESS, ALL, 1))
        shown.on_event(RunEnded("failed", BackendError(ALL), 1))
    assert _UNSAFE.findall(out.getvalue()) == []


def _chunk(piece: str) -> object:
    from appl.backend import Chunk

    return Chunk(0, piece)


def test_what_looks_for_escapes_finds_each_of_them() -> None:
    assert all(_UNSAFE.search(each) for each in ESCAPES)
