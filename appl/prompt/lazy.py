"""Text that is not there yet: what a prompt may hold in place of a string."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, runtime_checkable


@runtime_checkable
class Lazy(Protocol):
    """A part of a prompt whose text comes later.

    The names are long so that they cannot clash with those of a user's value.
    """

    def prompt_ready(self) -> bool:
        """Whether :meth:`prompt_text` answers (or raises) without waiting."""

    def prompt_text(self) -> str:
        """The text; raises the error of the call that failed to produce it."""

    def prompt_source(self) -> object:
        """The future to wait for."""


_CONVERSIONS: dict[str, Callable[[object], str]] = {"s": str, "r": repr, "a": ascii}


def formatted(value: object, conversion: str, spec: str) -> str:
    """*value* as the f-string part ``{value!conversion:spec}`` would show it."""
    shown = _CONVERSIONS[conversion](value) if conversion else value
    return format(shown, spec)


class Formatted:
    """A lazy part with a conversion (``!r``) or format spec (``:>8``) still to be applied."""

    __slots__ = ("conversion", "part", "spec")

    def __init__(self, part: Lazy, conversion: str, spec: str) -> None:
        self.part, self.conversion, self.spec = part, conversion, spec

    def prompt_ready(self) -> bool:
        return self.part.prompt_ready()

    def prompt_text(self) -> str:
        return formatted(self.part.prompt_text(), self.conversion, self.spec)

    def prompt_source(self) -> object:
        return self.part.prompt_source()
