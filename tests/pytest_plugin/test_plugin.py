"""Marked tests: answered from tapes, recorded on demand, failing with an explanation; in process."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from appl import gen, ppl
from appl.parts.pytest_plugin import (
    network,
    running,  # noqa: F401 - loaded once, outside of what pytester forgets after each run
)
from appl.testing import Echo, Run
from appl.tracing import Recorder, Trace, tape
from appl.tracing.tape import naming

pytest_plugins = "pytester"

PROGRAM = """
from appl import gen, ppl

QUESTION = "What is it?"

@ppl
def ask(question):
    f"{question}"
    return gen()

@ppl
async def wonder(question):
    f"{question}"
    return str(await gen())
"""
ANSWERS = """
from appl.testing import Scripted

asked = []

def answer(request):
    asked.append(request.address)
    return f"live {request.messages.message.content}"

class Answers(Scripted):
    def __init__(self):
        super().__init__(answer)
"""
TEST = """
import pytest
from program import ask, QUESTION

@pytest.mark.appl
def test_it():
    assert ask(QUESTION) == "live What is it?"
"""


@pytest.fixture
def folder(pytester: pytest.Pytester) -> pytest.Pytester:
    """A project with a program, a backend that counts what it is asked, and settings."""
    pytester.makepyfile(program=PROGRAM, answers=ANSWERS)
    pytester.path.joinpath("appl.toml").write_text('backend = "answers:Answers"\n')
    pytester.makeini(
        "[pytest]\nasyncio_mode = auto\nasyncio_default_fixture_loop_scope = function\n"
    )
    pytester.syspathinsert()
    return pytester


def run(folder: pytest.Pytester, *words: str) -> pytest.RunResult:
    plugins = ("appl.parts.pytest_plugin", "no:cacheprovider", "no:hypothesispytest", "no:anyio")
    return folder.runpytest_inprocess(*(f"-p{each}" for each in plugins), *words)


def tapes(folder: pytest.Pytester) -> list[str]:
    return sorted(str(p.relative_to(folder.path)) for p in folder.path.rglob("*.jsonl"))


@ppl
def ask(question: str) -> str:
    f"{question}"
    return str(gen())


# -- recording and answering


def test_a_missing_tape_is_a_failure_that_says_what_records_it(folder: pytest.Pytester) -> None:
    folder.makepyfile(test_a=TEST)
    result = run(folder)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["there is no tape tapes/test_a/test_it.jsonl; `pytest 'test_a.py::test_it' --appl-record=new` records it"]
    )  # fmt: skip
    assert tapes(folder) == []


def test_a_recorded_test_is_answered_from_its_tape_and_asks_nobody(folder: pytest.Pytester) -> None:
    folder.makepyfile(test_a=TEST)
    result = run(folder, "--appl-record=new")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["appl: 1 recorded"])
    assert tapes(folder) == ["tapes/test_a/test_it.jsonl"]
    assert list(folder.path.glob(".appl/runs/*")) == []
    folder.makepyfile(answers="raise SystemError('no backend is made')")
    again = run(folder)
    again.assert_outcomes(passed=1)
    again.stdout.fnmatch_lines(
        ["appl: tests marked with appl are answered from their tapes, nothing goes live", "appl: 1 answered from tapes"]
    )  # fmt: skip


def test_recording_twice_gives_the_same_tape(folder: pytest.Pytester) -> None:
    folder.makepyfile(test_a=TEST)
    found = []
    for _ in range(2):
        run(folder, "--appl-record=all").assert_outcomes(passed=1)
        found.append(folder.path.joinpath("tapes/test_a/test_it.jsonl").read_text())
    assert found[0] == found[1]


def test_new_leaves_the_tapes_that_are_there_alone_and_all_does_not(
    folder: pytest.Pytester,
) -> None:
    folder.makepyfile(test_a=TEST.replace('== "live What is it?"', ""))
    run(folder, "--appl-record=new").assert_outcomes(passed=1)
    path = folder.path / "tapes/test_a/test_it.jsonl"
    path.write_text(path.read_text().replace("live What", "edited What"))
    run(folder, "--appl-record=new").assert_outcomes(passed=1)
    assert "edited" in path.read_text()
    run(folder, "--appl-record=all").assert_outcomes(passed=1)
    assert "edited" not in path.read_text()


def test_an_answer_edited_on_the_tape_is_what_the_test_gets(folder: pytest.Pytester) -> None:
    folder.makepyfile(test_a=TEST)
    run(folder, "--appl-record=new")
    path = folder.path / "tapes/test_a/test_it.jsonl"
    path.write_text(path.read_text().replace('"live What is it?"', '"a cat"'))
    result = run(folder)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*a cat*"])


def test_a_test_that_fails_while_it_is_recorded_leaves_its_tape_alone_and_loses_nothing(
    folder: pytest.Pytester,
) -> None:
    folder.makepyfile(test_a=TEST.replace("live What", "dead What"))
    result = run(folder, "--appl-record=new")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*no tape is made of a test that fails; its run is *.appl/runs/*"])
    assert tapes(folder) == []
    (kept,) = folder.path.glob(".appl/runs/*.trace")
    assert Trace.open(kept).calls[0].response is not None


def test_a_test_that_asks_nothing_has_an_empty_tape(folder: pytest.Pytester) -> None:
    folder.makepyfile(test_a=TEST.replace('assert ask(QUESTION) == "live What is it?"', "pass"))
    run(folder, "--appl-record=new").assert_outcomes(passed=1)
    run(folder).assert_outcomes(passed=1)


# -- what differs


def test_a_changed_prompt_fails_with_the_explanation_and_without_frames_of_ours(
    folder: pytest.Pytester,
) -> None:
    folder.makepyfile(test_a=TEST)
    run(folder, "--appl-record=new")
    folder.makepyfile(program=PROGRAM.replace("is it?", "was it?"))
    result = run(folder)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "DivergenceError: /ask.0/gen.0 * was recorded with another content in test_it.jsonl",
            "*issued now at *program.py:8*",
            "*differs: message 1 (user)",
            "*- What is it?",
            "*+ What was it?",
            "*the tape: tapes/test_a/test_it.jsonl; * --appl-record=all` records it anew",
        ]
    )
    assert "replayer.py" not in result.stdout.str()
    assert "During handling" not in result.stdout.str()


SWALLOWED = """
import pytest
from program import ask, QUESTION

@pytest.mark.appl
def test_it():
    try:
        str(ask(QUESTION))
    except Exception:
        pass
"""


def test_a_divergence_that_the_program_swallowed_fails_the_test(folder: pytest.Pytester) -> None:
    folder.makepyfile(test_a=SWALLOWED)
    run(folder, "--appl-record=new").assert_outcomes(passed=1)
    folder.makepyfile(program=PROGRAM.replace("is it?", "was it?"))
    run(folder).assert_outcomes(failed=1)


def test_a_call_that_is_asked_for_no_more_fails_the_test(folder: pytest.Pytester) -> None:
    folder.makepyfile(test_a=TEST)
    run(folder, "--appl-record=new")
    folder.makepyfile(test_a=TEST.replace('assert ask(QUESTION) == "live What is it?"', "pass"))
    result = run(folder)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["UnusedRecords: 1 of 1 recorded calls were never asked for*"])


def test_a_broken_tape_is_named_with_its_line(folder: pytest.Pytester) -> None:
    folder.makepyfile(test_a=TEST)
    run(folder, "--appl-record=new")
    path = folder.path / "tapes/test_a/test_it.jsonl"
    path.write_text(path.read_text() + "<<<<<<< HEAD\n")
    result = run(folder)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["TraceCorrupt: *test_it.jsonl, line *"])


# -- what was changed goes live


PATCHED = """
import pytest
from program import ask

@pytest.mark.appl(mode="patch")
def test_it(appl_run):
    for number in range(4):
        str(ask(f"question {number}"))
"""


def test_a_renamed_function_keeps_its_answers_and_the_failure_says_how(
    folder: pytest.Pytester,
) -> None:
    folder.makepyfile(test_a=PATCHED.replace('mode="patch"', ""))
    run(folder, "--appl-record=new").assert_outcomes(passed=1)
    program = (folder.path / "program.py").read_text().replace("def ask(", "def asked(")
    (folder.path / "program.py").write_text(program)
    (folder.path / "test_a.py").write_text(
        PATCHED.replace("ask", "asked").replace('mode="patch"', "")
    )
    failed = run(folder)
    failed.assert_outcomes(failed=1)
    failed.stdout.fnmatch_lines(["*where calls only moved, mark the test with mode='patch', and *"])
    (folder.path / "test_a.py").write_text(PATCHED.replace("ask", "asked"))
    moved = run(folder, "--appl-record=new", "-rP")
    moved.assert_outcomes(passed=1)
    assert "0 of 4 calls live" in moved.stdout.str()
    run(folder).assert_outcomes(passed=1)


def test_a_patched_tape_pays_for_what_was_changed_alone(folder: pytest.Pytester) -> None:
    folder.makepyfile(test_a=PATCHED)
    run(folder, "--appl-record=new").assert_outcomes(passed=1)
    path = folder.path / "tapes/test_a/test_it.jsonl"
    before = path.read_text()
    edited = before.replace('"live question 1"', '"as it was"')
    path.write_text(edited)
    same = run(folder, "--appl-record=new")
    same.assert_outcomes(passed=1)
    same.stdout.fnmatch_lines(["appl: 1 answered from tapes"])
    assert path.read_text() == edited
    folder.makepyfile(test_a=PATCHED.replace('f"question {number}"', 'f"question {number ** 2}"'))
    run(folder).assert_outcomes(failed=1)
    assert path.read_text() == edited
    changed = run(folder, "--appl-record=new", "-rP")
    changed.assert_outcomes(passed=1)
    changed.stdout.fnmatch_lines(["*live: /ask.2/gen.0: *", "appl: 1 patched"])
    said = [call.response.text for call in tape.read(path).calls if call.response]
    assert said == ["live question 0", "as it was", "live question 4", "live question 9"]
    run(folder).assert_outcomes(passed=1)
    assert list(folder.path.glob(".appl/runs/*.trace")) == []


# -- which tests, and which tapes


MANY = """
import asyncio
import pytest
from program import ask, wonder

@pytest.mark.appl
async def test_coroutine(appl_run):
    said = await asyncio.gather(*(wonder(f"{n}") for n in range(5)))
    assert said == [f"live {n}" for n in range(5)]
    assert list(appl_run.prompts.values()) == [f"user: {n}" for n in range(5)]

@pytest.mark.appl
@pytest.mark.parametrize("word", ["a", "A/b", "a b", "\\u00fc", "x" * 200])
def test_parameters(word):
    assert ask(word) == f"live {word}"

def test_unmarked():
    pass
"""
MARKS = """
import unittest
import pytest
from program import ask

pytestmark = pytest.mark.appl

class TestClass:
    def test_method(self):
        assert ask("m") == "live m"

    @pytest.mark.appl(tape="shelf/{module}-{test}.jsonl")
    def test_elsewhere(self):
        assert ask("e") == "live e"

class Case(unittest.TestCase):
    def test_case(self):
        self.assertEqual(str(ask("c")), "live c")
"""


def test_coroutines_and_parameters_have_tapes_of_their_own(folder: pytest.Pytester) -> None:
    folder.makepyfile(test_a=MANY)
    run(folder, "--appl-record=new").assert_outcomes(passed=7)
    assert len(tapes(folder)) == 6
    assert all(len(Path(name).name) < 130 for name in tapes(folder))
    run(folder).assert_outcomes(passed=7)
    read = tape.read(folder.path / "tapes/test_a/test_coroutine.jsonl")
    assert list(read.by_address) == [f"/wonder.{n}/gen.0" for n in range(5)]


def test_marks_of_modules_and_classes_hold_and_the_nearest_wins(folder: pytest.Pytester) -> None:
    folder.makepyfile(test_a=MARKS)
    run(folder, "--appl-record=new").assert_outcomes(passed=3)
    assert tapes(folder) == [
        "shelf/test_a-TestClass.test_elsewhere.jsonl",
        "tapes/test_a/Case.test_case.jsonl",
        "tapes/test_a/TestClass.test_method.jsonl",
    ]
    run(folder).assert_outcomes(passed=3)


def test_a_test_with_mode_live_goes_live_only_where_that_is_allowed(
    folder: pytest.Pytester,
) -> None:
    folder.makepyfile(test_a=TEST.replace("mark.appl", "mark.appl(mode='live')"))
    run(folder).assert_outcomes(skipped=1)
    for _ in range(2):
        result = run(folder, "--appl-record=new")
        result.assert_outcomes(passed=1)
        result.stdout.fnmatch_lines(["appl: 1 recorded"])


def test_settings_of_the_mark_are_those_of_what_goes_live(folder: pytest.Pytester) -> None:
    folder.makepyfile(test_a=TEST.replace("mark.appl", "mark.appl(temperature=0.5)"))
    run(folder, "--appl-record=new").assert_outcomes(passed=1)
    assert '"options": {"temperature": 0.5}' in (folder.path / tapes(folder)[0]).read_text()
    run(folder).assert_outcomes(passed=1)


@pytest.mark.parametrize(
    ("mark", "told"),
    [
        ("appl(privacy='digests')", "a tape is plain text, and privacy = 'digests'; write *"),
        ("appl(mode='reply')", "mode is one of replay, patch, live, got 'reply'"),
        ("appl(temprature=1)", "there is no 'temprature'; did you mean 'temperature'?"),
        ("appl('a.jsonl')", "it takes names only: write @pytest.mark.appl(tape='a.jsonl')"),
    ],
)
def test_a_wrong_mark_fails_the_test_with_a_sentence(
    folder: pytest.Pytester, mark: str, told: str
) -> None:
    folder.makepyfile(test_a=TEST.replace("mark.appl", f"mark.{mark}"))
    result = run(folder, "--appl-record=new")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([f"*@pytest.mark.appl: {told.replace('[', '[[]')}"])


def test_the_fixture_in_an_unmarked_test_is_an_error(folder: pytest.Pytester) -> None:
    folder.makepyfile(test_a="def test_it(appl_run): pass")
    run(folder).assert_outcomes(errors=1)


# -- the network


ONLINE = """
import pytest, socket
from program import ask

TRIES = [
    lambda: socket.socket().connect(("192.0.2.1", 9)),
    lambda: socket.socket().connect_ex(("192.0.2.1", 9)),
    lambda: socket.socket(socket.AF_INET6).connect(("2001:db8::1", 9)),
    lambda: socket.socket(type=socket.SOCK_DGRAM).sendto(b"x", ("192.0.2.1", 9)),
    lambda: socket.getaddrinfo("example.invalid", 80),
]

@pytest.mark.appl(tape="tapes/one.jsonl")
@pytest.mark.parametrize("number", range(5))
@pytest.mark.parametrize("caught", [ZeroDivisionError, Exception])
def test_away(number, caught):
    str(ask("q"))
    try:
        TRIES[number]()
    except caught:
        pass

@pytest.mark.appl(tape="tapes/one.jsonl")
def test_here():
    str(ask("q"))
    with socket.create_server(("127.0.0.1", 0)) as server:
        socket.create_connection(("localhost", server.getsockname()[1])).close()
"""


def test_nothing_reaches_another_machine_and_this_one_may_be_reached(
    folder: pytest.Pytester,
) -> None:
    folder.makepyfile(test_a=ONLINE)
    run(folder, "--appl-record=new", "-k", "here").assert_outcomes(passed=1)
    result = run(folder)
    result.assert_outcomes(passed=1, failed=10)
    text = result.stdout.str()
    assert text.count("NetworkBlocked: a connection to 192.0.2.1:9 was blocked") >= 6


def test_the_guard_is_gone_after_the_test_and_not_there_with_network_true() -> None:
    with network.guarded() as guard, pytest.raises(network.NetworkBlocked):
        socket.getaddrinfo("example.invalid", 80)
    assert guard.first is not None
    with pytest.raises(OSError):
        socket.getaddrinfo("example.invalid.", 80)
    for here in (
        "127.0.0.1",
        "::1",
        "localhost",
        "0.0.0.0",
        "::ffff:127.0.0.1",
        b"localhost",
        None,
    ):
        assert network._is_here(here)
    for away in ("10.0.0.1", "example.org", "::ffff:10.0.0.1", "169.254.169.254"):
        assert not network._is_here(away)


def test_an_event_loop_can_be_made_under_the_guard() -> None:
    with network.guarded():
        assert asyncio.run(asyncio.sleep(0, "ok")) == "ok"


# -- what it costs, and several at once


def test_loading_the_plugin_loads_nothing_of_what_answers() -> None:
    code = (
        "import pytest, sys; before = set(sys.modules); import appl.parts.pytest_plugin;"
        "print(*sorted(set(sys.modules) - before))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    base, parts = ["appl.base", "appl.base.fallback"], ["appl.parts", "appl.parts.pytest_plugin"]
    assert done.stdout.split() == ["appl", *base, "appl.base.services", *parts]


def test_several_threads_may_write_one_tape(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "a.trace", {"program": "p"})
    with Run(Echo(), instruments=[recorder], gate=recorder.gate):
        assert ask("question")
    recorder.close()
    trace = Trace.open(tmp_path / "a.trace")
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: tape.save(trace, tmp_path / "a.jsonl"), range(40)))
    assert (tmp_path / "a.jsonl").read_text() == "".join(tape.write(trace))


def test_names_of_tapes_do_not_clash() -> None:
    words = ["test_x[1]", "test_x_1", "test_x[a b]", "test_x[a_b]", "test_x[a/b]", "x" * 300, "x" * 301]  # fmt: skip
    assert len({naming.word(word) for word in words}) == len(words)
