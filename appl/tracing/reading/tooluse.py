"""Recorded calls of tools: arguments, result, and where they stand among the calls."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass
from typing import Literal

from appl.prompt.message import Message


@dataclass(slots=True)
class ToolUse:
    """A recorded call of a tool. Times are microseconds since the recording process began.

    ``arguments`` is the JSON text that the model wrote; ``effect`` says what running the tool may
    do (see ``ToolStarted``). ``outcome`` is ``None`` for one in flight when the record ends;
    ``message`` is the result, also one with an error. ``position`` is its place among the calls.
    ``masked`` names the secrets that were taken out of its records, ``lost`` those of its result,
    which then cannot be given again.
    """

    address: str
    name: str = ""
    arguments: str = "{}"
    effect: str = "effect"
    file: str | None = None
    line: int | None = None
    position: int = -1
    started: int | None = None
    outcome: Literal["answered", "failed", "cancelled"] | None = None
    message: Message | None = None
    error: BaseException | None = None
    ended: int | None = None
    end_position: int = -1
    delivered: int | None = None
    masked: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    incarnation: int = 0
    delivered_at: int | None = None

    @property
    def where(self) -> str:
        """The place of the tool's function as ``file:line``, or an empty string."""
        return f"{self.file}:{self.line}" if self.file else ""

    def as_data(self) -> dict[str, object]:
        """The call as JSON-ready data."""
        error = self.error
        return {
            "address": self.address,
            "name": self.name,
            "arguments": self.arguments,
            "effect": self.effect,
            "file": self.file,
            "line": self.line,
            "started_us": self.started,
            "ended_us": self.ended,
            "outcome": self.outcome,
            "result": self.message.as_dict() if self.message else None,
            "has_error": self.message.has_error if self.message else None,
            "error": error and {"type": type(error).__name__, "message": str(error)},
            "masked": list(self.masked),
        }

    def end(self) -> Message | BaseException:
        """The recorded end, of a call that has one."""
        ended = self.message or self.error
        assert ended is not None
        return ended


def within(address: str, tools: Set[str]) -> bool:
    """True if *address* lies inside the call of one of *tools*, given by address."""
    while tools and address:
        address = address.rpartition("/")[0]
        if address in tools:
            return True
    return False
