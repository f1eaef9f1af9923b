"""Finds the ``try`` in plain Python that was left before a call failed, for its error message."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from appl.compiler.lint import check_text
from appl.compiler.unprotected_calls import NAME

_CALL = re.compile(r"in call (/\S+?)(?:, (.+):\d+)?")


def passed_by(notes: Iterable[str], files: Iterable[str]) -> str:
    """Names the ``try`` of *files* that was left before the failed call ended, and what to write.

    *notes* are those of the error, of which one names the call; nothing where none fits.
    """
    called = next(filter(None, map(_CALL.fullmatch, notes)), None)
    if called is None:
        return ""
    names = {part.rpartition(".")[0] for part in called[1].split("/")}
    for file in sorted({*files, called[2] or ""}):
        try:
            text = Path(file).read_text("utf-8")
        except (OSError, ValueError):
            continue
        for finding in check_text(file, text, select=[NAME]):
            if re.match(r"`(\w+)\(", finding.message)[1] in names:  # type: ignore[index]
                return f"{finding.file}:{finding.line}: {finding.message}; {finding.hint}"
    return ""
