"""A caller's prompt as it is sent to a worker: its parts, with the answers that they waited for.

Invariant: the worker renders what would have been rendered here, and the prompt refers to the same
calls; a part that failed here fails there too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from appl.prompt import (
    VOICES,
    Message,
    Prompt,
    PromptNode,
    PromptSlot,
    ProviderFields,
    Voice,
    moved,
)
from appl.prompt.lazy import Lazy, message_of, origin_of, provided_with
from appl.prompt.origin import Origin, line_of
from appl.runtime.concurrency.promise import Error, Promise, Value

Answer = str | Message | BaseException


@dataclass(frozen=True, slots=True)
class SentPart:
    """One part: its role, its content, and the calls that it answers."""

    voice: Voice
    part: Any
    starts: bool
    apart: bool
    site: Origin
    answered_by: tuple[str, ...] | None = None


class AnsweredPart(Promise):
    """A part that the driver has already waited for: it is complete on the worker."""

    __slots__ = ("_answers", "_message")

    def __init__(self, addresses: tuple[str, ...], content: Answer) -> None:
        super().__init__(addresses[0] if addresses else "", None)
        self._answers = addresses
        self._message = content if isinstance(content, Message) else None
        failed = isinstance(content, BaseException)
        self.outcome = Error(content) if isinstance(content, BaseException) else Value(content)
        self.delivered = self.looked = True
        assert failed or isinstance(content, str | Message)

    def prompt_text(self) -> str:
        return self._message.content if self._message is not None else super().prompt_text()

    def prompt_message(self) -> Message | None:
        return self._message if self._message is not None and self._message.whole else None

    def prompt_provided(self) -> ProviderFields | None:
        return self._message.provider_fields if self._message is not None else None

    def answered_by(self) -> tuple[str, ...]:
        return self._answers


def unready(tip: PromptNode | None) -> Iterator[Promise]:
    """The parts to wait for, one after the other, before the prompt can be sent."""
    while tip is not None and (lazy := tip.first_waiting()) is not None:
        source = lazy.prompt_source()
        assert isinstance(source, Promise)
        yield source


def sent(tip: PromptNode | None) -> list[SentPart]:
    """The parts of the prompt up to *tip*. Every part must be complete."""
    return [
        sent_part
        for node in (tip.since(None) if tip is not None else ())
        for sent_part in _of(node)
    ]


def _of(node: PromptNode) -> Iterator[SentPart]:
    if isinstance(node.part, PromptSlot):
        for inner in moved(node.part.prompt_nodes(), node.part.voice, node.voice):
            yield from _of(inner)
    elif node.lazy is None:
        yield SentPart(node.voice, node.part, node.starts, node.apart, line_of(node.site))
    else:
        source = node.lazy.prompt_source()
        addresses = source.answered_by() if isinstance(source, Promise) else ()
        source_address = origin_of(node.lazy)
        if source_address is not None and addresses[:1] != (source_address,):
            addresses = (
                source_address,
                *(address for address in addresses if address != source_address),
            )
        yield SentPart(
            node.voice, _content(node.lazy), node.starts, node.apart, line_of(node.site), addresses
        )


def _content(part: Lazy) -> Answer:
    try:
        text, provided = part.prompt_text(), provided_with(part)
        if provided is not None and message_of(part) is None:
            return Message("assistant", text, provider_fields=provided)
        return message_of(part) or text
    except Exception as error:
        return error


def received(parts: list[SentPart]) -> Prompt:
    """The prompt made of *parts*."""
    prompt, voices = Prompt(), {voice: voice for voice in VOICES.values()}
    for sent_part in parts:
        voice = voices.setdefault(sent_part.voice, sent_part.voice)  # they are compared by identity
        part = sent_part.part
        if sent_part.answered_by is not None:
            part = AnsweredPart(sent_part.answered_by, part)
        prompt.tip = PromptNode(
            prompt.tip,
            voice,
            part,
            starts=sent_part.starts,
            apart=sent_part.apart,
            site=sent_part.site,
        )
    return prompt
