"""Explicit messages: what ``gen(messages=...)`` is given, as a prompt.

Invariant: each message stays a message of its own, where it stands; what is pending in it is not
waited for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, cast

from appl.errors import InvalidOption
from appl.prompt import Message, Messages, Node, Prompt
from appl.runtime.context import PromptRecords
from appl.runtime.conversation import Conversation
from appl.runtime.frame import Scribe
from appl.runtime.future import Generation, finished
from appl.runtime.messages import said_by, settled
from appl.runtime.pending import Proxy

Said = Conversation | PromptRecords | Scribe | Iterable[Message | Mapping[str, Any]] | str


def said_to(messages: Said) -> tuple[Node | None, Messages | None]:
    """The prompt of *messages*: rendered if all is there, else with its pending parts."""
    if isinstance(messages, Generation):
        messages = [{"role": "user", "content": messages}]
    messages = finished(messages)
    if isinstance(messages, Scribe):
        return messages.prompt.tip, None
    if isinstance(messages, str):
        return None, Messages.of([Message("user", str.__str__(messages))])
    if isinstance(messages, PromptRecords):
        prompt = Prompt()
        prompt.extend(messages.nodes())
        return prompt.tip, None
    if isinstance(messages, Conversation):
        return None, messages.chain
    every = [_kept(message) for message in _listed(messages)]
    if any(isinstance(message.content, Proxy) for message in every):
        return _prompt(every), None
    return None, Messages.of(every)


def _listed(messages: Any) -> list[Any]:
    if isinstance(messages, Message | Mapping):
        return [messages]
    if not isinstance(messages, Iterable):
        raise InvalidOption(f"gen(messages=...) takes text or a list, got {messages!r:.80}")
    return [finished(message) for message in messages]


def _kept(message: Any) -> Message:
    """*message* as a message; a content that is pending stays so."""
    if isinstance(message, Mapping) and isinstance(content := message.get("content"), Proxy):
        return replace(settled({**message, "content": ""}), content=cast(Any, content))
    if isinstance(message, Message) and isinstance(message.content, Proxy):
        return message
    return settled(message)


def _prompt(every: list[Message]) -> Node | None:
    tip: Node | None = None
    for message in every:
        for node in said_by(message):
            tip = node.after(tip, apart=node.starts)
            if isinstance(message.content, Proxy):
                message.content._pending.keep("")
    return tip
