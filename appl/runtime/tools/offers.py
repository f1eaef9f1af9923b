"""News of the tools that a server offers, for its user: new ones, and changed ones.

Invariant: a tool takes one line of bounded length, in which everything that is not printable is
written as an escape.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from appl.prompt import digest_of
from appl.runtime.reporter import printable

Offer = Mapping[str, Any]
"""A tool as a server offers it: its name, description, parameters and effect."""
Digests = Mapping[str, Sequence[str]]
"""By the name of a tool the digests of its description, and of its parameters and effect."""

_WIDTH, _LINES = 100, 20


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
    seen = memory.swap(identity, digests(offered)) if memory is not None else None
    changes = _changes(digests(recorded), offered) if recorded is not None else []
    if changes:
        why = "has changed since the recorded run, whose tools are offered"
        return [f"the MCP server {server!r} {why}:", *_bounded(changes)]
    if seen is None:
        count = f"{len(offered)} tool" + "s" * (len(offered) != 1)
        return [f"the MCP server {server!r} offers {count}:", *_bounded(map(_shown, offered))]
    changes = _changes(seen, offered)
    head = f"the MCP server {server!r} has changed since it was last used here:"
    return [head, *_bounded(changes)] if changes else []


def digests(offered: Sequence[Offer]) -> dict[str, list[str]]:
    """The digests of the tools in *offered*, by their names."""
    return {offer["name"]: [*_digests(offer)] for offer in offered}


def _digests(offer: Offer) -> tuple[str, str]:
    form = json.dumps([offer["parameters"], offer["effect"]], sort_keys=True)
    return digest_of("text", offer["description"]).hex(), digest_of("form", form).hex()


def _changes(then: Digests, offered: Sequence[Offer]) -> list[str]:
    """One line for each tool in *offered* that is not as *then*, or is not there any more."""
    lines = [_change(then.get(offer["name"]), offer) for offer in offered]
    now = {offer["name"] for offer in offered}
    gone = [f"  {_line(name)} is gone" for name in then if name not in now]
    return [line for line in lines if line] + gone


def _change(then: Sequence[str] | None, offer: Offer) -> str:
    if then is None:
        return f"{_shown(offer)} (new)"
    text, form = (a != b for a, b in zip(then, _digests(offer), strict=True))
    if text:
        return _shown(offer) + (
            " (another description and other parameters)" if form else " (another description)"
        )
    return f"  {_line(offer['name'])} (other parameters)" if form else ""


def _shown(offer: Offer) -> str:
    description = offer["description"]
    return f"  {_line(offer['name'])}" + (f": {_line(description)}" if description else "")


def _line(text: str) -> str:
    """*text* on one line; of a long one the beginning, and how long it is."""
    line = printable(" ".join(text[: 4 * _WIDTH].split()))
    if len(line) <= _WIDTH and len(text) <= 4 * _WIDTH:
        return line
    return f"{line[:_WIDTH]}… ({len(text):,} characters)"


def _bounded(lines: Any) -> list[str]:
    every = [*lines]
    more = len(every) - _LINES
    return every if more <= 0 else [*every[:_LINES], f"  … and {more} more; `server.tools` has all"]
