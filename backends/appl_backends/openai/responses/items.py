"""The items of OpenAI's Responses interface: messages as input, and answers as they are kept.

An answer with reasoning consists of several items, whose order counts. They are kept with the
message that holds their text: everything of them but that text and the arguments of its calls.

Invariant: the server and model that gave an item get it back as it was, in its place; an item that
could not be read without the server's memory is never sent.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from appl.prompt import Messages
from appl_backends.openai.dialects import Dialect

ITEMS = "response_items"
"""The field of a message that holds the items of an answer."""

_PLAIN = frozenset({"message", "function_call"})
_TEXTS = {"output_text": "text", "refusal": "refusal"}
"""The kinds of parts that are text of the model, each with the field that holds it."""


# -- answers


def kept_items(output: list[Any]) -> list[dict[str, Any]] | None:
    """The items of an answer without texts and arguments, which stand in its message.

    ``None`` where text and calls alone say the same. An item of reasoning that is neither
    encrypted nor written out is left out, with the ids of all others: they refer to it.
    """
    items = [item for item in output if isinstance(item, dict)]
    if _is_plain(items):
        return None
    found = [_kept(item) for item in items if _is_readable(item)]
    if len(found) < len(items):
        found = [item if _is_own(item) else _without(item, "id") for item in found]
        if _is_plain(found):
            return None
    return found


def _is_plain(items: list[dict[str, Any]]) -> bool:
    """True for text and then calls, neither of which says more than that."""
    kinds = [str(item.get("type")) for item in items]
    ordered = kinds == sorted(kinds, key=lambda kind: kind != "message")
    return set(kinds) <= _PLAIN and ordered and not any(item.get("phase") for item in items)


def _is_own(item: Mapping[str, Any]) -> bool:
    return item.get("type") not in _PLAIN


def _is_readable(item: Mapping[str, Any]) -> bool:
    if item.get("type") != "reasoning":
        return True
    return bool(item.get("encrypted_content") or item.get("content"))


def _kept(item: dict[str, Any]) -> dict[str, Any]:
    """*item* without what its message says, and without empty fields, which servers refuse."""
    found = {name: value for name, value in item.items() if value is not None}
    if item.get("type") == "function_call":
        return _without(found, "arguments", "call_id", "name")
    if item.get("type") == "message":
        parts = item.get("content") or []
        found["content"] = [_kept_part(part) for part in parts if isinstance(part, dict)]
    return found


def _kept_part(part: dict[str, Any]) -> list[Any]:
    """The length of the text of a *part*, and its other fields."""
    name = _TEXTS.get(str(part.get("type")), "")
    text = part.get(name)
    return [len(text) if isinstance(text, str) else 0, _without(part, name, "logprobs")]


def _without(fields: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if name not in names}


# -- input


class Items(Dialect):
    """Messages as items of the input.

    A speaker's name has no field: it stands before the text. A call has an id of 64 characters at
    most. https://github.com/vercel/ai/issues/5171
    """

    name = "responses"
    ids = re.compile(r".{1,64}", re.DOTALL)
    any_arguments = True
    text_part = "input_text"

    def text_field(self, written: dict[str, Any]) -> str | None:
        """The field with the text of an item; a model's own items are not marked."""
        if written.get("type") == "function_call_output":
            return "output"
        return "content" if written.get("role") in ("user", "system", "developer") else None

    def written(self, message: dict[str, Any], link: Messages) -> list[dict[str, Any]]:
        kept = message.pop(ITEMS, None)
        message, *_ = super().written(message, link)
        if message["role"] == "tool":
            return [_result(message)]
        if message["role"] == "assistant":
            return _answer(message, kept if isinstance(kept, list) else [])
        speaker = message.pop("name", None)
        content = message["content"]
        if isinstance(content, list):
            content = [_part(part) for part in content]
            if speaker:
                content.insert(0, {"type": "input_text", "text": f"{speaker}: "})
        elif speaker:
            content = f"{speaker}: {content}"
        return [{**message, "content": content}]


def _result(message: dict[str, Any]) -> dict[str, Any]:
    content = message["content"]
    output = [_part(part) for part in content] if isinstance(content, list) else content
    return {
        "type": "function_call_output",
        "call_id": message.get("tool_call_id", ""),
        "output": output or "",
    }


def _part(part: dict[str, Any]) -> dict[str, Any]:
    """A part of a message's content, in the words of this interface."""
    kind, more = part.get("type"), _without(part, "type", "text", "image_url")
    if kind == "text":
        return {"type": "input_text", "text": part["text"], **more}
    if kind == "image_url":
        shown = part["image_url"]
        return {
            "type": "input_image",
            "image_url": shown["url"],
            "detail": shown.get("detail", "auto"),
            **more,
        }
    return part


def _answer(message: dict[str, Any], kept: list[Any]) -> list[dict[str, Any]]:
    """An answer as items: those that were *kept*, with its text and calls in their places."""
    content, more = message.pop("content", None), _without(message, "role", "tool_calls")
    if isinstance(content, list):
        content = "".join([part.get("text", "") for part in content])
    text, calls = content or "", message.get("tool_calls", [])
    if more.get("name"):
        text = f"{more.pop('name')}: {text}" if not kept else text
    waiting = iter(calls)
    items = list(_restored(text, waiting, kept)) if kept else []
    if not kept and (text or not calls):
        items.append({"role": "assistant", "content": text, **_without(more, "name")})
    items += [_call(call, {"type": "function_call"}) for call in waiting]
    return items


def _restored(text: str, calls: Iterator[Any], kept: list[Any]) -> Iterator[dict[str, Any]]:
    """The items that were *kept*, with their texts and calls.

    The program may have said something before the answer in the same message, or a stop text may
    have cut the end of the answer off.
    """
    said = sum([part[0] for item in kept for part in _parts(item)])
    at = max(0, len(text) - said)
    if at:
        yield {"role": "assistant", "content": text[:at]}
    for item in kept:
        if item.get("type") == "message":
            parts = list[dict[str, Any]]()
            for length, part in _parts(item):
                name = _TEXTS.get(str(part.get("type")), "")
                parts.append({**part, name: text[at : at + length]} if name else part)
                at += length
            yield {**item, "content": parts}
        elif item.get("type") == "function_call":
            call = next(calls, None)
            if call is not None:
                yield _call(call, item)
        else:
            yield item


def _parts(item: Mapping[str, Any]) -> list[Any]:
    return item.get("content", []) if item.get("type") == "message" else []


def _call(call: dict[str, Any], item: Mapping[str, Any]) -> dict[str, Any]:
    function = call["function"]
    return {
        **item,
        "call_id": call["id"],
        "name": function["name"],
        "arguments": function["arguments"],
    }
