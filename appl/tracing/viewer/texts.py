"""The texts of a call as JSON-ready data: its prompt by message numbers, answers, attempts.

Invariant: a message that several calls share has one number and is sent once; images and sounds
are described, never sent.
"""

from __future__ import annotations

from collections.abc import Iterable

from appl.backend import Sample
from appl.prompt import Message, Messages, tagged
from appl.tracing.explaining.steps import phases
from appl.tracing.format.sampling import parameters
from appl.tracing.reading.tooluse import ToolUse
from appl.tracing.reading.trace import Attempt, RecordedCall
from appl.tracing.viewer.origins import origins
from appl.tracing.viewer.page_data import exact
from appl.tracing.viewer.rows import OUTCOMES, Rows, outcome_of


class Texts:
    """The messages and calls of a run; messages get numbers when a call is first requested."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self._numbers: dict[Message | bytes, int] = {}
        self._links: list[Messages] = []

    def __len__(self) -> int:
        return len(self._links)

    def number(self, link: Messages) -> int:
        """The number of the last message of *link*."""
        key = link.kept or link.digest
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self._links)
            self._links.append(link)
        return number

    def messages(self, numbers: Iterable[int]) -> list[dict[str, object]]:
        """The messages of these numbers. Raises ``IndexError``."""
        return [_message(self._links[number].message) for number in numbers]

    def call(self, row: int) -> dict[str, object]:
        """The details of the call, or tool call, of a row. Raises ``IndexError``."""
        step = self._rows.at(row)
        data = self._tool(step) if isinstance(step, ToolUse) else self._call(step)
        return {"row": row, "address": step.address, "where": step.where, **data}

    def _call(self, call: RecordedCall) -> dict[str, object]:
        response = call.response
        links = call.messages.links() if call.messages is not None else []
        return {
            "kind": call.kind,
            "model": call.model,
            "answered_by": response.model if response else "",
            "settings": exact(parameters(call.sampling)),
            "n": call.n,
            "sample": call.sample,
            "timeout": call.timeout,
            "content": tagged(call.content),
            "outcome": outcome_of(self._rows.trace, call),
            "messages": [self.number(link) for link in links],
            "spans": self._spans(call, links),
            "samples": [_sample(sample) for sample in response.samples] if response else [],
            "scores": list(response.scores) if response and response.scores else None,
            "chunks": len(call.cuts),
            "phases": phases(call),
            "begun": [text for _, text in sorted((call.begun or {}).items())],
            "attempts": [_attempt(attempt) for attempt in call.attempts],
            "error": _error(call.error or self._refusal(call)),
            "masked": list(call.masked),
            "source": call.source,
            "of": call.of,
        }

    def _refusal(self, call: RecordedCall) -> BaseException | None:
        """Why the answer of *call* was refused, or the item that it is in failed."""
        failures, at = self._rows.trace.failures, call.address
        while at and at not in failures:
            at = at.rpartition("/")[0]
        return failures[at].error if at else None

    def _spans(self, call: RecordedCall, links: list[Messages]) -> list[list[object]]:
        """The spans: message, start, end, row of the call that said it (-1: none), source line."""
        number, spans = self._rows.number, []
        for origin in origins(call, self._rows.trace):
            start, end = _units(links[origin.message].message.content, origin.start, origin.end)
            row = number.get(origin.address, -1)
            spans.append([origin.message, start, end, row, origin.where or origin.address])
        return spans

    def _tool(self, used: ToolUse) -> dict[str, object]:
        return {
            "kind": "tool",
            "name": used.name,
            "arguments": used.arguments,
            "effect": used.effect,
            "outcome": "failed" if used.has_failed else used.outcome or OUTCOMES[0],
            "result": _message(used.message) if used.message else None,
            "error": _error(used.error),
            "masked": list(used.masked),
        }


def _message(message: Message) -> dict[str, object]:
    """A message as JSON-ready data; empty fields are left out."""
    more = {
        "media": [[offset, str(medium)] for offset, medium in message.media],
        "calls": [[call.id, call.name, call.arguments] for call in message.tool_calls],
        "of": message.tool_call_id,
        "name": message.name,
        "error": message.has_error,
    }
    return {
        "role": message.role,
        "text": message.content,
        **{name: value for name, value in more.items() if value},
    }


def _sample(sample: Sample) -> dict[str, object]:
    return {
        "text": sample.text,
        "finish": sample.finish_reason,
        "reasoning": sample.reasoning,
        "calls": [[call.id, call.name, call.arguments] for call in sample.tool_calls],
        "tokens": len(sample.logprobs or ()),
    }


def _attempt(attempt: Attempt) -> dict[str, object]:
    return {
        "number": attempt.number,
        "at": attempt.at,
        "error": _error(attempt.error),
        "wait": attempt.wait,
    }


def _error(error: BaseException | None) -> list[str] | None:
    if error is None:
        return None
    notes = [str(note) for note in getattr(error, "__notes__", ())]
    return [type(error).__name__, "\n".join([str(error), *notes])]


def _units(text: str, start: int, end: int) -> tuple[int, int]:
    """Offsets in *text* as a browser counts them, in units of UTF-16."""
    if text.isascii():
        return start, end
    before = len(text[:start].encode("utf-16-le", "surrogatepass")) // 2
    return before, before + len(text[start:end].encode("utf-16-le", "surrogatepass")) // 2
