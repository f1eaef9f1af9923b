"""Messages that hold futures: settled where a value is needed, lazy parts where it is not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from appl.prompt import UNFORMATTED, Filled, Message, PromptNode, Voice, parts_of
from appl.runtime.concurrency.future import finished
from appl.runtime.concurrency.promise import Proxy


def settled(value: Message | Mapping[str, Any]) -> Message:
    """*value* as a message, waiting for what is pending in it. Raises ``InvalidOption``."""
    # Few programs make messages themselves.
    from appl.prompt.message_input import as_content, as_message, source_of

    if isinstance(value, Mapping):
        data = {key: _finished(item) for key, item in value.items()}
        return as_message(data, source_of(value))
    if isinstance(value, Message) and type(value.content) is not str:
        text, media, further = as_content(_finished(value.content))
        further = value.provider_fields or further
        return replace(
            value.plain(), content=text, media=value.media or media, provider_fields=further
        )
    return as_message(value)


def _finished(value: object) -> Any:
    """*value* without futures, also in the parts of a content."""
    value = finished(value)
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, list | tuple):
        return [_finished(item) for item in value]
    return {k: _finished(v) for k, v in value.items()} if isinstance(value, dict) else value


def nodes_of_message(message: Message) -> list[PromptNode]:
    """*message* as parts of no prompt yet; a pending content is not waited for."""
    content = message.content
    if not isinstance(content, Proxy):
        return parts_of(message if type(content) is str else settled(message))
    part, voice = content._pending, Voice(message.role, message.name, UNFORMATTED)
    if message.whole:
        shape = replace(message.plain(), content="")
        return [PromptNode(None, voice, Filled(part, shape), apart=True)]
    return [PromptNode(None, voice, part)]
