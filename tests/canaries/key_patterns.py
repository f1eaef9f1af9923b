"""Writes ``appl/prompt/key_patterns.py``, the patterns that tell whether a text may hold a key.

They are made of the tables of shapes and places, which a program without keys does not load:
``python -m tests.canaries.key_patterns`` after a change of those tables.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import appl
from appl.prompt.key_places import QUICK_NAMES, QUICK_PLACES
from appl.prompt.key_shapes import QUICK_SHAPES, QUICK_STARTS

FILE = Path(appl.__file__).with_name("prompt") / "key_patterns.py"
HEAD = '''"""Patterns of which one at least finds something in each text that holds a key.

Made by ``python -m tests.canaries.key_patterns`` of the tables of shapes and places, so that a
program without keys loads none of them. Invariant: valid in the syntax of Rust, whose engine is
linear in time. There are some, as it looks for a few beginnings at once and not for hundreds.
"""

from __future__ import annotations

from typing import Final

FIRST: Final = (
'''
_AT_ONCE = 5
"""Patterns of shapes and places that are looked for at once; with more of them it takes longer."""
_LINE = 80


def patterns() -> Iterator[str]:
    """The patterns that the tables give."""
    yield from QUICK_STARTS
    several = (*QUICK_SHAPES, *QUICK_PLACES)
    for at in range(0, len(several), _AT_ONCE):
        yield "|".join(several[at : at + _AT_ONCE])
    yield QUICK_NAMES


def source() -> str:
    """The module that holds them."""
    lines = [
        "(" + "\n".join(repr(each[at : at + _LINE]) for at in range(0, len(each), _LINE)) + "),\n"
        for each in patterns()
    ]
    words = [sys.executable, "-m", "ruff", "format", "--stdin-filename", str(FILE), "-"]
    text = f"{HEAD}{''.join(lines)})\n"
    return subprocess.run(words, input=text, capture_output=True, text=True, check=True).stdout


if __name__ == "__main__":
    FILE.write_text(source(), encoding="utf-8")
