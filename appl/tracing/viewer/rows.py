"""The calls of a run as columns of numbers and short texts, and the changes since a cursor.

Invariant: a row keeps its number as long as the run is open; all changes from cursor 0 on add up to
the table that a later reader sees.
"""

from __future__ import annotations

from collections.abc import Iterable

from appl.backend import Usage
from appl.tracing.reading.tooluse import ToolUse
from appl.tracing.reading.trace import RecordedCall, Trace

PAGE = 20_000
SAID = 80
OUTCOMES = ("in flight", "answered", "failed", "cancelled", "refused", "in a failed item")
NUMBERS = (
    "kind",
    "model",
    "file",
    "line",
    "outcome",
    "started",
    "asked",
    "ended",
    "attempts",
    "failed",
    "prompt",
    "completion",
    "cached",
    "written",
    "reasoning",
    "cost",
    "samples",
    "reused",
    "ordinal",
    "source",
)
"""The columns of numbers. ``kind``, ``model``, ``file`` and ``source`` are numbers of strings;
times are microseconds since the run began; -1 stands for what is not known."""

_NOTHING = Usage(None, None, None)
_REST_OF_TOOL = (1, 0, -1, -1, -1, -1, -1, -1, 1, 0, 0, -1)
"""The numbers of a tool's call from ``attempts`` on, which only a model's calls differ in."""


class Rows:
    """The calls of *trace*, tool calls among them, in the order in which they were seen."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.addresses: list[str] = []
        self.number: dict[str, int] = {}
        self._log: list[int] = []
        self._strings: dict[str, int] = {}
        self._begun: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self.addresses)

    def at(self, row: int) -> RecordedCall | ToolUse:
        """The call or tool call of a row."""
        address = self.addresses[row]
        trace = self.trace
        return trace.by_address.get(address) or trace.tools[address]

    def touch(self, addresses: Iterable[str]) -> None:
        """Note that these calls have changed, or begun to exist."""
        for address in addresses:
            row = self.number.get(address)
            if row is None:
                row = self.number[address] = len(self.addresses)
                self.addresses.append(address)
            self._log.append(row)

    def news(self, since: int) -> bool:
        """True if anything has changed since the cursor *since*."""
        return since < len(self._log)

    def changes(self, since: int = 0, most: int = PAGE) -> dict[str, object]:
        """The changes since the cursor *since*, of at most *most* entries of the log.

        ``rows`` are the numbers of the rows; the columns are in their order. ``next`` is the cursor
        to ask with for more. ``strings`` are all so far.
        """
        since = min(max(since, 0), len(self._log))
        until = min(since + most, len(self._log))
        rows = list(dict.fromkeys(self._log[since:until]))
        steps = [self.at(row) for row in rows]
        facts = [
            self._call(step) if isinstance(step, RecordedCall) else self._tool(step)
            for step in steps
        ]
        return {
            "next": until,
            "more": until < len(self._log),
            "size": len(self.addresses),
            "rows": rows,
            "address": [self.addresses[row] for row in rows],
            **{name: [row[i] for row in facts] for i, name in enumerate(NUMBERS)},
            "said": [excerpt(step) for step in steps],
            "uses": [self._uses(step) for step in steps],
            "strings": list(self._strings),
        }

    def _uses(self, step: RecordedCall | ToolUse) -> list[int]:
        edges = step.edges if isinstance(step, RecordedCall) else ()
        return [self.number[edge] for edge in edges if edge in self.number]

    def string(self, text: str) -> int:
        """The number of a text that many rows share."""
        return self._strings.setdefault(text, len(self._strings))

    def _call(self, call: RecordedCall) -> tuple[int, ...]:
        response = call.response
        used = response.usage if response is not None else _NOTHING
        first_attempt = next(
            (attempt.at for attempt in call.attempts if attempt.at is not None), None
        )
        begun = self._beginning(call.incarnation)
        return (
            self.string(call.kind),
            self.string(call.model),
            self._file(call.file),
            _known(call.line),
            _outcome(outcome_of(self.trace, call)),
            _since(begun, call.started),
            _since(begun, first_attempt),
            _since(begun, call.ended),
            len(call.attempts),
            sum([attempt.error is not None for attempt in call.attempts]),
            _known(used.prompt_tokens),
            _known(used.completion_tokens),
            _known(used.cached_tokens),
            _known(used.all_written_tokens),
            _known(used.reasoning_tokens),
            _known(response.cost if response else None),
            len(response.samples) if response else 0,
            response.reused if response else 0,
            call.ordinal,
            self._file(call.source),
        )

    def _tool(self, used: ToolUse) -> tuple[int, ...]:
        outcome = 2 if used.has_failed else _outcome(used.outcome)
        begun = self._beginning(used.incarnation)
        started, ended = _since(begun, used.started), _since(begun, used.ended)
        return (
            self.string("tool"),
            self.string(used.name),
            self._file(used.file),
            _known(used.line),
            outcome,
            started,
            started,
            ended,
            *_REST_OF_TOOL,
        )

    def _beginning(self, incarnation: int) -> int:
        """The time at which a process began to write, in microseconds since the run began."""
        begun = self._begun.get(incarnation)
        if begun is None:
            wall = self.trace.wall
            begun = self._begun[incarnation] = (wall(0, incarnation) - wall(0)) // 1000
        return begun

    def _file(self, file: str | None) -> int:
        return -1 if file is None else self.string(file)


def _since(begun: int, at: int | None) -> int:
    return -1 if at is None else max(begun + at, 0)


def _known(number: int | None) -> int:
    return -1 if number is None else number


def outcome_of(trace: Trace, call: RecordedCall) -> str:
    """The outcome of *call*: also that its type refused the answer, or its map item failed."""
    outcome = call.ended_as or "in flight"
    if outcome != "answered" or not trace.failures:
        return outcome
    if call.address in trace.failures:
        return "refused"
    around = call.address
    while around := around.rpartition("/")[0]:
        if around in trace.failures:
            return "in a failed item"
    return outcome


def _outcome(outcome: str | None) -> int:
    return OUTCOMES.index(outcome or "in flight")


def answer_of(step: RecordedCall | ToolUse) -> str:
    """The result of a call as one text: the answer, the error, or nothing yet."""
    if isinstance(step, ToolUse):
        if step.message is not None:
            return step.message.shown
    elif step.response is not None:
        first = step.response.samples[0] if step.response.samples else None
        if first is not None:
            return "\n".join([*filter(None, [first.text]), *map(str, first.tool_calls)])
    return f"{type(step.error).__name__}: {step.error}" if step.error is not None else ""


def excerpt(step: RecordedCall | ToolUse) -> str:
    """The beginning of ``answer_of`` on one line."""
    line = " ".join(answer_of(step)[: 4 * SAID].split())
    return line if len(line) <= SAID else line[: SAID - 1] + "…"
