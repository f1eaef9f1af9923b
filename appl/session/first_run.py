"""The lines after the first run in a folder, which name the next command.

Invariant: only the names of the recorded runs are read.
"""

from __future__ import annotations

import re
from pathlib import Path

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
