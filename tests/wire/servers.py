"""The servers of the tests: each request that they get is held against what the real ones publish.

A test whose client sends what a real server would refuse fails when its server ends.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from appl import testing
from appl_backends.openai.servers import server_for
from tests.wire import anthropic_subset, openai_subset
from tests.wire.sdk_types import (
    anthropic_problems,
    embedding_problems,
    openai_problems,
    responses_problems,
)

PUBLISHED: Mapping[str, Callable[[Any], list[str]]] = {
    "openai": openai_subset.problems,
    "azure": lambda schema: openai_subset.problems(schema, openai_subset.AZURE_RULES),
    "other": openai_subset.problems,
}
"""The kinds of servers whose strict schemas are a subset, or may be; the others take any schema."""


class FaultServer(testing.FaultServer):
    """A server of *kind*, to which a user may give *fields* of his own, also in messages.

    With *gets* its script answers questions without a body, too. ``refusals`` are the requests that
    a real one would refuse, ``looked_at`` counts all of them.
    """

    def __init__(
        self,
        *args: Any,
        kind: str = "other",
        fields: Iterable[str] = (),
        gets: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(*args, **options)
        self._gets = gets
        self.refusals, self.looked_at, self._own_fields = list[str](), 0, set(fields)
        self.become(kind)

    def become(self, kind: str) -> None:
        """Refuse from now on what a server of *kind* refuses."""
        self.kind = kind
        self.fields = server_for(kind, None, (), ()).fields | self._own_fields

    def _asked(self, link: Any, method: str, path: str, headers: Any, body: bytes) -> None:
        self.look_at(path, headers, body)
        if self._gets and not body:
            method, body = "POST", b"{}"
        super()._asked(link, method, path, headers, body)

    def look_at(self, path: str, headers: Mapping[str, str], body: bytes) -> None:
        """Note what is wrong with a request."""
        wrong = problems(self.kind, self.fields, path, headers, body, self._own_fields)
        self.looked_at += wrong is not None
        self.refusals += [f"{self.kind} {path}: {each}" for each in wrong or ()]

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        if error[0] is None and self.refusals:
            raise AssertionError("a real server refuses:\n" + "\n".join(self.refusals[:20]))


def problems(
    kind: str,
    fields: Iterable[str],
    path: str,
    headers: Mapping[str, str],
    body: bytes,
    own: Iterable[str] = (),
) -> list[str] | None:
    """What a real server of *kind* refuses in a request, ``None`` for one of another interface."""
    if path.endswith("/chat/completions"):
        data = json.loads(body)
        data = {**data, "messages": _without(data.get("messages"), frozenset(own))}
        return openai_problems(_without_echo(data, kind), tuple(fields)) + _strict(data, kind)
    if path.endswith("/embeddings"):
        return embedding_problems(json.loads(body), ["output_dimension"] * (kind == "mistral"))
    if path.endswith("/responses"):
        data = json.loads(body)
        return responses_problems(data) + _strict_response(data)
    if path.endswith("/messages"):
        data = json.loads(body)
        return anthropic_problems(data, headers) + _structured(data)
    return None


def _strict(data: Any, kind: str) -> list[str]:
    """What is wrong with the strict schemas of a chat completion."""
    found = [data.get("response_format", {}).get("json_schema", {})]
    found += [tool.get("function", {}) for tool in data.get("tools", [])]
    strict = [each.get("schema", each.get("parameters")) for each in found if each.get("strict")]
    check = PUBLISHED.get(kind)
    return [problem for schema in strict if check for problem in check(schema)]


def _strict_response(data: Any) -> list[str]:
    """What is wrong with the strict schemas of a response."""
    found = [data.get("text", {}).get("format", {})]
    found += data.get("tools", [])
    strict = [each.get("schema", each.get("parameters")) for each in found if each.get("strict")]
    return [problem for schema in strict for problem in openai_subset.problems(schema)]


def _structured(data: Any) -> list[str]:
    """What is wrong with the schemas by which Anthropic is to constrain an answer."""
    format = data.get("output_format") or data.get("output_config", {}).get("format") or {}
    found = [format["schema"]] if format.get("type") == "json_schema" else []
    found += [tool["input_schema"] for tool in data.get("tools", []) if tool.get("strict")]
    return [problem for schema in found for problem in anthropic_subset.problems(schema)]


def _without(value: Any, names: frozenset[str]) -> Any:
    if isinstance(value, list):
        return [_without(each, names) for each in value]
    if not isinstance(value, dict):
        return value
    return {name: _without(each, names) for name, each in value.items() if name not in names}


ASSISTANT = ("role", "content", "name", "refusal", "audio", "function_call", "tool_calls")
CALL = ("id", "type", "function", "custom")


def _without_echo(data: Any, kind: str) -> Any:
    """*data* without the fields of the assistant's messages that such a server may itself have said.

    What OpenAI itself says there is in its type.
    """
    if kind in ("openai", "azure") or not isinstance(data, dict):
        return data
    return {**data, "messages": [_plain(message) for message in data.get("messages", [])]}


def _plain(message: Any) -> Any:
    if message.get("role") != "assistant":
        return message
    found = {name: message[name] for name in ASSISTANT if name in message}
    if found.get("tool_calls"):
        found["tool_calls"] = [
            {name: call[name] for name in CALL if name in call} for call in found["tool_calls"]
        ]
    return found
