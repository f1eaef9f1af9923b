"""The display of values in a notebook: plain text and HTML, both of the same words.

Invariant: nothing that a model or a user wrote is markup; it is escaped, whoever wrote it.
"""

from __future__ import annotations

import html
from collections.abc import Iterable

Bundle = dict[str, str]
"""The result of ``_repr_mimebundle_``: text by media type."""

_BOX = "border-left:3px solid #8888;padding:2px 8px;margin:2px 0;white-space:pre-wrap"
_NOTE = "opacity:.6;font-size:85%"


def block(text: str, note: str = "") -> Bundle:
    """A text as it was written, with a smaller *note* below."""
    below = f'<div style="{_NOTE}">{html.escape(note)}</div>' if note else ""
    return {
        "text/plain": f"{text}\n[{note}]" if note else text,
        "text/html": f'<div style="{_BOX}">{html.escape(text)}{below}</div>',
    }


def dialogue(lines: Iterable[tuple[str, str]], note: str = "") -> Bundle:
    """A dialogue with one block for each speaker's text."""
    lines = list(lines)
    plain = "\n".join(f"{speaker}: {text}" for speaker, text in lines)
    boxes = "".join(
        f'<div style="{_BOX}"><b>{html.escape(speaker)}</b> {html.escape(text)}</div>'
        for speaker, text in lines
    )
    below = f'<div style="{_NOTE}">{html.escape(note)}</div>' if note else ""
    return {
        "text/plain": f"{plain}\n[{note}]" if note else plain,
        "text/html": f"<div>{boxes}{below}</div>",
    }


def table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]], plain: str) -> Bundle:
    """Rows under a *head*; *plain* is the same as text."""
    cells = "".join(f"<th>{html.escape(cell)}</th>" for cell in head)
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    return {
        "text/plain": plain,
        "text/html": f"<table><thead><tr>{cells}</tr></thead><tbody>{body}</tbody></table>",
    }
