"""The beginnings of a run's texts, and the scores of its evaluations: for a list of many runs.

Invariant: what is kept of a run is bounded; a run that cannot be read has nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from appl.errors import TraceError
from appl.tracing.reading.trace import RecordedCall, Trace

_SHORT, _LONG, _CALLS = 300, 20_000, 40
_MOST_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class RunTexts:
    """The first question and the last answer in short, and text in which is searched."""

    question: str = ""
    answer: str = ""
    evaluations: list[dict[str, object]] = field(default_factory=list)
    searched: str = ""

    def has(self, wanted: str) -> bool:
        """True if the text *wanted*, in small letters, is in one of its texts."""
        return wanted in self.searched


NOTHING = RunTexts()


def texts_of(path: Path, size: int) -> RunTexts:
    """The texts of the run at *path*, which has so many bytes; of a large one nothing is read."""
    if size > _MOST_BYTES:
        return NOTHING
    try:
        trace = Trace.open(path)
        return _texts(trace)
    except (TraceError, OSError):
        return NOTHING


def _texts(trace: Trace) -> RunTexts:
    calls = [call for call in trace.calls if call.started is not None]
    answered = [call for call in calls if call.response is not None and call.ended is not None]
    first = calls[0] if calls else None
    last = max(answered, key=lambda call: (call.incarnation, call.ended or 0), default=None)
    found: list[str] = []
    for call in calls[:_CALLS]:
        found += [_question(call), _answer(call)]
    return RunTexts(
        "" if first is None else _short(_question(first)),
        "" if last is None else _short(_answer(last)),
        _evaluations(trace),
        "\n".join(text[:_LONG] for text in found)[:_LONG].casefold(),
    )


def _question(call: RecordedCall) -> str:
    """The last that a user said in the prompt of *call*."""
    links = call.messages.links() if call.messages is not None else []
    for link in reversed(links):
        if link.message.role == "user":
            return link.message.content
    return links[-1].message.content if links else ""


def _answer(call: RecordedCall) -> str:
    samples = call.response.samples if call.response is not None else ()
    return samples[0].text if samples else ""


def _short(text: str) -> str:
    line = " ".join(text[: 4 * _SHORT].split())
    return line if len(line) <= _SHORT else f"{line[: _SHORT - 1]}…"


def _evaluations(trace: Trace) -> list[dict[str, object]]:
    """Of each evaluation its program, the number of its samples, and the mean of each score."""
    if not any(each.kind == "evaluation" for each in trace.observations):
        return []
    from appl.parts.evaluation.trace_reading import all_recorded  # few runs have any

    evaluations: list[dict[str, object]] = []
    for one in all_recorded(trace):
        means: dict[str, float] = {}
        for name in one.names:
            every = [sample.scores.get(name) for sample in one.samples]
            scores = [score for score in every if score is not None]
            if scores:
                means[name] = sum(scores) / len(scores)
        evaluations.append({"program": one.program, "samples": len(one.samples), "scores": means})
    return evaluations
