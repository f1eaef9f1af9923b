"""The services and settings of a run, which its calls and programs ask for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from appl.backend import Backend


@dataclass(frozen=True, slots=True)
class Services:
    """The services and settings of a run, which do not change while it goes on.

    ``gate`` is called on the I/O thread before each call starts: it may block, or raise to refuse;
    ``barrier`` before a tool with effects runs, on its thread: it returns when all that happened
    so far is recorded. ``sequential`` waits for every call where it stands: the naive twin of the
    scheduler. The rest are defaults for what a call leaves open.
    """

    backend: Backend
    gate: Callable[[], None] | None = None
    barrier: Callable[[], None] | None = None
    sequential: bool = False
    model: str = ""
    temperature: float | None = None
    max_tokens: int | None = None
    seed: int | None = None
    salt: str = ""

    def complete_fields(self, fields: dict[str, Any]) -> None:
        """Fill in the defaults for what a call leaves open."""
        if fields["temperature"] is None:
            fields["temperature"] = self.temperature
        if fields["max_tokens"] is None:
            fields["max_tokens"] = self.max_tokens
        fields["salt"] = self.salt
