"""Explicit messages: what ``gen(messages=...)`` is given, as a prompt.

Invariant: each message stays a message of its own, where it stands; what is pending in it is not
waited for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, cast

from appl.errors import InvalidOption
from appl.prompt import Message, Messages, Prompt, PromptNode
from appl.runtime.concurrency.future import Generation, finished
from appl.runtime.concurrency.promise import Proxy
from appl.runtime.frame import PromptWriter
from appl.runtime.prompts.context import PromptRecords
from appl.runtime.prompts.conversation import Conversation
from appl.runtime.prompts.messages import nodes_of_message, settled
from appl.runtime.prompts.recent import Recent

PromptSource = (
    Conversation | PromptRecords | PromptWriter | Iterable[Message | Mapping[str, Any]] | str
)


def explicit_prompt(
    messages: PromptSource, recent: Recent
) -> tuple[PromptNode | None, Messages | None]:
    """The prompt of *messages*: rendered if all is there, else with its pending parts.

    What *recent* has of it already is taken from there.
    """
    if isinstance(messages, Generation):
        messages = [{"role": "user", "content": messages}]
    messages = finished(messages)
    if isinstance(messages, PromptWriter):
        return messages.prompt.tip, None
    if isinstance(messages, str):
        return None, Messages.of([Message("user", str.__str__(messages))])
    if isinstance(messages, PromptRecords):
        prompt = Prompt()
        prompt.extend(messages.nodes())
        return prompt.tip, None
    if isinstance(messages, Conversation):
        return None, messages.chain
    items = _listed(messages)
    beginning = recent.beginning(items)
    try:
        originals = items[len(beginning) :]
        fresh = [_as_message(finished(message)) for message in originals]
        chain = beginning.links[-1] if beginning else None
        if any(isinstance(message.content, Proxy) for message in fresh):
            return _prompt([*(chain or ()), *fresh]), None
        steady = True  # as far as the messages will be recognised when they come another time
        for original, message in zip(originals, fresh, strict=True):
            chain = Messages(chain, message.plain(), message.whole)
            steady = steady and beginning.add(original, chain)
        return None, chain
    finally:
        recent.remember(beginning)


def _listed(messages: object) -> list[object]:
    if isinstance(messages, Message | Mapping):
        return [messages]
    if not isinstance(messages, Iterable):
        raise InvalidOption(f"gen(messages=...) takes text or a list, got {messages!r:.80}")
    items = list(messages)
    if not items:
        raise InvalidOption(
            'gen(messages=[]) says nothing: write gen(messages="..."), or leave it out to continue '
            "the prompt of the running function"
        )
    return items


def _as_message(message: Any) -> Message:
    """*message* as a message; a content that is pending stays so."""
    if isinstance(message, Mapping) and isinstance(content := message.get("content"), Proxy):
        return replace(settled({**message, "content": ""}), content=cast(Any, content))
    if isinstance(message, Message) and isinstance(message.content, Proxy):
        return message
    return settled(message)


def _prompt(every: list[Message]) -> PromptNode | None:
    tip: PromptNode | None = None
    for message in every:
        for node in nodes_of_message(message):
            tip = node.after(tip, apart=node.starts)
            if isinstance(message.content, Proxy):
                message.content._pending.keep("")
    return tip
