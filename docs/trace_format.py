"""Writes the part of ``trace-format.md`` that the table of records gives.

Run: python docs/trace_format.py
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import UnionType
from typing import Any, get_args

from appl.tracing.format import record, table

PAGE = Path(__file__).parent / "trace-format.md"
BEGIN, END = "<!-- begin of the table of records -->", "<!-- end of the table of records -->"
WORDS = {int: "integer", str: "text", bytes: "bytes", float: "number", type(None): "nil"}


def page(text: str) -> str:
    """The page *text* with the part that the table gives as it is today."""
    before, rest = text.split(BEGIN)
    return "\n".join([before + BEGIN, "", *_lines(), "", END + rest.split(END)[1]])


def _lines() -> Iterator[str]:
    yield f"The records of format {record.FORMAT}. A field in brackets may be missing."
    yield ""
    yield "| tag | record | fields |"
    yield "|---|---|---|"
    for tag, kind in table.KINDS.items():
        yield f"| `{tag}` | {_about(kind)} | {', '.join(_fields(kind))} |"
    yield (
        f"| `{table.MASKED}` | A record from which secrets were removed. | "
        "`names`: array of texts, `record`: record |"
    )
    yield (
        f"| `{table.SEALED}` | A record of a private trace, and what is shown instead. | "
        "`sealed`: bytes, `names`: array of texts, `shown`: record |"
    )
    yield ""
    yield "A private trace (`privacy`) shows less. All fields stay unchanged except these:"
    yield ""
    yield "| in a private trace | fields |"
    yield "|---|---|"
    for content in table.Content:
        fields = ", ".join(_with(content))
        if fields and content is not table.Content.PLAIN:
            yield f"| {content.value} | {fields} |"


def _about(kind: table.Kind) -> str:
    return " ".join((kind.__doc__ or "").split()).replace("``", "`")


def _fields(kind: table.Kind) -> Iterator[str]:
    for name in kind._fields[1:]:
        said = f"`{name}`: {_word(kind.__annotations__[name])}"
        yield f"[{said.removesuffix(' or nil')}]" if name in kind._field_defaults else said


def _word(hint: Any) -> str:
    """A type in plain words: the words that the table gives, or those of its parts."""
    words = [each for each in getattr(hint, "__metadata__", ()) if isinstance(each, str)]
    if words:
        return words[0]
    hint = get_args(hint)[0] if hasattr(hint, "__metadata__") else hint
    if isinstance(hint, UnionType):
        parts = [_word(part) for part in get_args(hint)]
        return " or ".join(dict.fromkeys(parts))
    kind = getattr(hint, "__origin__", hint)
    return {dict: "map", list: "array", **WORDS}[kind]


def _with(content: table.Content) -> Iterator[str]:
    for tag, kind in table.KINDS.items():
        for name, held in table.CONTENTS[kind].items():
            if held is content:
                yield f"`{tag}.{name}`"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text("utf-8")), "utf-8")
