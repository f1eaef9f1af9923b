"""Recorded calls of tools: arguments, result, and where they stand among the calls."""

from __future__ import annotations

from dataclasses import dataclass

from appl.prompt.message import Message
from appl.tracing.reading.recorded_step import RecordedStep


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
