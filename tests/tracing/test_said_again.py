"""An answer that a prompt says again is stored once, and comes back in both places."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from made import answer, asked, end, read_back, start
from test_late_encoding import stalled

from appl.backend import Request, Sampling
from appl.errors import TraceCorrupt, TraceWriteError
from appl.prompt import Message, Messages
from appl.tracing import Recorder, Trace, records
from appl.tracing.format import codec
from appl.tracing.keeping import share

LONG = "one thing follows from another, " * 10
BOOK = "chapter after chapter, " * 1_000
SECRET = "sk-0123456789abcdef0123"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a.trace"


def chat(recorder: Any, *answers: str, role: str = "assistant", of: str = "p") -> list[Messages]:
    """A conversation in which each answer is said again; the prompts that were asked."""
    found, chain = list[Messages](), None
    for turn, said in enumerate(answers):
        chain = Messages(chain, Message("user", f"question {turn}"))
        found.append(chain)
        start(recorder, Request(f"/{of}.0/gen.{turn}", turn, "m", chain, Sampling()))
        end(recorder, f"/{of}.0/gen.{turn}", answer(said))
        chain = Messages(chain, Message(role, said))  # type: ignore[arg-type]
    return found


def contents(path: Path) -> list[Any]:
    """What the records of assistants' messages hold."""
    inner = [fields[2] if fields[0] == "!" else fields for fields in records(path)]
    return [fields[3] for fields in inner if fields[0] == "M" and fields[2] == "assistant"]


def test_an_answer_is_stored_once_however_long(path: Path) -> None:
    recorder = Recorder(path, {})
    prompts = chat(recorder, LONG + "a", BOOK, "short", "last")
    trace = read_back(path, recorder)
    assert [type(each) for each in contents(path)] == [int, int, str]
    assert [call.messages and list(call.messages) for call in trace.calls] == [
        list(each) for each in prompts
    ]
    assert [call.messages and call.messages.digest for call in trace.calls] == [
        each.digest for each in prompts
    ]
    answers = [c.response and c.response.text for c in trace.calls]
    assert answers == [LONG + "a", BOOK, "short", "last"]


def test_one_answer_said_in_many_prompts_is_one_message(path: Path) -> None:
    recorder = Recorder(path, {})
    chat(recorder, LONG)
    for i in range(3):
        start(recorder, asked(f"/q.{i}/gen.0", "question 0", LONG, "why?"))
    trace = read_back(path, recorder)
    (of,) = contents(path)
    assert [fields[1] for fields in records(path) if fields[0] == "E"] == [of]
    assert [[m.content for m in call.messages or ()] for call in trace.calls[1:]] == [
        ["question 0", LONG, "why?"]
    ] * 3


def test_what_somebody_else_says_is_stored_as_it_is(path: Path) -> None:
    recorder = Recorder(path, {})
    chat(recorder, LONG, "last", role="user")
    named = Messages.of([Message("assistant", LONG, name="Ann"), Message("user", "q")])
    start(recorder, Request("/p.0/gen.2", 2, "m", named, Sampling()))
    trace = read_back(path, recorder)
    said = [fields for fields in records(path) if fields[0] == "M"]
    assert [each[3] for each in said if each[3] != "q"] == ["question 0", LONG, "question 1", LONG]
    assert [m.name for m in trace.calls[2].messages or ()] == ["Ann", None]


def test_a_secret_in_an_answer_is_one_in_the_prompts_that_say_it_again(path: Path) -> None:
    recorder = Recorder(path, {}, secrets={"NAME": SECRET})
    chat(recorder, f"{LONG}: {SECRET}", LONG, "last")
    trace = read_back(path, recorder)
    assert SECRET not in repr(list(records(path)))
    assert [call.masked for call in trace.calls] == [("NAME",)] * 3
    shown = [m.content for m in trace.calls[1].messages or ()]
    assert shown == ["question 0", f"{LONG}: [secret NAME]", "question 1"]


def test_an_answer_that_cannot_be_stored_is_told_where_it_is_said_again(path: Path) -> None:
    recorder, go = stalled(path)
    start(recorder, asked("/first.0/gen.0", "holds the writer"))
    chain = Messages.of([Message("user", "q")])
    start(recorder, Request("/p.0/gen.0", 0, "m", chain, Sampling()))
    odd: Any = replace(answer(LONG), model=object())
    end(recorder, "/p.0/gen.0", odd)
    longer = Messages(Messages(chain, Message("assistant", LONG)), Message("user", "r"))
    start(recorder, Request("/p.0/gen.1", 1, "m", longer, Sampling()))
    go.set()
    with pytest.raises(TraceWriteError, match="a record E cannot be recorded"):
        recorder.close()
    trace = Trace.open(path)
    assert [call.outcome for call in trace.calls] == [None] * 3
    assert [m.content for m in trace.calls[2].messages or ()] == ["q", LONG, "r"]


def test_what_was_forgotten_and_what_an_earlier_process_heard_is_stored_again(path: Path) -> None:
    recorder = Recorder(path, {})
    recorder.encoder.written.most_text = len(LONG)
    for of, which in ("p", "a"), ("q", "b"), ("r", "c"):
        chat(recorder, LONG + which, of=of)
        recorder.barrier()  # it forgets after a group
    start(recorder, asked("/r.0/gen.1", "question 0", LONG + "c", "why?"))
    start(recorder, asked("/p.0/gen.1", "question 0", LONG + "a", "why?"))
    recorder.close()
    again = Recorder(path, append=True)
    start(again, asked("/r.0/gen.2", "question 0", LONG + "c", "why?", "so", "how?"))
    trace = read_back(path, again)
    assert [type(each) for each in contents(path)] == [int, str, str, str]
    assert [len(call.messages or ()) for call in trace.calls] == [1, 1, 1, 3, 3, 5]


@pytest.mark.parametrize("options", [{"privacy": "redacted"}, {"privacy": "digests"},
                                     {"redact": lambda message: message}])  # fmt: skip
def test_private_traces_refer_to_no_answer(path: Path, options: Any) -> None:
    recorder = Recorder(path, {}, home=path.parent, **options)
    chat(recorder, LONG, BOOK, "last")
    read_back(path, recorder)
    assert contents(path) and all(type(each) is not int for each in contents(path))


@pytest.mark.parametrize("content", [False, True])
def test_a_shared_file_shows_of_both_what_it_shows_of_the_answer(path: Path, content: bool) -> None:
    recorder = Recorder(path, {})
    chat(recorder, f"{LONG} sk-{'abcdefghijkl' * 2}", "last")
    recorder.close()
    target = path.with_name("b.trace")
    share(path, target, content=content)
    first, second = Trace.open(target).calls
    said = [m.content for m in second.messages or ()][1]
    assert first.response is not None and said == first.response.text
    assert said == (f"{LONG} [key]" if content else f"[{len(LONG) + 28} characters]")
    assert second.masked


@pytest.mark.parametrize(
    "fields",
    [
        ("M", 90, "assistant", 99),  # no call
        ("M", 90, "assistant", 4),  # one that has no answer
        ("M", 90, "user", 3),
        ("M", 90, "assistant", 3, {"name": "Ann"}),
        ("M", 90, "assistant", True),
    ],
)
def test_a_reference_to_no_answer_is_a_trace_error(fields: Any, path: Path) -> None:
    recorder = Recorder(path)
    chat(recorder, LONG)
    start(recorder, asked("/q.0/gen.0", "never answered"))
    recorder.barrier()
    (parameters,) = {fields[1] for fields in records(path) if fields[0] == "P"}
    node = ("N", 91, None, 90, b"")
    begun = ("S", 92, "/z.0", "gen.0", 0, "gen", 91, parameters, 1, 0, b"", [], None, 1, 1, None)
    for each in (fields, node, begun):
        recorder.writer.append(codec.pack(each))
    recorder.close()
    with pytest.raises(TraceCorrupt, match="is not valid"):
        _ = Trace.open(path).by_address["/z.0/gen.0"].messages
