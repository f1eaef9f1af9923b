"""``appl trace resume --due``: goes on with the runs for which something has come.

Invariant: each run goes on in a process of its own, in the folder in which it began; one that
another process has taken meanwhile is left to that.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

import click

from appl.cli import exits
from appl.cli.commands import Options
from appl.cli.target import UsageError
from appl.cli.terminal import counted, print_found, say
from appl.config import load
from appl.errors import TraceError
from appl.runtime.waiting.wall_clock import now
from appl.session.ownership import is_own
from appl.tracing import Trace
from appl.tracing.reading.runs import finished, paths
from appl.tracing.reading.waits import WAITING, is_due

_STATES = {exits.OK: "finished", exits.WAITING: "waiting"}


@dataclass(frozen=True, slots=True)
class Resumed:
    """A run that went on: how it ended, its exit code, and the last line that it said."""

    run: str
    state: str
    exit_code: int
    said: str


def resume_due(options: Options) -> int:
    """Go on with every run that is due; 1 if one of them failed."""
    if click.get_current_context().get_parameter_source("run") is not _DEFAULT:
        raise UsageError("--due goes on with every run that is due: leave RUN out, or --due")
    home = load().home.resolve()
    due = [path for path in paths(home) if _is_due(path, home)]  # the oldest first
    done = [_resumed(path, home, options) for path in due]
    lines = [
        f"{one.run}  {one.state}" + (f": {one.said.removeprefix('appl: ')}" if one.said else "")
        for one in done
    ]
    print_found(options.json, {"resumed": [asdict(one) for one in done]}, lines)
    if not done and not options.json:
        say("appl: no run is due")
    failed = [one for one in done if one.state == "failed"]
    if failed and not options.json:
        say(f"appl: {counted(len(failed), 'run')} failed; `appl trace show RUN` shows one")
    return exits.FAILED if failed else exits.OK


def _is_due(path: Path, home: Path) -> bool:
    try:
        closed = finished(path)
        if closed is None or closed.reason != WAITING:
            return False
        trace = Trace.open(path, home=home)
        return trace.state != "running" and is_due(trace, now()) and is_own(path)
    except (TraceError, OSError):
        return False


def _resumed(path: Path, home: Path, options: Options) -> Resumed:
    words = [sys.executable, "-m", "appl", "trace", "resume", "--quiet", str(path.resolve())]
    words += ["--edited"] if options.edited else []
    done = subprocess.run(
        words,
        cwd=_folder(path),
        env={**os.environ, "APPL_HOME": str(home)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
    )
    if not options.json:
        sys.stdout.write(done.stdout)
    code, lines = done.returncode, done.stderr.strip().splitlines()
    first_line = lines[0] if lines and code not in _STATES else ""
    state = _STATES.get(code, "taken" if "another process" in first_line else "failed")
    return Resumed(path.stem, state, code, first_line)


def _folder(path: Path) -> str | None:
    """The folder in which the run began, if it is there."""
    try:
        entry = Trace.open(path).header.get("entry")
    except TraceError:
        return None
    folder = entry.get("directory") if isinstance(entry, dict) else None
    return folder if isinstance(folder, str) and Path(folder).is_dir() else None


_DEFAULT = click.core.ParameterSource.DEFAULT
