"""What an expression statement adds to the prompt: the table of the language, as code.

Invariant: a statement adds all of its items or none.
"""

from __future__ import annotations

import contextlib
import itertools
import linecache
import re
import sys
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from types import AsyncGeneratorType, FrameType, GeneratorType
from typing import Any

from appl.errors import PromptTypeError
from appl.prompt import Formatted, Lazy, Message, Node, Part, RoleName, formatted
from appl.runtime.context import Conversation, PromptRecords
from appl.runtime.frame import Frame
from appl.runtime.future import Future, Generation, returned
from appl.runtime.pending import Pending, Proxy
from appl.runtime.place import Kept, what_it_returned

Item = tuple[RoleName, Part, str, str, bool]
"""Role, part, separator, lead, and whether an item starts."""


def say(frame: Frame, value: object) -> None:
    """Add what *value* says; anything that is not prompt text raises."""
    items: list[Item] = []
    _collect(frame, frame.role, value, items, _refuse)
    _append(frame, items)


def said(frame: Frame, value: object) -> None:
    """Add what a call statement returned, if all of it can be prompt text; else nothing."""
    if isinstance(value, Future):
        _say_later(frame, value)
        return
    if isinstance(value, Mapping) or (not isinstance(value, _SAYABLE) and not _protocol(value)):
        return
    if isinstance(value, Iterable) and isinstance(value, GeneratorType):
        value = list(value)
    items: list[Item] = []
    try:
        _collect(frame, frame.role, value, items, _give_up)
    except _NotText:
        return
    _append(frame, items)


def _say_later(frame: Frame, future: Future[Any]) -> None:
    """Keep a place for what a program that runs beside returns; nothing if that is not text."""
    frame.prompt.append(frame.role, _place(frame, frame.role, future))


def _place(frame: Frame, role: RoleName, future: Future[Any]) -> Kept:
    future._pending.keep(frame.address)

    def nodes(value: object) -> list[Node]:
        items: list[Item] = []
        if isinstance(value, _PASSIVE):
            with contextlib.suppress(_NotText):
                _collect(frame, role, value, items, _give_up)
        return [Node(None, r, p, sep=s, lead=x, starts=f) for r, p, s, x, f in items]

    return Kept(future._pending, what_it_returned(nodes))


def part_of(frame: Frame, value: object, conversion: str, spec: str) -> Part:
    """The part that ``{value!conversion:spec}`` adds: lazy when *value* is pending."""
    if isinstance(value, Proxy):
        pending = value._pending
        pending.keep(frame.address)
        if not conversion and not spec:
            return pending
        if spec and (conversion or isinstance(value, Generation)):
            format("", spec)  # a bad spec fails at its line, not when the text is there
        return Formatted(pending, conversion, spec)
    return formatted(value, conversion, spec)


class _NotText(Exception):
    """A value cannot be prompt text."""


def _refuse(value: object) -> None:
    kind, shown = type(value).__name__, _as_written()
    raise PromptTypeError(
        f'a bare expression of type {kind} is not prompt text; write f"{{{shown}}}" to say it, '
        f"or _ = {shown} to leave it out of the prompt (got {value!r:.80})"
    )


def _as_written() -> str:
    """The expression of the statement that runs, as its line has it, if it is a simple one."""
    frame: FrameType | None = sys._getframe()
    while frame is not None and frame.f_globals.get("__name__", "").startswith("appl."):
        frame = frame.f_back
    if frame is None:
        return "value"
    places = itertools.islice(frame.f_code.co_positions(), frame.f_lasti // 2, None)
    line, last, start, stop = next(places, (None, None, None, None))
    if line is None or line != last:
        return "value"
    written = linecache.getline(frame.f_code.co_filename, line).encode()[start:stop].decode()
    return written if re.fullmatch(r"\w[\w.\[\]]*", written) else "value"


def _give_up(value: object) -> None:
    raise _NotText


_PASSIVE = (str, list, tuple, Message, PromptRecords, Conversation, Generation, Future)
"""What can be said without running code of the user's."""

_SAYABLE = (
    str, list, tuple, GeneratorType, Message, PromptRecords, Conversation, Generation, Pending,
)  # fmt: skip


def _protocol(value: object) -> bool:
    kind = type(value)
    return hasattr(kind, "__prompt__") or _is_template(kind)


def _is_template(kind: type) -> bool:
    return kind.__name__ == "Template" and kind.__module__ == "string.templatelib"


def _collect(
    frame: Frame, role: RoleName, value: object, items: list[Item], bad: Callable[[object], None]
) -> None:
    if isinstance(value, Future):
        if bad is _give_up:
            items.append((role, _place(frame, role, value), "\n", "", True))
            return
        value = returned(value._pending)
    if value is None:
        return
    if isinstance(value, str):
        items.append((role, str.__str__(value), "\n", "", True))
    elif isinstance(value, Generation):
        items.append((role, value._pending, "\n", "", True))
    elif isinstance(value, Message):
        items.append((value.role, part_of(frame, value.content, "", ""), "\n", "", True))
    elif isinstance(value, PromptRecords):
        if value.prompt is not frame.prompt:  # else its items are here already
            items += [(n.role, n.part, n.sep, n.lead, n.starts) for n in value.nodes()]
    elif isinstance(value, Conversation):
        items += [(m.role, m.content, "\n", "", True) for m in value.all()]
    else:
        _collect_other(frame, role, value, items, bad)


def _collect_other(
    frame: Frame, role: RoleName, value: object, items: list[Item], bad: Callable[[object], None]
) -> None:
    kind = type(value)
    if hasattr(kind, "__prompt__"):
        _collect(frame, role, value.__prompt__(), items, bad)  # type: ignore[attr-defined]
    elif _is_template(kind):
        items += _template(frame, role, value)
    elif isinstance(value, Lazy) and not isinstance(value, type):
        items.append((role, value, "\n", "", True))
    elif (
        isinstance(value, _NOT_ITERATED)
        or not isinstance(value, Iterable)
        or (bad is _give_up and not isinstance(value, list | tuple | GeneratorType))
    ):
        bad(value)
    else:
        for each in value:
            _collect(frame, role, each, items, bad)


_NOT_ITERATED = (Mapping, set, frozenset, bytes, bytearray, memoryview, type, AsyncGeneratorType)


def _template(frame: Frame, role: RoleName, template: Any) -> list[Item]:
    items: list[Item] = []
    for piece in template:
        part = (
            piece
            if isinstance(piece, str)
            else part_of(frame, piece.value, piece.conversion or "", piece.format_spec)
        )
        items.append((role, part, "\n", "", not items))
    return items


def _append(frame: Frame, items: list[Item]) -> None:
    append = frame.prompt.append
    for _, part, _, _, _ in items:
        if not isinstance(part, str):
            source = part.prompt_source()
            if isinstance(source, Pending):
                source.keep(frame.address)
    deque((append(r, p, sep=s, lead=x, starts=f) for r, p, s, x, f in items), maxlen=0)
