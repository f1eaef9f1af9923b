"""Messages as plain data, and back, for files and databases.

Invariant: every field of a message comes back as it was, those of providers too; secrets are taken
out by the rules of traces.
"""

from __future__ import annotations

import base64
import json
from typing import Any, cast

from appl.errors import ConversationError
from appl.prompt import Message, ToolCall
from appl.prompt.media_types import Audio, Image
from appl.prompt.message import Placed, RoleName
from appl.prompt.provider_fields import ProviderFields
from appl.tracing.recording.secret import Masker

FORMAT = 1
_PROVIDED = "$provided"  # the masker leaves what has no words in it, such as signatures
_KINDS: dict[str, type[Image | Audio]] = {"image": Image, "audio": Audio}
_KEYS = frozenset(
    {"role", "content", "media", "tool_calls", "tool_call_id", "name", "has_error", _PROVIDED}
)


def data_of(message: Message, masker: Masker) -> dict[str, Any]:
    """*message* as plain data, without secrets; fields that are empty are left out."""
    data: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.media:
        data["media"] = [
            [offset, one.kind, one.url, one.as_base64(), one.mime, one.detail]
            for offset, one in message.media
        ]
    if message.tool_calls:
        data["tool_calls"] = [[call.id, call.name, call.arguments] for call in message.tool_calls]
    for name in ("tool_call_id", "name", "has_error"):
        if value := getattr(message, name):
            data[name] = value
    clean = cast("dict[str, Any]", masker.cleaned(data))
    if "media" in data:  # bytes of an image may look like anything
        clean["media"] = [
            [*masked[:3], whole[3], *masked[4:]]
            for masked, whole in zip(clean["media"], data["media"], strict=True)
        ]
    if (provided := message.provider_fields) is not None:
        fields = {_PROVIDED: [provided.source, json.loads(provided.fields)]}
        clean |= cast("dict[str, Any]", masker.cleaned(fields))
    return clean


def text_of(message: Message, masker: Masker) -> str:
    """*message* as one line of JSON."""
    return json.dumps(data_of(message, masker), separators=(",", ":"))


def message_from(data: Any, where: str) -> Message:
    """The message of ``data_of``. Raises ``ConversationError``, which names *where* it was."""
    try:
        return _message(data)
    except ConversationError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        kind = type(error).__name__
        raise ConversationError(
            f"{where} is damaged: a message in it is none ({kind}: {error!s:.80})"
        ) from None


def _message(data: Any) -> Message:
    if not isinstance(data, dict) or not data.keys() <= _KEYS:
        raise ValueError(f"unknown fields in {data!r:.80}")
    media: Placed = tuple(
        (offset, _KINDS[kind].restored(url, base64.b64decode(content), mime, detail))
        for offset, kind, url, content, mime, detail in data.get("media", ())
    )
    if not all(type(offset) is int for offset, _ in media):
        raise TypeError("the place of an image is no number")
    calls = tuple(ToolCall(*map(_text, call)) for call in data.get("tool_calls", ()))
    provided = data.get(_PROVIDED)
    fields = None if provided is None else ProviderFields.of(dict(provided[1]), _text(provided[0]))
    return Message(
        cast(RoleName, data["role"]),
        _text(data["content"]),
        media,
        calls,
        data.get("tool_call_id"),
        data.get("name"),
        bool(data.get("has_error", False)),
        fields,
    )


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"a text is {type(value).__name__}")
    return value
