"""The parts that an expression statement adds to the prompt: the table of the language, as code.

Invariant: a statement adds all of its items or none.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping
from types import AsyncGeneratorType, CoroutineType, GeneratorType
from typing import Any

from appl.prompt import (
    USER,
    VOICES,
    Lazy,
    Media,
    Message,
    Origin,
    PromptNode,
    Voice,
    as_media,
    moved,
)
from appl.prompt.media import is_picture
from appl.runtime.answers.text import Text
from appl.runtime.concurrency.future import Future, Generation, returned
from appl.runtime.concurrency.promise import Error, Promise, Value
from appl.runtime.frame import PromptWriter
from appl.runtime.prompts.context import PromptRecords
from appl.runtime.prompts.conversation import Conversation
from appl.runtime.prompts.hole import close_unawaited, part_of
from appl.runtime.prompts.messages import nodes_of_message
from appl.runtime.prompts.place import PendingPlace
from appl.runtime.prompts.roles import Spoken


def say(frame: PromptWriter, value: object, site: Origin = None) -> None:
    """Add what *value* says at *site*; anything that is not prompt text raises."""
    if type(value) is str:
        frame.prompt.say(frame.voice, value, True, site)
        return
    items: list[PromptNode] = []

    def refuse(bad: object) -> None:
        from appl.runtime.prompts.refusal import refused

        raise refused(bad, value)

    _collect(frame, frame.voice, value, items, refuse)
    _append(frame, items, site)


def add_value(frame: PromptWriter, value: object, site: Origin = None) -> None:
    """Add what a call statement at *site* returned, if all of it can be prompt text."""
    if isinstance(value, Future):
        frame.prompt.say(frame.voice, _place(frame, frame.voice, value), True, site)
        return
    if isinstance(value, _UNUSED) and not (isinstance(value, Spoken) and value.entered):
        from appl.runtime.prompts.refusal import refused

        error = refused(value, value)
        close_unawaited(value)
        raise error
    kind: type = type(value)
    is_read = hasattr(kind, "__prompt__") or _is_template(kind) or is_picture(kind)
    if isinstance(value, Mapping) or not (is_read or isinstance(value, _SAYABLE)):
        return
    if isinstance(value, Iterable) and isinstance(value, GeneratorType):
        value = list(value)
    items: list[PromptNode] = []
    try:
        _collect(frame, frame.voice, value, items, _give_up)
    except _NotText:
        return
    _append(frame, items, site)


def _place(frame: PromptWriter, voice: Voice, future: Future[object]) -> PendingPlace:
    """A place for what a program that runs beside returns; nothing if that is not text."""
    future._pending.keep(frame.address)

    def nodes(pending: Promise) -> list[PromptNode]:
        outcome = pending.outcome
        if isinstance(outcome, Error):  # a part that fails the prompt
            return [PromptNode(None, VOICES["user"], pending)]
        assert isinstance(outcome, Value)
        items: list[PromptNode] = []
        if isinstance(outcome.value, _PASSIVE):
            with contextlib.suppress(_NotText):
                _collect(frame, voice, outcome.value, items, _give_up)
        return items

    return PendingPlace(future._pending, nodes, voice)


_UNUSED = (CoroutineType, AsyncGeneratorType, Spoken)
"""Types of results that do nothing until they are awaited, iterated or entered."""


class _NotText(Exception):
    """A value cannot be prompt text."""


def _give_up(value: object) -> None:
    raise _NotText


_RECORDED = (Message, Media, PromptRecords, Conversation)
_PASSIVE = (str, list, tuple, *_RECORDED, Generation, Future)
"""Values that become prompt text without running code of the user's."""

_SAYABLE = (*_PASSIVE, GeneratorType, Promise)


def _is_template(kind: type) -> bool:
    return kind.__name__ == "Template" and kind.__module__ == "string.templatelib"


def _collect(
    frame: PromptWriter,
    voice: Voice,
    value: object,
    items: list[PromptNode],
    bad: Callable[[object], None],
) -> None:
    if isinstance(value, Future):
        if bad is _give_up:
            items.append(PromptNode(None, voice, _place(frame, voice, value)))
            return
        value = returned(value._pending)
    if value is None:
        return
    if isinstance(value, str):
        by = value.call_id if type(value) is Text else None
        items.append(PromptNode(None, voice, str.__str__(value), site=by))
    elif isinstance(value, Generation):
        items.append(PromptNode(None, voice, value._pending.prompt_place(voice)))
    elif isinstance(value, Message):
        items += nodes_of_message(value)
    elif isinstance(value, PromptRecords):
        if value.prompt is not frame.prompt:  # else its items are here already
            items += moved(value.nodes(), USER, voice)
    elif isinstance(value, Conversation):
        items += [node for message in value.all() for node in nodes_of_message(message)]
    elif hasattr(type(value), "__prompt__"):
        _collect(frame, voice, value.__prompt__(), items, bad)  # type: ignore[attr-defined]
    elif _is_template(type(value)):
        items += _template(frame, voice, value)
    elif isinstance(value, Lazy) and not isinstance(value, type):
        items.append(PromptNode(None, voice, value))
    elif (medium := as_media(value)) is not None:
        items.append(PromptNode(None, voice, medium))
    elif (
        isinstance(value, _NOT_ITERATED)
        or not isinstance(value, Iterable)
        or (bad is _give_up and not isinstance(value, list | tuple | GeneratorType))
    ):
        bad(value)
    else:
        for item in [*value]:  # all calls that it makes begin before the first is waited for
            _collect(frame, voice, item, items, bad)


_NOT_ITERATED = (Mapping, set, frozenset, bytes, bytearray, memoryview, type, AsyncGeneratorType)


def _template(frame: PromptWriter, voice: Voice, template: Any) -> list[PromptNode]:
    items: list[PromptNode] = []
    for piece in template:
        part = (
            piece
            if isinstance(piece, str)
            else part_of(frame, piece.value, piece.conversion or "", piece.format_spec)
        )
        items.append(PromptNode(None, voice, part, starts=not items))
    return items


def _append(frame: PromptWriter, items: list[PromptNode], site: Origin) -> None:
    for item in items:
        if item.lazy is not None:
            source = item.lazy.prompt_source()
            if isinstance(source, Promise):
                source.keep(frame.address)
    frame.prompt.extend(items, site)
