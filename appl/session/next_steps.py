"""The lines that name the next command: after the first run in a folder, and where a run waits.

Invariant: only the names of the recorded runs are read.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from appl.errors import Awaited

_MAIN = re.compile(r"^(async )?def main\(", re.MULTILINE)
_SHOW = "appl: next: `appl trace show` shows the prompts and answers of this run"
_REPLAY = "`appl trace replay` runs the program again with the recorded answers"


def is_only_run(path: Path | None, home: Path) -> bool:
    """True if *path* is the only run in *home*."""
    runs = home / "runs"
    return path is not None and path.parent == runs and [*runs.glob("*.trace")] == [path]


def after_run(path: Path | None, home: Path) -> str | None:
    """The line after the first run in *home*; ``None`` after others."""
    return _SHOW if is_only_run(path, home) else None


def after_show(path: Path, home: Path, call: str | None) -> str | None:
    """The line after the only run in *home* was shown; *call* is one of its calls."""
    if not is_only_run(path, home):
        return None
    prompt = f"`appl trace show {call}` shows the whole prompt of that call; " if call else ""
    return f"appl: next: {prompt}{_REPLAY}"


def before_run(file: Path, home: Path) -> str | None:
    """The line after a check of *file* found nothing, while *home* holds no run."""
    if any((home / "runs").glob("*.trace")) or not _MAIN.search(file.read_text("utf-8", "replace")):
        return None
    return f"appl: next: `appl run {file}` runs it"


QUESTION_KINDS = ("question", "approval")
"""Kinds of waits that a person ends."""
EXIT_CODE = 75
"""The exit code of a process whose run waits."""
_SHOWN = 5


def lines(waits: Sequence[Awaited], name: str | None, *, by_command: bool = True) -> list[str]:
    """The waits, and the command that continues the run *name*.

    *by_command* is true if the same command goes on, too.
    """
    many = "1 thing" if len(waits) == 1 else f"{len(waits)} things"
    text_lines = [f"appl: the run waits for {many} outside:"]
    text_lines += [f"  {entry.address}  {entry.kind}: {entry.text}" for entry in waits[:_SHOWN]]
    run = name or "RUN"
    if len(waits) > _SHOWN:
        text_lines.append(f"  and {len(waits) - _SHOWN} more: appl trace show {run}")
    questions = [entry for entry in waits if entry.kind in QUESTION_KINDS]
    if questions:
        value = "yes" if questions[0].kind == "approval" else "VALUE"
        text_lines.append(
            f"appl: answer it with `appl trace answer {run} {questions[0].address}={value}`"
        )
    same = ", and so does the same command" if by_command else ""
    text_lines.append(f"appl: `appl trace resume {run}` goes on{same}")
    from appl.tracing.recording.secret import Masker  # only a run that waits needs it

    masker = Masker()
    return [masker.text(line, []) for line in text_lines]
