"""Recorded calls of tools: arguments, result, and where they stand among the calls."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass
from typing import Literal

from appl.prompt.message import Message


@dataclass(slots=True)
class RecordedStep:
    """The part that a recorded call and a recorded call of a tool have in common.

    Times are microseconds since the recording process began. ``outcome`` is ``None`` for one that
    was in flight when the record ends. ``position`` numbers the starts, ``delivered`` the
    deliveries. ``masked`` names the secrets that were taken out of its records, ``lost`` those of
    its outcome, which then cannot be given again.
    """

    address: str
    file: str | None = None
    line: int | None = None
    position: int = -1
    started: int | None = None
    outcome: Literal["answered", "failed", "cancelled"] | None = None
    error: BaseException | None = None
    ended: int | None = None
    end_position: int = -1
    delivered: int | None = None
    delivered_at: int | None = None
    masked: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    incarnation: int = 0

    @property
    def where(self) -> str:
        """The source line, of a tool that of its function, as ``file:line``; or an empty string."""
        return f"{self.file}:{self.line}" if self.file else ""


@dataclass(slots=True)
class ToolUse(RecordedStep):
    """A recorded call of a tool.

    ``arguments`` is the JSON text that the model wrote; ``effect`` says what running the tool may
    do (see ``ToolStarted``). ``message`` is the result, also one with an error.
    """

    name: str = ""
    arguments: str = "{}"
    effect: str = "effect"
    message: Message | None = None

    @property
    def has_failed(self) -> bool:
        """True if its result is an error, of which the model may have been told."""
        return self.outcome == "failed" or (self.message is not None and self.message.has_error)

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
