"""Values as parts of a prompt: with a conversion and a format spec, now or when they are there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import BuiltinFunctionType, ModuleType

from appl.prompt.lazy import Lazy, origin_of
from appl.prompt.message import Message

_CONVERSIONS: dict[str, Callable[[object], str]] = {"s": str, "r": repr, "a": ascii}


def formatted(value: object, conversion: str, spec: str) -> str:
    """*value* as the f-string part ``{value!conversion:spec}`` would show it."""
    shown = _CONVERSIONS[conversion](value) if conversion else value
    return format(shown, spec)


class _Around:
    """A lazy part around another one, ready when that is."""

    __slots__ = ("part",)

    def __init__(self, part: Lazy) -> None:
        self.part = part

    def prompt_ready(self) -> bool:
        return self.part.prompt_ready()

    def prompt_text(self) -> str:
        return self.part.prompt_text()

    def prompt_origin(self) -> str | None:
        return origin_of(self.part)

    def prompt_source(self) -> object:
        return self.part.prompt_source()


class Filled(_Around):
    """A whole message whose content is still to come: *shape* is all the rest of it."""

    __slots__ = ("shape",)

    def __init__(self, part: Lazy, shape: Message) -> None:
        super().__init__(part)
        self.shape = shape

    def prompt_message(self) -> Message:
        return replace(self.shape, content=self.part.prompt_text())


class Formatted(_Around):
    """A lazy part with a conversion (``!r``) or format spec (``:>8``) still to be applied."""

    __slots__ = ("conversion", "spec")

    def __init__(self, part: Lazy, conversion: str, spec: str) -> None:
        super().__init__(part)
        self.conversion, self.spec = conversion, spec

    def prompt_text(self) -> str:
        value = getattr(self.part, "prompt_value", self.part.prompt_text)()
        return formatted(value, self.conversion, self.spec)


def textless(value: object, text: str) -> bool:
    """True if *text*, that of *value* in an f-string, only tells which object it is."""
    if isinstance(value, str):
        return False
    if isinstance(value, type) and text != type.__repr__(value):
        return False  # a class that says its own text, as definitions do
    if text[:1] == "<" and text[-1:] == ">":
        return " at 0x" in text or isinstance(value, _NAMED)
    if " at 0x" not in text or not isinstance(value, list | tuple | set | frozenset | dict):
        return False
    members = value.values() if isinstance(value, dict) else value
    return any(textless(member, repr(member)) for member in members)


_NAMED = (type, ModuleType, BuiltinFunctionType)
"""What Python shows by a name, without an address."""
