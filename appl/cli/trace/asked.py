"""The questions to people in a run, and its other waits, as lines for a terminal."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from appl.cli.terminal import one_line
from appl.tracing import Trace
from appl.tracing.reading.waits import ASKING, RecordedQuestion, questions_in, waits_in

_WIDTH = 200
_SHOWN = 20


def lines(trace: Trace) -> Iterator[str]:
    """The questions with their answers, the last ones of many, and what is waited for."""
    questions = questions_in(trace)
    for number, question in enumerate(questions[-_SHOWN:]):
        name = "  asked    " if number == 0 else "           "
        yield name + one_line(_question(question), _WIDTH)
    others = [entry for entry in waits_in(trace) if entry.kind not in ASKING]
    for number, entry in enumerate(others[:_SHOWN]):
        name = "  waits    " if number == 0 else "           "
        yield name + one_line(f"{entry.address}: {entry.text}", _WIDTH)
    if trace.reason == "waiting" and any(question.answer is None for question in questions):
        yield f"           `appl trace answer {trace.path.stem}` shows how to answer"


def _question(question: RecordedQuestion) -> str:
    line = f"{question.address}: {question.text} -> {question.verdict}"
    if question.answer is None:
        due = "" if question.due is None else f", until {time_in_words(question.due)}"
        return line + due
    return line + _value(question) + _by(question.answer)


def _value(question: RecordedQuestion) -> str:
    value = (question.answer or {}).get("value")
    if not question.tool:
        return "" if question.verdict == "expired" else f" {json.dumps(value, ensure_ascii=False)}"
    if not isinstance(value, Mapping):
        return ""
    more = value.get("reason") or value.get("arguments")
    return f": {more if isinstance(more, str) else json.dumps(more)}" if more else ""


def _by(answer: Mapping[str, Any]) -> str:
    at, by, via = answer.get("at"), answer.get("by"), answer.get("via")
    author = f" by {by}" if by else ""
    when = f", {time_in_words(at)}" if isinstance(at, int | float) else ""
    return f"{author}{when}" + (f" ({via})" if via else "")


def time_in_words(seconds: float) -> str:
    """The day and time of so many *seconds* since 1970."""
    try:
        return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M} UTC"
    except (OverflowError, ValueError, OSError):
        return "at an unknown time"
