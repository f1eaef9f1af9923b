"""Text that is not there yet: what a prompt may hold in place of a string."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import BuiltinFunctionType, ModuleType
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from appl.prompt.message import Message
    from appl.prompt.provider_fields import ProviderFields


@runtime_checkable
class Lazy(Protocol):
    """A part of a prompt whose text comes later.

    The names are long so that they cannot clash with those of a user's value. A part that may turn
    out to be more than text also has ``prompt_message() -> Message | None``, for when it is ready,
    and ``prompt_provided() -> ProviderFields | None`` for what its provider wants back with a text;
    one whose value is not its text, ``prompt_value() -> object``, for conversions and format specs;
    one that a call said, ``prompt_origin() -> str | None``, the address of that call.
    """

    def prompt_ready(self) -> bool:
        """True if :meth:`prompt_text` answers (or raises) without waiting."""

    def prompt_text(self) -> str:
        """The text; raises the error of the call that failed to produce it."""

    def prompt_source(self) -> object:
        """The future to wait for."""


def message_of(part: Lazy) -> Message | None:
    """The whole message that a ready *part* stands for: one that calls tools; else ``None``."""
    offered: Callable[[], Message | None] | None = getattr(part, "prompt_message", None)
    return offered() if offered is not None else None


def provided_with(part: Lazy) -> ProviderFields | None:
    """The fields that a provider wants back with the text of a ready *part*, if there are any."""
    offered: Callable[[], ProviderFields | None] | None = getattr(part, "prompt_provided", None)
    return offered() if offered is not None else None


def origin_of(part: Lazy) -> str | None:
    """The address of the call that said a ready *part*, if that is known."""
    asked: Callable[[], str | None] | None
    asked = getattr(part, "prompt_origin", None)
    if asked is None:
        asked = getattr(part.prompt_source(), "prompt_origin", None)
    return asked() if asked is not None else None


_CONVERSIONS: dict[str, Callable[[object], str]] = {"s": str, "r": repr, "a": ascii}


def formatted(value: object, conversion: str, spec: str) -> str:
    """*value* as the f-string part ``{value!conversion:spec}`` would show it."""
    shown = _CONVERSIONS[conversion](value) if conversion else value
    return format(shown, spec)


class Filled:
    """A whole message whose content is still to come: *shape* is all the rest of it."""

    __slots__ = ("part", "shape")

    def __init__(self, part: Lazy, shape: Message) -> None:
        self.part, self.shape = part, shape

    def prompt_ready(self) -> bool:
        return self.part.prompt_ready()

    def prompt_text(self) -> str:
        return self.part.prompt_text()

    def prompt_message(self) -> Message:
        return replace(self.shape, content=self.part.prompt_text())

    def prompt_origin(self) -> str | None:
        return origin_of(self.part)

    def prompt_source(self) -> object:
        return self.part.prompt_source()


class Formatted:
    """A lazy part with a conversion (``!r``) or format spec (``:>8``) still to be applied."""

    __slots__ = ("conversion", "part", "spec")

    def __init__(self, part: Lazy, conversion: str, spec: str) -> None:
        self.part, self.conversion, self.spec = part, conversion, spec

    def prompt_ready(self) -> bool:
        return self.part.prompt_ready()

    def prompt_text(self) -> str:
        value = getattr(self.part, "prompt_value", self.part.prompt_text)()
        return formatted(value, self.conversion, self.spec)

    def prompt_origin(self) -> str | None:
        return origin_of(self.part)

    def prompt_source(self) -> object:
        return self.part.prompt_source()


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
