"""Messages as programs and servers give them: by class, in parts, as dicts of chat servers.

Invariant: what is no message is refused where it is given, with what to write instead.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, NamedTuple, cast

from appl.errors import InvalidOption, nearest
from appl.prompt.media import Media, as_media
from appl.prompt.message import (
    NO_CONTENT,
    ROLES,
    Message,
    Placed,
    RoleName,
    ToolCall,
    wrong_content,
)
from appl.prompt.provider_fields import ProviderFields

Content = str | Media | list[Any] | tuple[Any, ...] | None
"""What a message can be made of: text, an image or a sound, or a list of these."""


class _Said(Message):
    """A message whose class fixes its role; a statement ``UserMessage("…")`` adds it.

    *content* is text, an image or a sound, or a list of these; texts in it follow one another as
    they are. *role* may repeat the role; another one is an ``InvalidOption``.
    """

    __slots__ = ()
    kind: ClassVar[RoleName]

    def __init__(
        self, content: Content = "", *, role: object = None, name: str | None = None, **more: Any
    ) -> None:
        role_name = getattr(role, "type", role)
        if role_name not in (None, self.kind):
            raise InvalidOption(
                f"{type(self).__name__} has the role {self.kind!r}, not {role_name!r}"
            )
        text, media, further = as_content(content)
        if further is not None:
            more["provider_fields"] = further
        name = name or getattr(role, "name", None)
        super().__init__(self.kind, text, media, name=name, **more)


class SystemMessage(_Said):
    """A message of the system; all of them stand together at the front of the conversation."""

    __slots__ = ()
    kind = "system"


class UserMessage(_Said):
    """A message of the user."""

    __slots__ = ()
    kind = "user"


class AIMessage(_Said):
    """A message of the model; *tool_calls* are the tools that it wants to be called."""

    __slots__ = ()
    kind = "assistant"

    def __init__(
        self,
        content: Content = "",
        *,
        tool_calls: Iterable[ToolCall | Mapping[str, Any]] = (),
        role: object = None,
        name: str | None = None,
        provider_fields: ProviderFields | None = None,
    ) -> None:
        is_one = isinstance(tool_calls, str | Mapping)
        if tool_calls is not None and (is_one or not isinstance(tool_calls, Iterable)):
            raise InvalidOption(f"tool_calls takes a list of ToolCall(...), got {tool_calls!r:.80}")
        calls = tuple(map(as_tool_call, tool_calls or ()))
        super().__init__(
            content, role=role, name=name, tool_calls=calls, provider_fields=provider_fields
        )


class AnswerMessage(AIMessage):
    """An answer as a message: ``str`` gives its text, without the speaker."""

    __slots__ = ()

    def __str__(self) -> str:
        return self.shown

    def __contains__(self, text: str) -> bool:
        return text in self.shown


class ToolMessage(_Said):
    """The result of the tool call *tool_call_id*; *has_error* says that the tool failed."""

    __slots__ = ()
    kind = "tool"

    def __init__(
        self,
        content: Content = "",
        tool_call_id: str | None = None,
        has_error: bool = False,
        *,
        role: object = None,
        name: str | None = None,
    ) -> None:
        super().__init__(
            content, role=role, name=name, tool_call_id=tool_call_id or None, has_error=has_error
        )


_PARTS = "text, image_url, input_audio and audio_url"


class MessageContent(NamedTuple):
    """A content as text, the images and sounds in it, and the further fields of its parts."""

    text: Any
    media: Placed = ()
    provider_fields: ProviderFields | None = None


def as_content(content: Content) -> MessageContent:
    """*content* in its parts; a future is kept as it is."""
    if content is None:
        return MessageContent("")
    if isinstance(content, NO_CONTENT):
        raise wrong_content(content)
    if not isinstance(content, list | tuple):
        medium = as_media(content)
        return MessageContent(content) if medium is None else MessageContent("", ((0, medium),))
    texts: list[str] = []
    media: list[tuple[int, Media]] = []
    pairs: list[tuple[int, Mapping[str, object]]] = []
    length = 0
    for piece in content:
        part, more = _part(piece)
        if isinstance(part, str):
            texts.append(part)
            length += len(part)
            pairs += [(len(part), more)] if part else []
        else:
            media.append((length, part))
            pairs.append((0, more))
    further = ProviderFields.of({"content": pairs}) if any(more for _, more in pairs) else None
    return MessageContent("".join(texts), tuple(media), further)


_NOTHING_MORE: Mapping[str, object] = {}


def _part(value: object) -> tuple[str | Media, Mapping[str, object]]:
    """One of a list of parts, text, an image or a sound, and its fields that are none of these."""
    if isinstance(value, str):
        return str.__str__(value), _NOTHING_MORE
    medium = as_media(value)
    if medium is not None:
        return medium, _NOTHING_MORE
    if not isinstance(value, Mapping):
        raise wrong_content(value)
    kind = value.get("type")
    body = value.get(kind) if isinstance(kind, str) else None
    more = {key: field for key, field in value.items() if key not in ("type", kind)}
    if kind == "text" and isinstance(body, str):
        return str.__str__(body), more
    if isinstance(body, str):
        body = {"url": body}
    if not isinstance(body, Mapping):
        body = {}
    body_keys = _BODIES.get(str(kind), ())
    inner = {key: field for key, field in body.items() if key not in body_keys}
    if inner:
        more[str(kind)] = inner
    from appl.prompt.media_types import Audio, Image

    if kind == "image_url" and isinstance(body.get("url"), str):
        return Image(body["url"], body.get("detail")), more
    if kind == "audio_url" and isinstance(body.get("url"), str):
        return Audio.from_url(body["url"]), more
    if kind == "input_audio" and isinstance(body.get("data"), str):
        return Audio(body["data"], body.get("format") or ""), more
    raise InvalidOption(f"a part of a message is one of {_PARTS}, got {value!r:.120}")


_BODIES = {
    "image_url": ("url", "detail"),
    "audio_url": ("url",),
    "input_audio": ("data", "format"),
}
"""The fields of each kind of part that an image or a sound holds."""


def as_tool_call(value: ToolCall | Mapping[str, object]) -> ToolCall:
    """*value* as a tool call; a dict has the form of chat completion servers."""
    if isinstance(value, ToolCall):
        return value
    function = value.get("function") if isinstance(value, Mapping) else None
    if isinstance(function, Mapping) and isinstance(function.get("name"), str):
        arguments = function.get("arguments") or ""
        if isinstance(arguments, str):
            return ToolCall(str(value.get("id") or ""), function["name"], arguments)
    raise InvalidOption(
        'a tool call is ToolCall(id, name, arguments) or {"id": ..., "function": {"name": ..., '
        f'"arguments": "..."}}}}, got {value!r:.120}'
    )


class MessageData(dict[str, Any]):
    """A message as a dict, which knows who gave the fields of a provider in it."""

    __slots__ = ("source",)
    source: str

    @classmethod
    def of(cls, message: Message) -> MessageData:
        """The data of *message*."""
        data, provided = cls(message.as_dict()), message.provider_fields
        data.source = provided.source if provided is not None else ""
        return data


_KEYS = frozenset({"role", "content", "name", "tool_calls", "tool_call_id"})
_CALL_KEYS, _FUNCTION_KEYS = frozenset({"id", "type", "function", "index"}), ("name", "arguments")


def as_message(value: Message | Mapping[str, Any], source: str = "") -> Message:
    """*value* as a message; a dict has the form of chat completion servers.

    It needs ``role`` and ``content``; the content may be text or a list of parts, and may be
    missing where there are tool calls. *source* is who gave its further fields. Raises
    ``InvalidOption``.
    """
    if isinstance(value, Message):
        return value
    if not isinstance(value, Mapping):
        raise InvalidOption(
            'messages are a list of UserMessage("..."), AIMessage("..."), ... or of '
            f'{{"role": "user", "content": "..."}}, got {value!r:.80} in it'
        )
    role = "system" if value.get("role") == "developer" else value.get("role")
    listed = value.get("tool_calls") or ()
    calls = tuple(map(as_tool_call, listed))
    text, media, further = as_content(value.get("content"))
    if role not in ROLES or (value.get("content") is None and not calls):
        roles = ", ".join(ROLES)
        raise InvalidOption(
            f"a message needs a role of {roles} and text or a list of parts as content, "
            f"got {dict(value)!r:.200}"
        )
    return Message(
        cast(RoleName, role),
        text,
        media,
        calls,
        value.get("tool_call_id") or None,
        value.get("name") or None,
        provider_fields=_further(value, listed, further, source or source_of(value)),
    )


def source_of(value: Mapping[str, Any]) -> str:
    """The provider that gave the fields in *value*; "" if it is not known."""
    return value.source if isinstance(value, MessageData) else ""


def _further(
    message: Mapping[str, Any], calls: Iterable[Any], of_parts: ProviderFields | None, source: str
) -> ProviderFields | None:
    """The fields of *message*, of its *calls* and of its parts that are nothing else here."""
    fields = {key: value for key, value in message.items() if key not in _KEYS and _says(value)}
    for key in fields:
        if hint := nearest(str(key), _KEYS, 0.8):
            raise InvalidOption(f"a message has no field {key!r}{hint}, got {dict(message)!r:.200}")
    of_calls = list[dict[str, Any]]()
    for call in calls:
        rest = {} if isinstance(call, ToolCall) else call
        more = {key: v for key, v in rest.items() if key not in _CALL_KEYS and _says(v)}
        function = rest.get("function", {}).items()
        if inner := {key: v for key, v in function if key not in _FUNCTION_KEYS and _says(v)}:
            more["function"] = inner
        of_calls.append(more)
    if any(of_calls):
        fields["tool_calls"] = of_calls
    if of_parts is not None:
        fields |= json.loads(of_parts.fields)
    return ProviderFields.of(fields, source) if fields else None


def _says(value: object) -> bool:
    """True unless a field of this *value* might as well be missing."""
    return value is not None and value != "" and value != [] and value != {}
