"""Searching a run: addresses, models, source files, prompts, answers, errors, tool arguments.

Invariant: a message that many calls share is looked through once a query.
"""

from __future__ import annotations

from appl.prompt import Messages
from appl.tracing.reading.tooluse import ToolUse
from appl.tracing.reading.trace import RecordedCall
from appl.tracing.viewer.rows import Rows, answer_of

ADDRESS, PROMPT, ANSWER = 1, 2, 4
PAGE = 2_000


class Search:
    """One query for *text*, as it is written but in upper or lower case."""

    def __init__(self, rows: Rows, text: str) -> None:
        self.text = text
        self._rows, self._wanted = rows, text.lower()
        self._seen: dict[bytes, bool] = {}

    def page(self, start: int, most: int = PAGE) -> dict[str, object]:
        """Rows from *start* on that match, and where (a sum of 1 address or name, 2 prompt or
        arguments, 4 answer or error); ``next`` is where to go on, -1 at the end."""
        start = min(max(start, 0), len(self._rows))
        until = min(start + most, len(self._rows))
        matches = [(row, self._match(row)) for row in range(start, until)]
        return {
            "rows": [row for row, where in matches if where],
            "where": [where for _, where in matches if where],
            "next": until if until < len(self._rows) else -1,
        }

    def _match(self, row: int) -> int:
        step = self._rows.at(row)
        named = [step.address, step.where]
        in_prompt = False
        if isinstance(step, ToolUse):
            named.append(step.name)
            in_prompt = self._in(step.arguments)
        else:
            named += (step.model, step.kind)
            in_prompt = self._prompt(step)
        answered = self._in(answer_of(step)) or (
            isinstance(step, RecordedCall) and self._others(step)
        )
        name = any(map(self._in, named))
        return ADDRESS * name + PROMPT * in_prompt + ANSWER * answered

    def _in(self, text: str) -> bool:
        return self._wanted in text.lower()

    def _others(self, call: RecordedCall) -> bool:
        samples = call.response.samples if call.response else ()
        return any(self._in(f"{sample.text}\n{sample.reasoning or ''}") for sample in samples)

    def _prompt(self, call: RecordedCall) -> bool:
        return call.messages is not None and any(map(self._message, call.messages.links()))

    def _message(self, link: Messages) -> bool:
        cached = self._seen.get(link.digest)
        if cached is None:
            cached = self._seen[link.digest] = self._in(link.message.shown)
        return cached
