"""Answers of people that are added to a run which waits for them.

Invariant: only the user's own runs are added to, under the lock of the file and signed with the
user's key; each answer is checked by its form first, and all are added or none.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

from appl import config as settings
from appl.errors import NoSuchQuestion, TraceLocked
from appl.runtime.event import Observed
from appl.runtime.waiting.forms import Form
from appl.runtime.waiting.people import ANSWERED, answer_data, this_user
from appl.runtime.waiting.wall_clock import now
from appl.session.ownership import recording_owner, require_own
from appl.tracing.reading.trace import Trace
from appl.tracing.reading.waits import WAITING, RecordedQuestion, open_questions
from appl.tracing.recording.appender import Addition
from appl.tracing.recording.secret import Masker


def add_answers(
    path: Path, answers: Mapping[str, str], *, via: str, by: str | None = None
) -> list[RecordedQuestion]:
    """Add *answers*, texts by address, to the run at *path*; the questions that they answer.

    *by* is who gives them, the user of this system if nobody is named, and *via* the way. Raises
    ``ValueError`` for an answer that does not fit, ``NoSuchQuestion``, ``UntrustedTrace``, and
    ``TraceLocked`` while a process has the run open.
    """
    require_own(path, False, "run its program yourself: nobody else answers for you")
    home = settings.load().home
    trace = Trace.open(path, home=home)
    if trace.state == "running":
        raise TraceLocked(
            f"{path.stem} is open in a process that goes on: answer the question there, or stop it "
            "first"
        )
    questions = open_questions(trace)
    chosen = []
    for address, text in answers.items():
        part = f"/{address.strip('/')}/"
        matches = [question for question in questions if question.address == address] or [
            question for question in questions if address and part in f"{question.address}/"
        ]
        if len(matches) != 1:
            where = ", ".join(question.address for question in questions) or "nothing"
            problem = "several places" if matches else "no open question"
            raise NoSuchQuestion(f"{path.stem} has {problem} at {address!r}; open: {where}")
        chosen.append((matches[0], text))
    values = [(question, checked(question, text)) for question, text in chosen]
    addition = Addition(trace, "answer", home=home, owner=recording_owner())
    for question, value in values:
        data = answer_data(value, by or this_user(), via)
        at = time.monotonic_ns()
        addition.on_event(Observed(question.address, question.ordinal, ANSWERED, data, at))
    addition.close(WAITING)
    return [question for question, _ in values]


def checked(question: RecordedQuestion, text: str) -> object:
    """The plain value of an answer to *question*. Raises ``ValueError`` with the address."""
    if question.due is not None and question.due <= now():
        raise ValueError(f"{question.address} has expired: the run goes on without an answer")
    try:
        value = Form.of_data(question.form, question.arguments).typed(text)
    except ValueError as error:
        raise ValueError(f"{question.address}: {error}") from None
    names: list[str] = []
    Masker().text(text, names)
    if names:
        raise ValueError(
            f"{question.address}: the answer holds {', '.join(names)}, which is not recorded: a "
            "run cannot go on with it"
        )
    return value
