"""What is said of a run that waits for something outside, and how it goes on."""

from __future__ import annotations

from collections.abc import Sequence

from appl.errors import Awaited
from appl.tracing.recording.secret import Masker

ASKED = ("question", "approval")
"""Kinds of waits that a person ends."""
EXIT_CODE = 75
"""The exit code of a process whose run waits."""
_SHOWN = 5


def lines(waits: Sequence[Awaited], name: str | None) -> list[str]:
    """What is waited for, and the command that goes on; *name* is that of the run."""
    many = "1 thing" if len(waits) == 1 else f"{len(waits)} things"
    found = [f"appl: the run waits for {many} outside:"]
    found += [f"  {entry.address}  {entry.kind}: {entry.text}" for entry in waits[:_SHOWN]]
    run = name or "RUN"
    if len(waits) > _SHOWN:
        found.append(f"  and {len(waits) - _SHOWN} more: appl trace show {run}")
    asked = [entry for entry in waits if entry.kind in ASKED]
    if asked:
        value = "yes" if asked[0].kind == "approval" else "VALUE"
        found.append(f"appl: answer it with `appl trace answer {run} {asked[0].address}={value}`")
    found.append(f"appl: `appl trace resume {run}` goes on, and so does the same command")
    masker = Masker()
    return [masker.text(line, []) for line in found]
