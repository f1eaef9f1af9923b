"""``appl check --replayable``: each thing that a program does not declare is found, with its cause."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from appl import cli
from appl.cli.perturbed_process import Environment, ProcessOutcome, spawned
from appl.cli.replayable import VARIATIONS
from appl.cli.trace.recorded_program import RecordedProgram

PROGRAM = """
import datetime, random, threading, time, uuid
import appl
from appl import gen, ppl

@ppl
def ask(question):
    f"{question}"
    return gen()

def declared(name="Ada"):
    return [str(ask(f"{name} {i} {appl.now()} {appl.random()} {appl.uuid()}")) for i in range(2)]

def names():
    return str(ask(" ".join({"alpha", "beta", "gamma", "delta", "epsilon"})))

def dice():
    return str(ask(f"{random.random()}"))

def ids():
    return str(ask(f"{uuid.uuid4()}"))

def day():
    return str(ask(f"today is {datetime.date.today()}"))

def took():
    began = time.time()
    time.sleep(0.002)
    return str(ask("slow" if time.time() > began else "fast"))

def year():
    ask("what year?")
    return datetime.datetime.now().year

def where():
    return str(ask(f"{open('state.txt').read()}"))

@ppl(model="large")
def named():
    "question"
    return str(gen()) + str(gen("own"))

def boom():
    raise ValueError("boom")

def loops():
    while True:
        pass
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "appl.toml").write_text("")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def program(folder: Path, function: str) -> RecordedProgram:
    return RecordedProgram("cli", str(folder / "program.py"), function, (), 0, "")


def recorded(folder: Path, function: str) -> tuple[Path, ProcessOutcome]:
    """A trace of *function*, and what it does when it is recorded."""
    trace, one = folder / "a.trace", program(folder, function)
    first = spawned(one, Environment(), trace, record="appl.testing:Echo", folder=folder)
    assert first.error is None, first.error
    return trace, first


def again(folder: Path, function: str, world: Environment) -> tuple[ProcessOutcome, ProcessOutcome]:
    """What *function* does when it is recorded, and when it is replayed in *world*."""
    trace, first = recorded(folder, function)
    return first, spawned(program(folder, function), world, trace, folder=folder)


NAMED = {name: world for name, world, _ in VARIATIONS}


@pytest.mark.parametrize(
    ("function", "varied"),
    [
        ("names", "another hash seed"),
        ("dice", "other random numbers"),
        ("ids", "other random numbers"),
        ("day", "another clock"),
        ("took", "a frozen clock"),
    ],
)
def test_what_was_not_declared_diverges_in_its_world_alone(
    folder: Path, function: str, varied: str
) -> None:
    trace, first = recorded(folder, function)
    found = spawned(program(folder, function), NAMED[varied], trace, folder=folder)
    assert found.diverged
    assert found.error is not None
    assert "usual causes" in found.error["message"]
    if function in ("ids", "dice", "day"):  # with nothing varied, the world holds still
        found = spawned(program(folder, function), Environment(), trace, folder=folder)
        assert (found.error, found.value, found.calls) == (None, first.value, 1)


def test_a_value_that_differs_is_found_without_a_prompt_that_does(folder: Path) -> None:
    first, found = again(folder, "year", NAMED["another clock"])
    assert found.error is None
    assert found.value != first.value


def test_a_program_that_declares_what_it_sees_is_the_same_in_every_world(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["check", "--replayable", "program.py:declared", "--backend", "appl.testing:Echo"]
    assert cli.main([*words, "--json", "--", "--name", "Eve"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["replayable"] and told["calls"] == 2
    assert [each["varied"] for each in told["replays"]] == [name for name, _, _ in VARIATIONS]


def test_only_the_backend_of_the_audit_answers_whatever_the_settings_say(folder: Path) -> None:
    (folder / "appl.toml").write_text(
        'model = "openai/gpt-4o"\notel = "http://127.0.0.1:9"\n'
        '[models]\nlarge = "openai/o1"\nown = ["openai/a", "litellm/b"]\n'
    )
    first, found = again(folder, "named", Environment())
    assert (first.calls, found.value) == (2, first.value)


def test_a_file_that_changes_is_found_as_what_no_world_holds_still(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state = folder / "state.txt"
    state.write_text("one")
    one = program(folder, "where")
    trace = folder / "a.trace"
    spawned(one, Environment(), trace, record="appl.testing:Echo", folder=folder)
    state.write_text("two")
    found = spawned(one, Environment(), trace, folder=folder)
    assert found.diverged


def test_findings_are_told_with_their_cause_and_the_exit_code_is_3(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["check", "--replayable", "program.py:dice", "--backend", "appl.testing:Echo"]
    assert cli.main(words) == 3
    told = capsys.readouterr()
    assert "with other random numbers: DivergenceError: /ask.0/gen.0" in told.out
    assert "hint: random, secrets, uuid" in told.out
    assert "7 replays of 1 call, 1 differ" in told.err


def test_a_program_that_fails_or_does_not_end_is_no_audit(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--backend", "appl.testing:Echo"]
    assert cli.main(["check", "--replayable", "program.py:boom", *words]) == 1
    assert "fails when it is recorded: ValueError: boom" in capsys.readouterr().err
    assert cli.main(["check", "--replayable", "nothing.py", *words]) == 2
    assert "there is no file" in capsys.readouterr().err
    assert cli.main(["check", "--replayable", "program.py:loops", *words, "--seconds", "2"]) == 1
    assert "had not ended after 2 s" in capsys.readouterr().err
