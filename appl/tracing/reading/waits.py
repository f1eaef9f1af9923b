"""The waits of a recorded run, when it ended or was broken off.

Invariant: only reads; a record that says something else than expected says nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from appl.base.moments import moment_of
from appl.errors import Awaited
from appl.tracing.reading.trace import Observation, Trace

WAITING = "waiting"
ASKED, ANSWERED = "asked", "answered"
ASKING = ("question", "approval")
"""Kinds of waits that a person ends."""


@dataclass(frozen=True, slots=True)
class RecordedQuestion:
    """A recorded question to a person; ``answer`` is as recorded, ``None`` while it is open.

    ``form`` says as data what can be answered. ``tool`` and ``arguments`` are those of an approval.
    ``due`` is when it expires. ``asked`` is when it was put for the first time, in nanoseconds
    since 1970.
    """

    address: str
    ordinal: int
    text: str
    form: Mapping[str, Any]
    tool: str
    arguments: Mapping[str, Any]
    due: float | None
    asked: int
    answer: Mapping[str, Any] | None = None

    @property
    def kind(self) -> str:
        """``approval`` or ``question``."""
        return "approval" if self.tool else "question"

    @property
    def verdict(self) -> str:
        """Its state, in a word: ``open``, ``approved``, ``refused``, …"""
        if self.answer is None:
            return "open"
        value = self.answer.get("value")
        if self.answer.get("expired"):
            return "expired"
        if not self.tool:
            return "answered"
        if not isinstance(value, Mapping) or value.get("approved") is not True:
            return "refused"
        return "approved with other arguments" if "arguments" in value else "approved"

    def as_data(self) -> dict[str, Any]:
        """The question as JSON-ready data."""
        data: dict[str, Any] = {
            "address": self.address,
            "kind": self.kind,
            "question": self.text,
            "form": dict(self.form),
            "due": self.due,
            "verdict": self.verdict,
            "answer": dict(self.answer) if self.answer is not None else None,
        }
        return data | ({"tool": self.tool, "arguments": dict(self.arguments)} if self.tool else {})


def questions_in(trace: Trace) -> list[RecordedQuestion]:
    """All questions to people, in the order in which they were put, with their answers."""
    questions: dict[tuple[str, int], RecordedQuestion] = {}
    for observation in trace.observations:
        key = observation.address, observation.ordinal
        if observation.kind == ASKED and isinstance(observation.value, Mapping):
            questions.pop(key, None)  # an edited program asks something else in its place
            questions[key] = _question(trace, observation, observation.value)
        elif (
            observation.kind == ANSWERED
            and key in questions
            and isinstance(observation.value, Mapping)
        ):
            questions[key] = replace(questions[key], answer=observation.value)
    return list(questions.values())


def open_questions(trace: Trace) -> list[RecordedQuestion]:
    """The questions that a person may answer now, for the run to go on.

    One that was put before the run ended as waiting, and that it did not wait for then, was given
    up by its program.
    """
    ends = [
        observation
        for observation in trace.observations
        if observation.kind == WAITING and observation.address == ""
    ]
    last = ends[-1] if ends else None
    waited = {entry.address for entry in _entries(last.value)} if last is not None else set()
    put = {(o.address, o.ordinal): o.position for o in trace.observations if o.kind == ASKED}
    return [
        question
        for question in questions_in(trace)
        if question.answer is None
        and (
            last is None
            or put[question.address, question.ordinal] > last.position
            or question.address in waited
        )
    ]


def is_due(trace: Trace, now: float) -> bool:
    """True if something that the run waits for has come: an answer, or a time."""
    waits = waits_in(trace)
    if any(entry.due is not None and entry.due <= now for entry in waits):
        return True
    open_addresses = {question.address for question in open_questions(trace)}
    return any(entry.kind in ASKING and entry.address not in open_addresses for entry in waits)


def _question(trace: Trace, observation: Observation, value: Mapping[str, Any]) -> RecordedQuestion:
    form, arguments = value.get("form"), value.get("arguments")
    return RecordedQuestion(
        observation.address,
        observation.ordinal,
        str(value.get("question", "")),
        form if isinstance(form, Mapping) else {},
        str(value.get("tool", "")),
        arguments if isinstance(arguments, Mapping) else {},
        moment_of(value.get("due")),
        trace.wall(observation.at, observation.incarnation),
    )


def waits_in(trace: Trace) -> list[Awaited]:
    """The waits of the run when it ended as waiting; empty if it ended otherwise."""
    if trace.state != "finished" or trace.reason != WAITING:
        return []
    last: Observation | None = None
    for observation in trace.observations:
        if observation.kind == WAITING and observation.address == "":
            last = observation
    return _entries(last.value) if last is not None else []


def _entries(value: object) -> list[Awaited]:
    return [entry for item in value for entry in _entry(item)] if isinstance(value, list) else []


def _entry(data: object) -> list[Awaited]:
    if not isinstance(data, list) or len(data) != 4:
        return []
    address, kind, text, due = data
    if not (isinstance(address, str) and isinstance(kind, str) and isinstance(text, str)):
        return []
    return [Awaited(address, kind, text, moment_of(due))]
