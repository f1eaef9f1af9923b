"""What becomes of questions in a dry run, in other orders of answers, and on a tape."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import appl
from appl import as_tool, gen, ppl
from appl.backend import Request, Response
from appl.errors import RunWaiting
from appl.session import predicted, replayed
from appl.session.answers import add_answers
from appl.session.replaying import replay_session
from appl.testing import Scripted, VirtualClock, calling
from appl.tracing import Trace
from appl.tracing.replaying import Fuzzer, plan
from appl.tracing.tape import save
from tests.waits.backends import answering, going_on, recorded

SENT: list[str] = []


def send(to: str) -> str:
    """Send it."""
    SENT.append(to)
    return f"sent to {to}"


TOOL = as_tool(send, approve="Send to {to}?")


def model(request: Request) -> str | Response:
    last = list(request.messages or ())[-1]
    if last.role == "tool" or "send" not in last.content:
        return f"so: {last.content}"
    return calling(("send", {"to": "Ann"}))


@ppl
def ask(text: str) -> Any:
    f"{text}"
    return gen()


@ppl
def program(word: str = "Go?") -> list[str]:
    went = appl.ask_person(word, bool)
    return [str(went), str(ask("one")), str(appl.gen_with_tools(messages="send", tools=[TOOL]))]


def finished(path: Path) -> list[str]:
    """The value of the program, which was asked and answered twice."""
    for answers in ({"program.0": "yes"}, {"send.0": "yes"}):
        with answering(Scripted(model)):
            block = going_on(path) if path.exists() else recorded(path)
            try:
                with block:
                    program()
            except RunWaiting:
                add_answers(path, answers, by="ann", via="test")
    with answering(Scripted(model)), going_on(path):
        return list(program())


def test_a_dry_run_takes_recorded_answers_and_ends_where_a_person_would_be_asked(
    tmp_path: Path,
) -> None:
    value, sent = finished(tmp_path / "a.trace"), len(SENT)
    assert value[0] == "True" and value[2] == "so: sent to Ann"
    same = predicted(tmp_path / "a.trace", program)
    assert not same.fewest and not same.stopped and not same.tools
    other = predicted(tmp_path / "a.trace", lambda: program("Really?"))
    assert "a person is asked at /program.0/ask_person.0" in other.stopped
    assert len(SENT) == sent


def test_answers_come_in_other_orders_and_no_tool_runs(tmp_path: Path) -> None:
    value, sent = finished(tmp_path / "a.trace"), len(SENT)
    trace = Trace.open(tmp_path / "a.trace")
    for seed in range(0, 8, 2):
        clock = VirtualClock()
        fuzzer = Fuzzer(trace, plan(trace, seed), clock.advance)
        with replay_session(fuzzer).run:
            assert program() == value
        assert not fuzzer.changed and not fuzzer.unknown
    assert len(SENT) == sent


def test_a_tape_holds_questions_and_answers(tmp_path: Path) -> None:
    value = finished(tmp_path / "a.trace")
    save(Trace.open(tmp_path / "a.trace"), tmp_path / "a.jsonl")
    with replayed(tmp_path / "a.jsonl"):
        assert program() == value
