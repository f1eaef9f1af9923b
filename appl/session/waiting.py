"""Messages about a run that waits for something outside, and the way to continue it."""

from __future__ import annotations

from collections.abc import Sequence

from appl.errors import Awaited
from appl.tracing.recording.secret import Masker

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
    masker = Masker()
    return [masker.text(line, []) for line in text_lines]
