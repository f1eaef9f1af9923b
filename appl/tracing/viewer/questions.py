"""The questions of a run to people, as the viewer shows and answers them.

Invariant: texts are cut, and an open question says which answers can be chosen.
"""

from __future__ import annotations

import json

from appl.tracing.reading.trace import Trace
from appl.tracing.reading.waits import RecordedQuestion, open_questions, questions_in, waits_in

_LONG, _MOST = 4_000, 200


def questions(trace: Trace) -> list[dict[str, object]]:
    """The questions to people, as JSON-ready data; open ones are marked."""
    still_open = {(question.address, question.ordinal) for question in open_questions(trace)}
    return [
        _question(question, (question.address, question.ordinal) in still_open)
        for question in questions_in(trace)[:_MOST]
    ]


def waits(trace: Trace) -> list[str]:
    """The waits of the run besides those for people, in words."""
    return [
        entry.text[:_LONG]
        for entry in waits_in(trace)[:_MOST]
        if entry.kind not in ("question", "approval")
    ]


def _question(question: RecordedQuestion, is_open: bool) -> dict[str, object]:
    answer = question.answer or {}
    kind, options = question.form.get("kind"), question.form.get("options")
    choices: list[str] = []
    if kind in ("approval", "yes or no"):
        choices = ["yes", "no"]
    elif kind == "choice" and isinstance(options, list | tuple):
        choices = [str(option) for option in options[:_MOST]]
    arguments = json.dumps(dict(question.arguments), ensure_ascii=False, default=str)
    return {
        "address": question.address,
        "text": question.text[:_LONG],
        "tool": question.tool,
        "arguments": arguments[:_LONG] if question.tool else "",
        "open": is_open,
        "verdict": question.verdict if question.answer is not None or is_open else "given up",
        "by": str(answer.get("by", ""))[:_LONG],
        "value": "" if "value" not in answer else str(answer["value"])[:_LONG],
        "choices": choices,
        "json": kind == "json",
        "due": question.due,
    }
