"""Tools in the chat format: how they are announced, what a call may look like, how one is read.

Invariant: a call that ends by itself is valid JSON with the name of an offered tool, and its
arguments fit that tool's schema as far as the constraint library can express it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from appl.backend import Sampling
from appl.errors import Unsupported
from appl.prompt import ToolCall, digest_of
from appl_backends.embedded.constraint import JSON_STYLE, Constraint, Constraints

ANNOUNCEMENT = "You can use these tools:"
CALLED = "tool_calls"
_decoder = json.JSONDecoder()
_NAME, _ARGUMENTS = '{"name": ', ', "arguments": '


@dataclass(frozen=True, slots=True)
class ToolOffer:
    """The calls that a request may be answered with; ``must``: it has to be with one.

    ``content`` is the digest of what was asked: calls get their ids from it.
    """

    calls: Constraint
    must: bool
    content: bytes

    def call(self, written: str, sample: int) -> ToolCall:
        """The call in the text that sample number *sample* has *written*."""
        # Only the name: the arguments may hold a number of more digits than Python reads.
        name, end = _decoder.raw_decode(written, len(_NAME))
        start = end + len(_ARGUMENTS)
        unique = digest_of(self.content, str(sample), written).hex()[:16]
        return ToolCall(f"call_{unique}", name, written[start:-1])


def offer(
    sampling: Sampling, constraints: Constraints, begun: bool, content: bytes
) -> ToolOffer | None:
    """The tools that *sampling* offers; none where the answer has *begun* as text."""
    if not sampling.tools or sampling.tool_choice == "none":
        return None
    must = sampling.tool_choice not in (None, "auto")
    if begun:
        if must:
            raise Unsupported("a begun answer cannot become a tool call: leave out tool_choice")
        return None
    tools = [json.loads(text) for text in sampling.tools]
    if must and sampling.tool_choice != "required":
        tools = [tool for tool in tools if tool["name"] == sampling.tool_choice]
        if not tools:
            raise Unsupported(f"tool_choice names {sampling.tool_choice!r}, which is no tool here")
    return ToolOffer(_calls(tools, constraints), must, content)


def announced(tools: tuple[str, ...]) -> str:
    """The lines of the system message that announce *tools*."""
    return "\n".join([ANNOUNCEMENT, *map(_line, tools)])


def _line(text: str) -> str:
    tool = json.loads(text)
    shown = {key: tool.get(key, "") for key in ("name", "description", "parameters")}
    return json.dumps(shown, ensure_ascii=False)


# -- what a call may look like -----------------------------------------------------------------


def _calls(tools: list[dict[str, Any]], constraints: Constraints) -> Constraint:
    try:
        return constraints.of(_source(tools))
    except Unsupported:  # a keyword that the library does not know: such a tool is only sketched
        return constraints.of(_source([_known(tool, constraints) for tool in tools]))


def _known(tool: dict[str, Any], constraints: Constraints) -> dict[str, Any]:
    try:
        constraints.of(_source([tool]))
    except Unsupported:
        return {"name": tool["name"], "parameters": {"type": "object"}}
    return tool


def _source(tools: list[dict[str, Any]]) -> str:
    """A grammar of the calls of *tools*, one rule each, in the language of llguidance."""
    lines = ["start: " + " | ".join(f"call{i}" for i in range(len(tools)))]
    for i, tool in enumerate(tools):
        before = json.dumps(f"{_NAME}{json.dumps(tool['name'])}{_ARGUMENTS}")
        lines.append(f'call{i}: {before} arguments{i} "}}"')
        lines.append(f"arguments{i}: %json {json.dumps(_closed(tool['parameters']))}")
    return "\n".join(lines)


def _closed(schema: dict[str, Any]) -> dict[str, Any]:
    """*schema* without room for arguments that it does not name."""
    named = {"additionalProperties": False} if "properties" in schema else {}
    return {**named, **schema, "x-guidance": JSON_STYLE}
