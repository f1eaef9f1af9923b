"""Triple-quoted statement strings, dedented as docstrings are.

Invariant: only the margin goes, with the blank lines at both ends; tabs and spaces inside a line
stay, and so does every string that does not begin with three quotes.
"""

from __future__ import annotations

import ast
import re
from typing import Any

from appl.compiler.source import SourceFile

_TRIPLE = re.compile(r"[a-zA-Z]{0,2}(\"\"\"|''')")


def is_triple_quoted(node: ast.expr, source: SourceFile) -> bool:
    """True if the string at *node* begins with three quotes in the source."""
    if node.lineno > len(source.lines):
        return False
    line = source.lines[node.lineno - 1].encode()
    return _TRIPLE.match(line[node.col_offset :].decode(errors="replace")) is not None


def text_of(node: ast.Constant, source: SourceFile) -> str:
    """The prompt text of a constant statement string: dedented if it stands in three quotes."""
    text = str(node.value)
    return cleaned(text) if is_triple_quoted(node, source) else text


def parts_of(node: Any, source: SourceFile) -> list[Any]:
    """The parts of an f-string statement in order: constant texts, and the nodes of its holes."""
    parts = [str(part.value) if isinstance(part, ast.Constant) else part for part in node.values]
    if not is_triple_quoted(node, source):
        return parts
    # The margin is that of the whole string, in which a sign that is not in it marks each hole.
    constant = "".join(part for part in parts if isinstance(part, str))
    mark = next(mark for mark in map(chr, range(1, 1 << 16)) if mark not in constant)
    whole = cleaned("".join(part if isinstance(part, str) else mark for part in parts))
    first, *texts = whole.split(mark)
    holes = [part for part in parts if not isinstance(part, str)]
    dedented = [first]
    for hole, text in zip(holes, texts, strict=True):
        dedented += hole, text
    return [part for part in dedented if part != ""]


def cleaned(text: str) -> str:
    """*text* as ``inspect.cleandoc`` has it, but for tabs behind the margin."""
    lines = []
    for line in text.split("\n"):
        rest = line.lstrip(" \t")
        lines.append(line[: len(line) - len(rest)].expandtabs() + rest)
    widths = [len(line) - len(line.lstrip()) for line in lines[1:] if line.strip()]
    margin = min(widths, default=0)
    lines = [lines[0].lstrip(), *(line[margin:] if line.strip() else "" for line in lines[1:])]
    while lines and not lines[-1]:
        lines.pop()
    while lines and not lines[0]:
        lines.pop(0)
    return "\n".join(lines)
