"""Tool calls as models write them: found in an answer, and demanded of one.

Invariant: what cannot be read as a call stays text. The ways of writing follow what the chat
templates of the models in use say: Hermes and Qwen, Qwen Coder, Mistral, Llama 3, and appl's own.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from appl.backend import Sampling, canonical
from appl.errors import Unsupported
from appl.prompt import ToolCall, digest_of

CALLED = "tool_calls"

Written = tuple[str, dict[str, Any]]
"""A call as it was read: the tool's name, and the arguments."""


@dataclass(frozen=True, slots=True)
class Style:
    """One way of writing calls.

    ``mark`` begins them in an answer, ``opening`` is put in front of an answer that must be one,
    ``arguments`` is the key of the arguments. ``listed`` calls stand in a JSON list, ``tagged``
    ones in XML; ``bare`` ones may stand without the mark, when nothing else does.
    """

    name: str
    mark: str
    opening: str
    arguments: str = "arguments"
    listed: bool = False
    tagged: bool = False
    bare: bool = False

    def content(self, text: str) -> str:
        """The text of an answer without its calls."""
        if self.mark in text:
            return text.partition(self.mark)[0].rstrip()
        return "" if self.bare and text.lstrip().startswith("{") else text

    def calls(self, text: str, tools: Mapping[str, Mapping[str, Any]]) -> list[Written]:
        """The calls in *text* of any of *tools*, by name; none where they cannot be read."""
        _, mark, body = text.partition(self.mark)
        if not mark:
            body = text if self.bare and text.lstrip().startswith("{") else ""
        if self.tagged:
            return [_untagged(name, inner, tools) for name, inner in _TAGGED.findall(body)]
        named = _NAMED.match(body)
        if self.listed and named is not None:
            found = _objects(body[named.end() - 1 :])
            return [(named[1], each) for each in found[:1]]
        return [call for each in _objects(body) if (call := self._call(each)) is not None]

    def _call(self, found: Mapping[str, Any]) -> Written | None:
        given = found.get(self.arguments, found.get("arguments", found.get("parameters")))
        name = found.get("name")
        return (name, given) if isinstance(name, str) and isinstance(given, dict) else None

    def demand(self, tools: Sequence[Mapping[str, Any]]) -> tuple[str, str | None]:
        """The beginning of an answer that must call one of *tools*, and the schema of the rest."""
        if self.tagged:
            only = f"{tools[0]['name']}>\n" if len(tools) == 1 else ""
            return self.opening + only, None
        each = [self._schema(tool) for tool in tools]
        one: dict[str, Any] = each[0] if len(each) == 1 else {"anyOf": each}
        listed = {"type": "array", "items": one, "minItems": 1}
        return self.opening, json.dumps(listed if self.listed else one)

    def _schema(self, tool: Mapping[str, Any]) -> dict[str, Any]:
        names = {"name": {"const": tool["name"]}, self.arguments: tool["parameters"]}
        return {
            "type": "object",
            "properties": names,
            "required": list(names),
            "additionalProperties": False,
        }


STYLES = (
    Style("coder", "<tool_call>", "<tool_call>\n<function=", tagged=True),
    Style("hermes", "<tool_call>", "<tool_call>\n"),
    Style("mistral", "[TOOL_CALLS]", "[TOOL_CALLS]", listed=True),
    Style("appl", "<|call|>", "<|call|>"),
    Style("llama", "<|python_tag|>", "", "parameters", bare=True),
)


def style_of(template: str) -> Style | None:
    """The style in which a model with this template writes calls, ``None`` if it knows no tools."""
    if "tools" not in template:
        return None
    for style in STYLES:
        if style.tagged and "<function=" not in template:
            continue
        if style.mark in template:
            return style
    return STYLES[-1] if '"parameters"' in template and '"name"' in template else None


@dataclass(frozen=True, slots=True)
class Offer:
    """The tools of a request; ``must``: the answer has to begin with a call of one of them."""

    style: Style
    tools: tuple[Mapping[str, Any], ...]
    must: bool
    content: bytes

    def opening(self) -> str:
        """The beginning of the answer that is given, not generated."""
        return self.style.demand(self.tools)[0] if self.must else ""

    def schema(self) -> str | None:
        """The JSON schema of the answer, where it has one."""
        return self.style.demand(self.tools)[1] if self.must else None

    def read(self, text: str, number: int) -> tuple[str, tuple[ToolCall, ...]]:
        """The text and the calls of sample *number*."""
        known = {tool["name"]: tool for tool in self.tools}
        written = self.style.calls(text, known)
        if not written:
            return text, ()
        calls = [
            ToolCall(self._id(number, at, call), call[0], json.dumps(call[1], ensure_ascii=False))
            for at, call in enumerate(written)
        ]
        return self.style.content(text), tuple(calls)

    def _id(self, number: int, at: int, call: Written) -> str:
        unique = digest_of(self.content, f"{number}.{at}", call[0], canonical(call[1]))
        return f"call_{unique.hex()[:16]}"


def offer_of(sampling: Sampling, style: Style | None, content: bytes, begun: bool) -> Offer | None:
    """The tools that *sampling* offers; ``None`` without any, or if the answer has *begun* as text.

    *content* is the digest of the question: calls get their ids from it. Raises ``Unsupported``.
    """
    if not sampling.tools or sampling.tool_choice == "none":
        return None
    if style is None:
        raise Unsupported("the chat template of this model knows no tools: leave out tools=")
    must = sampling.tool_choice not in (None, "auto")
    if begun and must:
        raise Unsupported("a begun answer cannot become a tool call: leave out tool_choice")
    tools = tuple(map(json.loads, sampling.tools))
    if must and sampling.tool_choice != "required":
        tools = tuple(tool for tool in tools if tool["name"] == sampling.tool_choice)
        if not tools:
            raise Unsupported(f"tool_choice names {sampling.tool_choice!r}, which is no tool here")
    return None if begun else Offer(style, tools, must, content)


_NAMED = re.compile(r"\s*([\w.-]+)\s*(?:\[ARGS\])?\s*\{")
_TAGGED = re.compile(r"<function=([^>\s]+)>(.*?)(?:</function>|\Z)", re.DOTALL)
_PARAMETER = re.compile(r"<parameter=([^>\s]+)>\n?(.*?)\n?(?:</parameter>|\Z)", re.DOTALL)


def _objects(text: str) -> list[dict[str, Any]]:
    """The JSON objects that stand in *text* one after another, up to what is none."""
    decoder = json.JSONDecoder()
    found: list[dict[str, Any]] = []
    at = text.find("{")
    while at >= 0:
        try:
            value, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            break
        found.append(value)
        at = text.find("{", end)
    return found


def _untagged(name: str, inner: str, tools: Mapping[str, Mapping[str, Any]]) -> Written:
    """A call in XML; a parameter that is no string by its schema is read as JSON."""
    schema = tools[name]["parameters"].get("properties", {}) if name in tools else {}
    return name, {
        key: value if schema.get(key, {}).get("type") == "string" else _value(value)
        for key, value in _PARAMETER.findall(inner)
    }


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
