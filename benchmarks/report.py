"""How a benchmark's figures are kept: with the command, the day and the machine."""

from __future__ import annotations

import datetime
import json
import os
import platform
from collections.abc import Iterable
from pathlib import Path
from typing import Any


def kept(name: str) -> Path:
    """Where the table *name* is kept: in ``benchmarks/results``, or where ``APPL_RESULTS`` says."""
    usual = Path(__file__).parent / "results"
    return Path(os.environ.get("APPL_RESULTS") or usual) / name


def write(path: str | None, command: str, found: Any) -> None:
    """Write *found* to *path* as JSON, if a path is given."""
    if path is None:
        return
    report = {
        "command": command,
        "date": datetime.date.today().isoformat(),
        "machine": f"{os.cpu_count()} cores, {platform.machine()}, {platform.system()}",
        "python": platform.python_version(),
        "results": found,
    }
    Path(path).write_text(json.dumps(report, indent=1) + "\n")


def printed(lines: Iterable[str], path: Path) -> None:
    """Print *lines* as they come, and keep them all in the file *path*."""
    told = []
    for line in lines:
        print(line, flush=True)
        told.append(line)
    path.write_text("\n".join(told) + "\n")
