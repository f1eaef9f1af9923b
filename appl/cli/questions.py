"""The programs behind ``appl ask`` and ``appl chat``, which traces name and replay.

Invariant: everything they learn from outside is recorded, so that a chat can be resumed.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterable

import appl
from appl import AIRole, SystemMessage, gen, ppl
from appl.cli.terminal import TermSafe, out

_ENDS = ("/quit", "/exit", "/bye")


@ppl
def ask(question: str, system: str = "") -> object:
    """Ask one question, and stream the answer."""
    if system:
        SystemMessage(system)
    f"{question}"
    return gen(stream=True).text_stream


@ppl
def chat(system: str = "") -> None:
    """Answer line after line until /quit or the end of the input."""
    if system:
        SystemMessage(system)
    while (line := next_line()) is not None:
        f"{line}"
        with AIRole():
            (answer := gen(stream=True))
        show(answer.text_stream)


def next_line() -> str | None:
    """The next line that is not empty; ``None`` when the user is done."""
    prompt = "> " if sys.stdin.isatty() else ""
    with contextlib.suppress(EOFError):
        while not (line := appl.input(prompt).strip()):
            pass
        return None if line in _ENDS else line
    if prompt:
        out("")  # Ctrl-D leaves the cursor behind the prompt
    return None


def show(pieces: Iterable[str]) -> None:
    """Print an answer as it comes."""
    safe = TermSafe()
    for piece in pieces:
        out(safe.feed(piece), end="")
    out(safe.close())
