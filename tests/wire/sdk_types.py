"""Requests held against the types of the official SDKs of OpenAI and Anthropic.

A field that the type does not have is a problem, at every depth, and so is a value of another type.
The SDKs themselves check nothing of the kind: they send what they are given.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Mapping
from typing import Any

import pydantic
import pydantic_core

STRUCTURED_OUTPUTS = "structured-outputs-2025-11-13"
"""The beta under which ``output_format`` is taken, which ``output_config.format`` has replaced.

"The old beta header and output_format parameter will continue working for a transition period":
https://platform.claude.com/docs/en/build-with-claude/structured-outputs
"""


SAMPLING = frozenset({"temperature", "top_p", "top_k"})
"""What Anthropic's older models take, though its newest types do not have it; litellm knows which."""


def openai_problems(body: Any, fields: Collection[str] = ()) -> list[str]:
    """What OpenAI's type of a chat completion does not allow in *body*, but for *fields*."""
    from openai.types.chat import completion_create_params as types  # it takes a second

    streams = isinstance(body, dict) and body.get("stream") is True
    kind = "CompletionCreateParams" + ("Streaming" if streams else "NonStreaming")
    return _problems(_validator(getattr(types, kind)), body, fields)


def responses_problems(body: Any) -> list[str]:
    """What OpenAI's type of a response does not allow in *body*."""
    from openai.types.responses import response_create_params as types

    streams = isinstance(body, dict) and body.get("stream") is True
    kind = "ResponseCreateParams" + ("Streaming" if streams else "NonStreaming")
    return _problems(_validator(getattr(types, kind)), body, ())


def embedding_problems(body: Any, fields: Collection[str] = ()) -> list[str]:
    """What OpenAI's type of a question for embeddings does not allow in *body*, but for *fields*."""
    from openai.types.embedding_create_params import EmbeddingCreateParams

    return _problems(_validator(EmbeddingCreateParams), body, fields)


def anthropic_problems(body: Any, headers: Mapping[str, str]) -> list[str]:
    """What Anthropic's type of a message does not allow in *body*."""
    from anthropic.types import beta
    from anthropic.types.beta import message_create_params as types

    streams = isinstance(body, dict) and body.get("stream") is True
    kind = "MessageCreateParams" + ("Streaming" if streams else "NonStreaming")
    validator = _validator(getattr(types, kind))
    if STRUCTURED_OUTPUTS in headers.get("anthropic-beta", "") and "output_format" in body:
        form = _validator(beta.BetaJSONOutputFormatParam)
        return [
            *_problems(form, body["output_format"], ()),
            *_problems(validator, body, {"output_format", *SAMPLING}),
        ]
    return _problems(validator, body, SAMPLING)


def _problems(
    validator: pydantic_core.SchemaValidator, body: Any, fields: Collection[str]
) -> list[str]:
    if not isinstance(body, dict):
        return ["the body is no object"]
    known = {name: value for name, value in body.items() if name not in fields}
    try:
        validator.validate_python(known, strict=True)
    except pydantic_core.ValidationError as error:
        return [f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors()]
    return []


@functools.cache
def _validator(kind: Any) -> pydantic_core.SchemaValidator:
    return pydantic_core.SchemaValidator(_closed(pydantic.TypeAdapter(kind).core_schema))


def _closed(schema: Any) -> Any:
    """The core schema *schema* with closed dictionaries, and lists where the SDK says "iterable"."""
    if isinstance(schema, list | tuple):
        return type(schema)(_closed(each) for each in schema)
    if not isinstance(schema, dict):
        return schema
    found = {name: _closed(each) for name, each in schema.items()}
    if found.get("type") == "typed-dict" and "extras_schema" not in found:
        found["extra_behavior"] = "forbid"
    if found.get("type") == "generator":  # it would be looked at by whoever reads it, and by nobody
        found["type"] = "list"
    return found
