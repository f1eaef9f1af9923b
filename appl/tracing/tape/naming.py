"""The default path of a test's tape.

Invariant: two tests of one file never share a name, whatever their parameters are.
"""

from __future__ import annotations

import re
from pathlib import Path

from appl.prompt import digest_of

BESIDE = "tapes/{module}/{test}.jsonl"
_LONGEST = 100


def beside(file: Path, test: str, written: str = BESIDE) -> Path:
    """The tape of *test* (``TestClass.test[parameter]``) in *file*; *written* is relative to it."""
    for name, text in (("module", file.stem), ("test", test)):
        written = written.replace(f"{{{name}}}", word(text))
    return file.parent / written


def word(text: str) -> str:
    """*text* as a file's name; one that had to be changed is told apart by its digest."""
    file_name = re.sub(r"[^A-Za-z0-9_.\[\]-]+", "_", text)
    if file_name == text and len(file_name) <= _LONGEST:
        return file_name
    return f"{file_name[:_LONGEST]}-{digest_of(text)[:3].hex()}"
