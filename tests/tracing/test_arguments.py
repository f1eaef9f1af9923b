"""Arguments and results of functions in a trace: short, without secrets, and of no effect."""

from __future__ import annotations

import contextlib
import enum
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

import appl
from appl import Conversation, Secret, gen, ppl
from appl.errors import RunError
from appl.runtime.snapshot import snapshot
from appl.testing import Echo, Instant, Run
from appl.tracing import Recorder, Replayer, Trace, records

KEY = "sk-proj-4f9Ab27Qx81LmZ03kTyWv56RcEuHd"


class Mood(enum.Enum):
    GOOD = 1


@dataclass
class Ticket:
    title: str
    password: str = "swordfish"
    hidden: int = field(default=3, repr=False)


class Order(BaseModel):
    number: int
    notes: list[str] = []


class Rude:
    def __repr__(self) -> str:
        raise AssertionError("nobody asks")

    __str__ = __len__ = __iter__ = __repr__  # type: ignore[assignment]


@ppl
def ask(question: object, n: int = 3, *rest: object, **more: object) -> Any:
    f"{question!s:.20}" if isinstance(question, str) else "a question"
    return gen()


@ppl
def twice(question: object) -> Any:
    "one"
    first = gen()
    gen()
    return first


@ppl
def words(question: object) -> Any:
    return {"said": question, "mood": Mood.GOOD}


@ppl
def bad(question: object) -> Any:
    raise ValueError(f"no {question}")


def recorded(path: Path, program: Any, *args: Any, backend: Any = None, **options: Any) -> Trace:
    options = {"arguments": True, **options}
    recorder = Recorder(path, {"program": "p"}, **options)
    run = Run(backend or Instant(), instruments=[recorder], gate=recorder.gate)
    with run, contextlib.suppress(ValueError, RunError):
        str(program(*args))
    recorder.close()
    return Trace.open(path, home=options.get("home"))


def shown(trace: Trace) -> str | None:
    return trace.scopes[-1].arguments


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("it's", '"it\'s"'),
        (None, "None"),
        (1.5, "1.5"),
        (10**400, "<int>"),
        (b"abc", "<3 bytes>"),
        ([1, "a", (True,)], "[1, 'a', (True)]"),
        ([*range(9)], "[0, 1, 2, 3, 4, 5, …]"),
        ({"a": 1, "api_key": "x"}, "{'a': 1, 'api_key': ***}"),
        (Ticket("late"), "Ticket(title='late', password=***)"),
        (Order(number=7, notes=["x"]), "Order(number=7, notes=['x'])"),
        (Mood.GOOD, "Mood.GOOD"),
        (Secret("abcdefgh"), "Secret(***)"),
        (Path("/a/b"), "'/a/b'"),
        ([[[[[1]]]]], "[[[<list>]]]"),
        (Rude(), "<Rude>"),
        (Conversation([{"role": "user", "content": "Hi"}]), "Conversation(…, 'Hi')"),
        (int, "int"),
    ],
)
def test_a_value_is_shown_short_and_without_running_its_code(value: object, text: str) -> None:
    pieces = snapshot(value)
    assert "".join(p if i % 2 == 0 else repr(p) for i, p in enumerate(pieces)) == text


def test_arguments_go_by_the_names_of_their_parameters(tmp_path: Path) -> None:
    trace = recorded(tmp_path / "a.trace", lambda: ask("Who?", 4, 5, tone="dry", token="hush hush"))
    assert shown(trace) == "question='Who?', n=4, *args=(5), tone='dry', token=***"


def test_the_object_of_a_method_is_not_shown(tmp_path: Path) -> None:
    class Agent:
        @ppl
        def act(self, goal: str) -> Any:
            f"{goal}"
            return gen()

    assert shown(recorded(tmp_path / "a.trace", lambda: Agent().act("win"))) == "goal='win'"


def test_an_answer_that_is_not_there_is_not_waited_for(tmp_path: Path) -> None:
    trace = recorded(tmp_path / "a.trace", lambda: ask(ask("Who?")))
    assert shown(trace) == "question=<answer /ask.0/gen.0>"


def test_a_result_is_recorded_unless_it_is_the_answer_of_the_last_gen(tmp_path: Path) -> None:
    assert recorded(tmp_path / "a.trace", ask, "Who?").returns == {}
    assert (
        recorded(tmp_path / "b.trace", twice, "Who?").returns["/twice.0"].call == "/twice.0/gen.0"
    )
    result = recorded(tmp_path / "c.trace", words, "Who?").returns["/words.0"]
    assert (result.call, result.value, result.error) == (
        None, "{'said': 'Who?', 'mood': Mood.GOOD}", None,
    )  # fmt: skip
    error = recorded(tmp_path / "d.trace", bad, "luck").returns["/bad.0"].error
    assert isinstance(error, ValueError) and str(error) == "no luck"


def test_long_texts_are_cut_and_no_secret_that_is_cut_is_left(tmp_path: Path) -> None:
    for before in (0, 150, 180, 195, 4000):
        text = f"{'x ' * (before // 2)}{KEY} and more " * 2
        path = tmp_path / f"{before}.trace"
        trace = recorded(path, words, text)
        said = repr(list(records(path)))
        assert len(shown(trace) or "") < 300
        assert not any(KEY[at : at + 12] in said for at in range(len(KEY) - 12))


def test_a_known_secret_with_quotes_in_it_is_masked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_PASSWORD", 'it\'s "a" \\secret\\')
    path = tmp_path / "a.trace"
    recorded(path, words, 'say it\'s "a" \\secret\\ now')
    assert "secret\\" not in repr(list(records(path))).replace("\\\\", "\\")


def test_many_and_large_arguments_take_little_room(tmp_path: Path) -> None:
    trace = recorded(tmp_path / "a.trace", words, [["y" * 3000] * 100] * 100)
    assert len(shown(trace) or "") <= 1000
    assert len(trace.returns["/words.0"].value or "") <= 1000


@pytest.mark.parametrize("mode", ["redacted", "digests"])
def test_a_private_trace_has_none_of_them(tmp_path: Path, mode: Any) -> None:
    pytest.importorskip("cryptography")
    path = tmp_path / "a.trace"
    trace = recorded(path, words, "my diagnosis", privacy=mode, home=tmp_path)
    assert "diagnosis" not in repr(list(records(path))) and "Who" not in (shown(trace) or "")


def test_what_a_hook_takes_out_of_messages_is_taken_out_of_them(tmp_path: Path) -> None:
    def redact(message: Any) -> Any:
        return type(message)(message.role, message.content.replace("Mira", "[name]"))

    path = tmp_path / "a.trace"
    trace = recorded(path, words, "Mira asks", redact=redact)
    assert shown(trace) == "question='[name] asks'"
    recorded(path.with_name("b.trace"), bad, "Mira", redact=redact)
    assert "Mira" not in repr([list(records(p)) for p in tmp_path.glob("*.trace")])


def test_without_the_option_nothing_is_shown_and_a_replay_is_the_same(tmp_path: Path) -> None:
    traces = [
        recorded(tmp_path / f"{on}.trace", twice, "Who?", arguments=on, backend=Echo())
        for on in (True, False)
    ]
    assert [trace.scopes[-1].arguments for trace in traces] == ["question='Who?'", None]
    for trace in traces:
        replayer = Replayer(trace)
        with Run(replayer.backend, instruments=[replayer], world=replayer):
            str(twice("Who?"))
        replayer.finish()
    one, other = ([call.content for call in trace.calls] for trace in traces)
    assert one == other


def test_the_setting_turns_it_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for value, wanted in (("on", "question='Who?'"), ("off", None)):
        monkeypatch.setenv("APPL_ARGUMENTS", value)
        path = tmp_path / f"{value}.trace"
        with appl.record(path, backend="appl.testing:Echo"):
            str(ask("Who?"))
        (scope,) = [each for each in Trace.open(path).scopes if each.name == "ask"]
        assert scope.arguments == (None if wanted is None else "question='Who?'")
