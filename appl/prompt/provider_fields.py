"""Fields of a message that only its provider understands, and wants back as they were.

Thought signatures, encrypted reasoning, marks of a cache: nothing here reads them. Invariant: they
are no part of what a message says, so no digest, order or value depends on them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from appl.errors import InvalidOption


@dataclass(frozen=True, slots=True)
class ProviderFields:
    """Further fields of a message, which go back to the server and model that gave them.

    ``fields`` is the JSON text of an object in the form of a chat message. Its ``tool_calls`` have
    an object for each call, and its ``content`` a list: of whole parts, or of pairs of a number of
    characters (0 for an image or a sound) and the further fields of that part. ``source`` is who
    gave them; those of the user, without a source, go to every server.
    """

    fields: str
    source: str = ""

    @classmethod
    def of(cls, fields: Mapping[str, Any], source: str = "") -> ProviderFields:
        """The *fields*, plain data, from *source*. Raises ``InvalidOption`` for other values."""
        try:
            text = json.dumps(fields, ensure_ascii=False, separators=(",", ":"))
        except (TypeError, ValueError, RecursionError) as error:
            raise InvalidOption(f"a field of a message holds plain data only: {error}") from None
        return cls(text, source)

    def are_for(self, server: str) -> bool:
        """True if they are sent to *server*."""
        return self.source in ("", server)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the fields, those of calls and parts too."""
        data = json.loads(self.fields)
        inner = [item for name in _INNER for item in _objects(data.get(name))]
        own = (name for name in data if name not in _INNER)
        return tuple(dict.fromkeys([*own, *(name for item in inner for name in item)]))

    def put_into(self, message: dict[str, Any]) -> None:
        """Add them to *message*, a dict in the form of chat completion servers."""
        for name, value in json.loads(self.fields).items():
            if name == "tool_calls":
                for call, more in zip(message.get(name, ()), value, strict=False):
                    merge(call, more or {})
            elif (
                name == "content"
                and isinstance(value, list)
                and all(isinstance(item, list) for item in value)
            ):
                message[name] = _with_parts(message[name], value)
            else:
                message[name] = value


_INNER = ("tool_calls", "content")


def _objects(listed: object) -> list[dict[str, Any]]:
    items = listed if isinstance(listed, list) else ()
    flat = [item[1] if isinstance(item, list) and len(item) == 2 else item for item in items]
    return [item for item in flat if isinstance(item, dict)]


def _with_parts(content: Any, pairs: Sequence[Any]) -> list[dict[str, Any]]:
    """The parts of *content*, text or a list, with the fields of *pairs*."""
    items = [{"type": "text", "text": content}] if isinstance(content, str) else content
    text = "".join(part["text"] for part in items if part["type"] == "text")
    media = iter([part for part in items if part["type"] != "text"])
    parts, at = list[dict[str, Any]](), 0
    for length, more in pairs:
        part = {"type": "text", "text": text[at : at + length]} if length else next(media)
        at += length
        merge(part, more)
        parts.append(part)
    return parts


def merge(into: dict[str, Any], more: Mapping[str, Any]) -> None:
    """Add *more* to *into*; where both have an object, that is merged."""
    for name, value in more.items():
        before = into.get(name)
        if isinstance(before, dict) and isinstance(value, Mapping):
            merge(before, value)
        else:
            into[name] = value
