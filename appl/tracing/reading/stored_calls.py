"""Calls and tool calls of a recorded run, whose texts are read when somebody asks for them."""

from __future__ import annotations

from typing import Any

from appl.tracing.reading.process_records import Answer, ProcessRecords
from appl.tracing.reading.tooluse import ToolUse
from appl.tracing.reading.trace import RecordedCall

_NO_ANSWER: Answer = (None, (), None)


class StoredCall(RecordedCall):
    """A call whose prompt and answer are read when somebody asks for them.

    ``number`` and ``prompt`` are its numbers in the *process* that asked it, the first 0 if it was
    never started. ``end`` is the place of the record that ends the call, or -1, and ``ended_in``
    the process that wrote it.
    """

    __slots__ = ("end", "ended_in", "number", "process", "prompt")
    number: int
    prompt: int | None
    process: ProcessRecords
    end: int
    ended_in: ProcessRecords

    def __getattr__(self, name: str) -> Any:
        # Only of fields that have no value: these are always asked for in the file.
        if name == "messages":
            return None if self.prompt is None else self.process.prompt(self.prompt)
        if name == "cuts":
            sample = None if self.lost else self.sample
            return self.ended_in.cuts(self.end, sample) if self.end >= 0 else ()
        if name in ("response", "begun"):
            response, _, begun = self.ended_in.answer(self.end) if self.end >= 0 else _NO_ANSWER
            return response if name == "response" else begun
        raise AttributeError(f"a call has no {name!r}", name=name, obj=self)

    def stored_in(self, process: ProcessRecords, number: int, prompt: int | None) -> None:
        """Leave the texts in the records of *process*."""
        self.process, self.number, self.prompt, self.end = process, number, prompt, -1
        del self.messages, self.response, self.cuts, self.begun


class StoredToolUse(ToolUse):
    """A call of a tool whose result, the message at the place ``said``, is read when asked for."""

    __slots__ = ("message_number", "process")
    process: ProcessRecords
    message_number: int | None

    def __getattr__(self, name: str) -> Any:
        if name == "message":
            number = self.message_number
            return None if number is None else self.process.result(number)
        raise AttributeError(f"a call of a tool has no {name!r}", name=name, obj=self)

    def stored_in(self, process: ProcessRecords) -> None:
        """Leave the result in the records of *process*."""
        self.process, self.message_number = process, None
        del self.message
