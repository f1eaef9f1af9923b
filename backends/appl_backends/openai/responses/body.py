"""A request as the JSON body of a response.

Invariant: as in the body of a chat completion, what is the same for many requests is encoded once:
messages with their links of the conversation, and what the sampling determines with the sampling.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from appl.backend import Request, Sampling
from appl.errors import Unsupported
from appl_backends.openai.body import (
    CHOICES,
    asks_for_any_object,
    cache_rule,
    going_on,
    is_begun,
    planned_messages,
    utf8,
)
from appl_backends.openai.responses.items import Items
from appl_backends.openai.servers import ServerKind
from appl_backends.openai.strict_schema import strict_schema
from appl_backends.prompt_cache import key_of, plan_for

OPTIONS = frozenset(
    {
        "background",
        "extra_body",
        "metadata",
        "parallel_tool_calls",
        "prompt_cache_key",
        "reasoning_effort",
        "safety_identifier",
        "service_tier",
        "store",
        "user",
        "verbosity",
    }
)
"""The further options of ``gen`` that this interface takes."""

SHARED = frozenset(
    """
    metadata model parallel_tool_calls prompt_cache_key prompt_cache_options prompt_cache_retention
    safety_identifier service_tier store stream temperature tool_choice tools top_logprobs top_p
    user
""".split()
)
"""The fields of a body that the chat interface has, too."""

FIELDS = SHARED.union(
    """
    background context_management conversation include input instructions max_output_tokens
    max_tool_calls moderation previous_response_id prompt reasoning stream_options text truncation
""".split()
)
"""All fields of a body."""

ENCRYPTED, LOGPROBS = "reasoning.encrypted_content", "message.output_text.logprobs"
NO_REASONING = re.compile(r"(?:ft:)?(?:gpt-[34]|chatgpt-4|codex-mini-0|davinci|babbage)")
"""Models that do not reason, and refuse to be asked for what they reasoned."""

_ITEMS = Items()
_known: dict[tuple[object, ...], tuple[dict[str, Any], bytes]] = {}
_MOST = 1024
_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


class Text(str):
    """JSON text, which is put in as it is."""

    __slots__ = ()


def body_of(
    request: Request, model: str, server: ServerKind, source: str = "", *, stream: bool = False
) -> list[bytes]:
    """The pieces of the body that asks *server* for *request*. Raises ``Unsupported``.

    Messages have the items that *source*, the server and model that are asked, gave them before.
    """
    sampling, prompt = request.sampling, request.messages
    plan = None
    if request.reuse is not None and server.takes_cache_key:
        plan = plan_for(request, cache_rule(server, model))
    messages = planned_messages(prompt, source, _ITEMS, plan)
    if prompt is not None and prompt.outline.role == "assistant" and is_begun(prompt):
        messages, _ = going_on(messages, prompt, sampling, server, source, _ITEMS)
    fields, head = _fields(sampling, model, server)
    if sampling.schema is not None and asks_for_any_object(sampling, b"".join(messages).decode()):
        text = {**fields.get("text", {}), "format": {"type": "json_object"}}
        head = _head({**fields, "text": text})
    tail = ',"stream":true' if stream else ""
    if server.takes_cache_key and "prompt_cache_key" not in fields:
        tail += f',"prompt_cache_key":"{key_of(prompt)}"'
    if plan is not None and plan.mode is not None and "prompt_cache_options" not in fields:
        tail += f',"prompt_cache_options":{{"mode":"{plan.mode}"}}'
    return [head, *messages, utf8(f"{tail}}}")]


def _fields(sampling: Sampling, model: str, server: ServerKind) -> tuple[dict[str, Any], bytes]:
    """The fields that *sampling* alone determines, and the body up to the messages."""
    key = sampling.canonical(), model, server.kind, server.features
    found = _known.get(key)
    if found is None:
        if len(_known) >= _MOST:
            _known.clear()
        fields = _with_options({"model": model, **dict(_given(sampling, model, server))}, sampling)
        found = _known[key] = fields, _head(fields)
    return found


def _head(fields: dict[str, Any]) -> bytes:
    text = ",".join([f'"{name}":{_written(value)}' for name, value in fields.items()])
    return utf8(f'{{{text},"input":')


def _written(value: Any) -> str:
    """*value* as JSON, in which parts may be JSON text already."""
    if isinstance(value, Text):
        return value
    if isinstance(value, dict):
        return "{" + ",".join([f"{_json(k)}:{_written(v)}" for k, v in value.items()]) + "}"
    return "[" + ",".join(map(_written, value)) + "]" if isinstance(value, list) else _json(value)


def _given(sampling: Sampling, model: str, server: ServerKind) -> Iterator[tuple[str, Any]]:
    yield "store", False
    include = [] if NO_REASONING.match(model) else [ENCRYPTED]
    if sampling.logprobs is not None:
        include.append(LOGPROBS)
        yield "top_logprobs", sampling.logprobs
    if include:
        yield "include", include
    if sampling.max_tokens is not None:
        yield "max_output_tokens", sampling.max_tokens
    for name in ("temperature", "top_p"):
        if getattr(sampling, name) is not None:
            yield name, getattr(sampling, name)
    if sampling.tools:
        yield "tools", [Text(f'{{"type":"function","strict":false,{t[1:]}') for t in sampling.tools]
        choice = sampling.tool_choice
        if choice is not None:
            named = {"type": "function", "name": choice}
            yield "tool_choice", choice if choice in CHOICES else named
    if sampling.schema is not None:
        schema, strict = strict_schema(sampling.schema, server.strict_subset)
        form = {"type": "json_schema", "name": "answer", "schema": Text(schema), "strict": strict}
        yield "text", {"format": form}


_NESTED = {"reasoning_effort": ("reasoning", "effort"), "verbosity": ("text", "verbosity")}
"""The options that are fields of a field."""


def _with_options(fields: dict[str, Any], sampling: Sampling) -> dict[str, Any]:
    """*fields* with the further options; the user's own fields are merged into objects."""
    for name, value in sampling.extra:
        if name == "extra_body":
            continue
        outer, inner = _NESTED.get(name, (name, ""))
        fields[outer] = {**fields.get(outer, {}), inner: value} if inner else value
    own = dict(sampling.extra).get("extra_body", {})
    if not isinstance(own, dict):
        raise Unsupported(f"extra_body takes a table of fields, got {own!r:.80}")
    for name, value in own.items():
        before = fields.get(name)
        if isinstance(before, dict) and isinstance(value, dict):
            value = {**before, **value}
        elif isinstance(before, list) and isinstance(value, list):
            value = [*before, *[each for each in value if each not in before]]
        fields[str(name)] = value
    return fields
