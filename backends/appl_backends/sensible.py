"""The JSON of an answer without what a library would refuse it for: side fields that make no sense.

A library validates more than an answer needs, and throws the text away with a count that is wrong.
Invariant: texts, calls of tools and errors stay as they are.
"""

from __future__ import annotations

import math
from typing import Any

from appl.backend.check import count_of

_WORDS = frozenset({"id", "model", "object", "service_tier", "system_fingerprint"})
_COUNTED = ("usage", "usageMetadata")
"""Where the counts of OpenAI, Anthropic and Google stand."""


def sensible(data: Any) -> Any:
    """*data*, the same object where nothing in it is wrong."""
    if not isinstance(data, dict):
        return data
    found = dict(data)
    for name in _WORDS & found.keys():
        if not isinstance(found[name], str | None):
            del found[name]
    if "x_groq" in found:  # litellm finds no answer of Groq's without it
        found.setdefault("service_tier", None)
    if "created" in found and type(found["created"]) is not int:
        found["created"] = 0
    for name in _COUNTED:
        if name in found:
            _put(found, name, _counts(found[name]))
    if isinstance(message := found.get("message"), dict) and "usage" in message:  # Anthropic's
        message = dict(message)
        _put(message, "usage", _counts(message["usage"]))
        found["message"] = message
    if isinstance(choices := found.get("choices"), list):
        found["choices"] = [_choice(at, choice) for at, choice in enumerate(choices)]
    return data if found == data else found


def _put(into: dict[str, Any], name: str, value: Any) -> None:
    if value is None:
        into.pop(name)
    else:
        into[name] = value


def _counts(usage: Any) -> dict[str, Any] | None:
    """*usage* with the counts in it that are such."""
    if not isinstance(usage, dict):
        return None
    found: dict[str, Any] = {}
    for name, value in usage.items():
        if isinstance(value, dict) and name.endswith(("_details", "_creation", "tool_use")):
            found[name] = _counts(value)
        elif name.endswith(("_details", "_creation")):
            continue
        elif name == "cost":
            if type(value) in (int, float) and math.isfinite(value):
                found[name] = value
        elif not name.lower().endswith(("tokens", "count", "requests")):
            found[name] = value
        elif (count := count_of(value)) is not None:
            found[name] = count
    return found


def _choice(at: int, choice: Any) -> Any:
    if not isinstance(choice, dict):
        return choice
    found = dict(choice)
    if "index" in found and (type(found["index"]) is not int or found["index"] < 0):
        found["index"] = at
    if "finish_reason" in found:
        reason = found["finish_reason"]
        found["finish_reason"] = reason if isinstance(reason, str) and reason else None
    if not _are_logprobs(found.get("logprobs")):
        found["logprobs"] = None
    for name in ("message", "delta"):
        if isinstance(found.get(name), dict):
            found[name] = _message(found[name])
    return found


_TYPES: dict[str, type | tuple[type, ...]] = {
    "role": str,
    "refusal": str,
    "reasoning_content": str,
    "reasoning": str,
    "annotations": list,
    "audio": dict,
    "images": list,
    "thinking_blocks": list,
    "reasoning_items": list,
    "provider_specific_fields": dict,
}


def _message(message: dict[str, Any]) -> dict[str, Any]:
    found = dict(message)
    for name, kind in _TYPES.items():
        if found.get(name) is not None and not isinstance(found[name], kind):
            del found[name]
    if not all(map(_is_annotation, found.get("annotations") or ())):
        del found["annotations"]
    if "role" in found and found["role"] != "assistant":
        found["role"] = "assistant"
    return found


def _is_annotation(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("type"), str)


def _are_logprobs(logprobs: Any) -> bool:
    """True if *logprobs* are missing, or such of OpenAI's interface."""
    if logprobs is None:
        return True
    content = logprobs.get("content") if isinstance(logprobs, dict) else 0
    if not isinstance(content, list):
        return content is None
    return all(map(_is_token, content))


def _is_token(token: Any) -> bool:
    if not isinstance(token, dict) or not isinstance(token.get("token"), str):
        return False
    if type(token.get("logprob")) not in (int, float):
        return False
    octets, top = token.get("bytes"), token.get("top_logprobs", [])
    if octets is not None and not (
        isinstance(octets, list) and all(type(o) is int for o in octets)
    ):
        return False
    return isinstance(top, list) and all(_is_token(each) for each in top)
