"""Text that is not there yet: what a prompt may hold in place of a string."""

from __future__ import annotations

from collections.abc import Callable
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
    origin: Callable[[], str | None] | None
    origin = getattr(part, "prompt_origin", None)
    if origin is None:
        origin = getattr(part.prompt_source(), "prompt_origin", None)
    return origin() if origin is not None else None
