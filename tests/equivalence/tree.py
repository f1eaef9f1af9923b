"""A program as a tree of statements that is printed twice: as a prompt program, and as plain Python.

Marks in the text: ``‹x›`` is a use that needs the value, ``«xs»`` an argument of ordinary code
(finished also inside containers), ``⏳`` is ``await`` and ``⇶`` is ``async``, which plain Python
does not need.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

_STREAM = "gen(stream=True)"
_PPL = str.maketrans({"‹": "", "›": "", "«": "", "»": "", "⏳": "await ", "⇶": "async "})
_PLAIN = str.maketrans({"‹": "v(", "›": ")", "«": "done(", "»": ")", "⏳": "", "⇶": ""})


@dataclass(eq=False)
class Stmt:
    """A statement in both forms; an empty form is left out, one with ``body`` opens a block.

    ``region`` says that plain Python wraps the body in ``with region():``.
    """

    ppl: str
    plain: str
    body: list[Stmt] | None = None
    region: bool = False

    def unread_streams(self) -> None:
        """Have no answer streamed that has no name: an exception takes such a one back."""
        if not re.match(r"\w+ = gen\(", self.ppl):
            self.ppl, self.plain = (t.replace(_STREAM, "gen()") for t in (self.ppl, self.plain))

    def walk(self) -> Iterator[tuple[list[Stmt], Stmt]]:
        """Every statement below this one with the list that holds it, outermost first."""
        for child in self.body or ():
            yield self.body or [], child
            yield from child.walk()


@dataclass
class Printer:
    """Prints one of the two forms."""

    plain: bool
    lines: list[str] = field(default_factory=list)

    def block(self, body: list[Stmt], depth: int) -> None:
        before = len(self.lines)
        for stmt in body:
            self.statement(stmt, depth)
        if len(self.lines) == before:
            self.lines.append("    " * depth + "pass")

    def statement(self, stmt: Stmt, depth: int) -> None:
        text = stmt.plain.translate(_PLAIN) if self.plain else stmt.ppl.translate(_PPL)
        if not text:
            return
        self.lines += ["    " * depth + line for line in text.split("\n")]
        if stmt.body is None:
            return
        if self.plain and stmt.region:
            depth += 1
            self.lines.append("    " * depth + "with region():")
        self.block(stmt.body, depth + 1)


def printed(body: list[Stmt], *, plain: bool) -> str:
    """The source text of *body* in one of its two forms."""
    printer = Printer(plain)
    printer.block(body, 0)
    return "\n".join(printer.lines) + "\n"


def both(text: str, body: list[Stmt] | None = None, *, region: bool = False) -> Stmt:
    """A statement that is the same in both forms."""
    if region:
        for _, each in Stmt("", "", body).walk():
            each.unread_streams()
    return Stmt(text, text, body, region)


def mark(feature: str) -> Stmt:
    """Plain Python notes that *feature* ran; the prompt program knows nothing of it."""
    return Stmt("", f"mark({feature!r})")


def said(text: str) -> Stmt:
    """An expression statement."""
    return Stmt(text, f"say({text})")
