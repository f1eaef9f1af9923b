"""News of the tools that a server offers, for its user: new ones, and changed ones.

Invariant: a tool takes one line, and each of its parameters with a description one more; all are of
bounded length and number, and everything in them that is not printable is written as an escape.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

from appl.prompt import digest_of
from appl.runtime.reporter import printable

Offer = Mapping[str, Any]
"""A tool as a server offers it: its name, description, parameters and effect."""
Digests = Mapping[str, Sequence[str]]
"""By the name of a tool the digests of its description, and of its parameters and effect."""

_WIDTH, _LINES = 100, 20
_PARAMETERS = 10  # of one tool, whose descriptions are shown
_LEVELS = 20  # of a schema, in which descriptions are looked for


class ToolMemory(Protocol):
    """The tools that a user was shown."""

    def swap(self, server: str, tools: Digests) -> Digests | None:
        """Remember the *tools* of *server*, and return those that were; None the first time."""


def news(
    server: str,
    identity: str,
    offered: Sequence[Offer],
    memory: ToolMemory | None,
    recorded: Sequence[Offer] | None = None,
) -> list[str]:
    """The lines that tell a user what *server* offers that they have not seen; often none.

    *identity* stands for it in the *memory*. With *recorded*, the tools that a record says it has,
    differences from these come first.
    """
    digests_before = memory.swap(identity, digests(offered)) if memory is not None else None
    changes = _changes(digests(recorded), offered) if recorded is not None else []
    if changes:
        why = "has changed since the recorded run, whose tools are offered"
        return [f"the MCP server {server!r} {why}:", *_bounded(changes, len(changes))]
    if digests_before is None:
        count = f"{len(offered)} tool" + "s" * (len(offered) != 1)
        shown = _bounded([_shown(offer) for offer in offered[:_LINES]], len(offered))
        return [f"the MCP server {server!r} offers {count}:", *shown]
    changes = _changes(digests_before, offered)
    head = f"the MCP server {server!r} has changed since it was last used here:"
    return [head, *_bounded(changes, len(changes))] if changes else []


def digests(offered: Sequence[Offer]) -> dict[str, list[str]]:
    """The digests of the tools in *offered*, by their names."""
    return {offer["name"]: [*_digests(offer)] for offer in offered}


def _digests(offer: Offer) -> tuple[str, str]:
    form = json.dumps([offer["parameters"], offer["effect"]], sort_keys=True)
    return digest_of("text", offer["description"]).hex(), digest_of("form", form).hex()


def _changes(then: Digests, offered: Sequence[Offer]) -> list[list[str]]:
    """The lines of each tool in *offered* that is not as *then*, or is not there any more."""
    changes: list[list[str]] = []
    for offer in offered:
        digests = then.get(offer["name"])
        if digests is None:
            changes.append(_shown(offer, " (new)"))
            continue
        text, form = _digests(offer)
        other_text, other_form = text not in digests, form not in digests
        if other_text:
            and_form = " and other parameters" if other_form else ""
            changes.append(_shown(offer, f" (another description{and_form})", other_form))
        elif other_form:
            line = f"  {_line(offer['name'])} (other parameters)"
            changes.append([line, *_parameters(offer)])
    now = {offer["name"] for offer in offered}
    return changes + [[f"  {_line(name)} is gone"] for name in then if name not in now]


def _shown(offer: Offer, remark: str = "", parameters: bool = True) -> list[str]:
    description = offer["description"]
    line = f"  {_line(offer['name'])}" + (f": {_line(description)}" if description else "")
    return [line + remark, *(_parameters(offer) if parameters else ())]


def _parameters(offer: Offer) -> list[str]:
    """A line for each parameter of a tool that is described, inner ones too."""
    lines = [f"      {_line(name)}: {_line(text)}" for name, text in _texts(offer["parameters"])]
    more = len(lines) - _PARAMETERS
    return lines if more <= 0 else [*lines[:_PARAMETERS], f"      … and {more} more"]


def _texts(schema: Any, name: str = "", levels: int = _LEVELS) -> Iterator[tuple[str, str]]:
    """The descriptions in *schema*, each with the name of what it describes."""
    if levels == 0 or not isinstance(schema, Mapping | list):
        return
    if isinstance(schema, list):
        for item in schema:
            yield from _texts(item, name, levels - 1)
        return
    if isinstance(schema.get("description"), str):
        yield name or "(all)", schema["description"]
    for key, inner in schema.items():
        if key in ("properties", "patternProperties", "$defs", "definitions"):
            for own, item in inner.items() if isinstance(inner, Mapping) else ():
                yield from _texts(item, f"{name}.{own}" if name else str(own), levels - 1)
        elif key not in ("enum", "const", "default", "examples"):
            yield from _texts(inner, name, levels - 1)


def _line(text: str) -> str:
    """*text* on one line; of a long one the beginning, and how long it is."""
    line = printable(" ".join(text[: 4 * _WIDTH].split()))
    if len(line) <= _WIDTH and len(text) <= 4 * _WIDTH:
        return line
    return f"{line[:_WIDTH]}… ({len(text):,} characters)"


def _bounded(tools: Sequence[list[str]], count: int) -> list[str]:
    """The lines of the first of *count* *tools*, and how many more there are."""
    lines = [line for tool in tools[:_LINES] for line in tool]
    more = count - _LINES
    return lines if more <= 0 else [*lines, f"  … and {more} more; `server.tools` has all"]
