"""What a newcomer is told who writes something wrong, or whose run did not end well."""

from __future__ import annotations

import json
import signal

import pytest

from appl.backend import Usage
from appl.cli.display import EVERY_NS, PlainDisplay
from appl.cli.trace.show import sums_line
from appl.errors import BackendError
from appl.testing import CallDispatched, CallEnded

from .conftest import Project
from .test_display import ended, sent, started


@pytest.fixture
def recorded(project: Project) -> Project:
    """A project with one run of three calls."""
    assert project.run("many").code == 0
    return project


@pytest.mark.parametrize("words", [(), ("trace",)])
def test_a_command_that_is_left_out_is_answered_with_those_there_are(
    project: Project, words: tuple[str, ...]
) -> None:
    told = project.appl(*words)
    assert told.code == 2 and not told.out
    assert "Usage: appl" in told.err and "show" in told.err


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("program.py", "--n", "2"), "write `appl run program.py`"),
        (("program.py:ask",), "write `appl run program.py:ask`"),
        (("version",), "write `appl --version`"),
        (("help",), "write `appl --help`"),
        (("-V",), "did you mean '--version'?"),
        (("trace", "help"), "write `appl trace --help`"),
        (("run", "--model"), "--model needs a value"),
        (("run", "-m", "x", "program.py"), "did you mean '--m"),
    ],
)
def test_what_is_no_command_or_option_is_answered_with_what_was_probably_meant(
    project: Project, words: tuple[str, ...], hint: str
) -> None:
    told = project.appl(*words)
    assert told.code == 2 and hint in told.err


@pytest.mark.parametrize(
    ("target", "problem"),
    [
        (".", "write the program as file.py:function, got '.'"),
        ("a..b:f", "write the program as file.py:function, got 'a..b:f'"),
        ("./sub", "sub is a folder; write a program in it as file.py:function"),
    ],
)
def test_a_target_that_is_no_program_is_told_in_a_sentence(
    project: Project, target: str, problem: str
) -> None:
    (project.folder / "sub").mkdir()
    told = project.appl("run", target)
    assert (told.code, told.err) == (2, f"appl: {problem}\n")


@pytest.mark.parametrize(
    ("budget", "problem"),
    [
        (
            "token=3",
            "--budget has no limit 'token'; did you mean 'tokens'? (known: cost, tokens, calls)",
        ),
        ("tokens=few", "--budget tokens must be a whole number of at least 1, got 'few'"),
    ],
)
def test_a_budget_that_is_none_is_named_as_it_was_written(
    project: Project, budget: str, problem: str
) -> None:
    told = project.run("ask", "--budget", budget)
    assert (told.code, told.err) == (2, f"appl: {problem}\n")


def test_a_backend_in_place_of_a_model_is_told_as_one(project: Project) -> None:
    told = project.appl("run", "prog.py:ask", "--model", "sglang")
    assert "'sglang' is a backend: write sglang/MODEL" in told.err


def test_a_parameter_that_may_be_repeated_says_so_beside_its_name(project: Project) -> None:
    project.write("words.py", "def f(words: list[str] = []):\n    return words\n")
    told = project.appl("run", "words.py:f", "--help").out
    assert "--words str" in told and "str (may be repeated)" not in told
    assert "may be repeated; default: []" in told


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("ls", "-n", "-3"), "-n is a number of runs, 0 for all, got -3"),
        (("fuzz", "--seeds", "0"), "--seeds is a number of runs from 1 on, got 0"),
        (("view", "--port", "99999"), "--port is a number from 0 to 65535, got 99999"),
        (
            ("bisect", "last"),
            "the command 'bisect' was removed; write `git bisect run appl trace replay RUN`",
        ),
        (("show", "last", "last"), "CALL begins with a slash, as in /main.0/gen.0, got 'last'"),
        (("export", "--chrome", "no/where"), "no/where cannot be written: No such file"),
        (("rerun", "--dry-run", "--set", "*.nonsense=1"), "there is no option 'nonsense' to set"),
    ],
)
def test_what_cannot_be_done_with_a_run_is_told_in_a_sentence(
    recorded: Project, words: tuple[str, ...], problem: str
) -> None:
    told = recorded.appl("trace", *words)
    assert told.code == 2 and not told.out
    assert told.err.startswith(f"appl: {problem}")


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("show", "--limit", "-1"), "--limit is a number of calls, got -1"),
        (("set", "concurrency", "0"), "a number from 1 on, got '0'"),
        (("set", "budget", "calls=-1"), "got 'calls=-1'"),
        (("set", "nothing", "1"), "LIMIT: got 'nothing'; write one of concurrency, budget"),
    ],
)
def test_a_limit_that_is_none_is_not_sent_to_a_run(
    project: Project, words: tuple[str, ...], problem: str
) -> None:
    told = project.appl("ctl", *words)
    assert told.code == 2 and problem in told.err


@pytest.mark.parametrize("words", [("show",), ("import",), ("salvage",), ("replay",)])
def test_a_file_that_is_no_trace_is_named(project: Project, words: tuple[str, ...]) -> None:
    told = project.appl("trace", *words, "prog.py")
    begins = "it does not begin with APPLTRC1"
    assert (told.code, told.err) == (4, f"appl: prog.py is not a trace: {begins}\n")


def test_of_many_runs_that_are_meant_the_latest_are_told(project: Project) -> None:
    for _ in range(5):
        project.run("ask")
    some = ", ".join(path.stem for path in project.traces[-4:])
    told = project.appl("trace", "show", "2").err
    assert told == (
        f"appl: '2' is the beginning of 5 runs: the latest are {some}; write more of one's name\n"
    )


def test_the_price_of_a_dry_run_has_its_unit_once(recorded: Project) -> None:
    told = recorded.appl("trace", "rerun", "--dry-run", "--set", "/ask.0/gen.0.temperature=1").out
    live, whole = told.splitlines()[-1].split(" calls would be live, ")
    assert live == "1 of 3" and whole.count("tokens") == 1 and " of " in whole


def test_a_run_that_failed_is_shown_with_its_error(project: Project) -> None:
    assert project.run("boom").code == 1
    assert "\n  error    ZeroDivisionError: division by zero\n" in project.appl("trace", "show").out


def test_a_test_that_cannot_be_written_says_so_behind_the_programs_failure(
    project: Project,
) -> None:
    project.run("boom")
    told = project.appl("trace", "export-test")
    assert told.code == 1 and "ZeroDivisionError" in told.err
    assert "appl: no test is written of " in told.err
    assert not list(project.folder.glob("test_*"))


SLOW = """\
from appl.testing import Fake

class Never(Fake):
    def __init__(self):
        super().__init__(lambda _: "yes")

    async def complete(self, request, emit=None):
        print("asked", flush=True)
        import asyncio
        await asyncio.Event().wait()
"""


def test_an_interrupted_run_says_how_to_go_on_and_is_no_finished_one(project: Project) -> None:
    project.write("never.py", SLOW)
    running = project.process("-m", "appl", "run", "prog.py:ask", "--backend", "never:Never")
    assert running.stdout is not None and running.stdout.readline() == "asked\n"
    running.send_signal(signal.SIGINT)
    _, err = running.communicate(timeout=60)
    name = project.traces[-1].stem
    assert running.returncode == 130
    assert err.endswith(f"appl: `appl trace resume {name}` goes on with it\n")
    told = project.appl("trace", "verify").out
    assert "state    interrupted, replays as far as it goes; appl trace resume goes on" in told
    assert (
        "* ended by: `KeyboardInterrupt`" in project.appl("trace", "export", "--markdown", "-").out
    )


def test_a_thread_that_an_interrupted_program_leaves_is_named(
    project: Project,
) -> None:
    project.write("never.py", SLOW)
    project.write(
        "left.py",
        "import threading\nfrom prog import ask\ndef f():\n"
        "    threading.Thread(target=threading.Event().wait, name='t').start()\n"
        "    threading.Thread(target=stay, name='stayer').start()\n"
        "    return str(ask('x'))\ndef stay():\n    threading.Event().wait()\n",
    )
    running = project.process("-m", "appl", "run", "left.py:f", "--backend", "never:Never")
    assert running.stdout is not None and running.stdout.readline() == "asked\n"
    assert running.stderr is not None
    running.send_signal(signal.SIGINT)
    for line in running.stderr:
        if "goes on at" in line:
            break
    assert line.startswith("appl: the program's stayer goes on at ") and "left.py:8;" in line
    running.kill()
    running.communicate()


def test_verify_counts_the_calls_that_a_resumed_run_began_again(project: Project) -> None:
    project.write("never.py", SLOW)
    running = project.process("-m", "appl", "run", "prog.py:ask", "--backend", "never:Never")
    assert running.stdout is not None and running.stdout.readline() == "asked\n"
    running.send_signal(signal.SIGINT)
    running.communicate(timeout=60)
    resumed = project.appl("trace", "resume", "--backend", "appl.testing:Echo")
    assert resumed.code == 0, resumed.err
    assert "digests  2 of 2 calls computed again" in project.appl("trace", "verify").out
    assert "\n  resumed  1 time\n" in project.appl("trace", "show").out


def test_a_run_without_answers_in_tokens_tells_of_no_speed() -> None:
    plain = PlainDisplay()
    plain.on_event(started("/a"))
    plain.on_event(ended("/a", 1, Usage(10, 0, 4)))
    assert plain.counts.line() == "1 done, 4 of 10 prompt tokens cached, cost unknown"


def test_a_line_waits_for_the_call_that_takes_the_place_of_one_that_ended(
    capsys: pytest.CaptureFixture[str],
) -> None:
    plain = PlainDisplay()
    later = plain.counts.began + EVERY_NS
    for address in ("/a", "/b"):
        plain.on_event(started(address))
    plain.on_event(sent("/a"))
    plain.on_event(CallEnded("/a", None, BackendError("no"), later))
    assert not capsys.readouterr().err
    plain.on_event(CallDispatched("/b", 1, later))
    assert "1 running, 0 done, 1 failed" in capsys.readouterr().err


def test_json_of_a_verdict_says_how_the_run_ended(recorded: Project) -> None:
    (verdict,) = json.loads(recorded.appl("trace", "verify", "--json").out)
    assert (verdict["state"], verdict["reason"], verdict["replay"]) == (
        "finished",
        "finished",
        "whole",
    )


def test_an_interrupted_run_that_is_replayed_says_that_resume_goes_on(project: Project) -> None:
    project.write("never.py", SLOW)
    running = project.process("-m", "appl", "run", "prog.py:ask", "--backend", "never:Never")
    assert running.stdout is not None and running.stdout.readline() == "asked\n"
    running.send_signal(signal.SIGINT)
    running.communicate(timeout=60)
    told = project.appl("trace", "replay")
    assert told.code == 3 and "`appl trace resume` goes on with it" in told.err


def test_calls_that_are_in_flight_are_counted_among_those_there_are() -> None:
    tokens = {"prompt_tokens": 3}
    assert sums_line({"in_flight": 2, "tokens": tokens}) == "2 in flight; 3 prompt tokens"
    assert sums_line({"answered": 0, "tokens": tokens}) == "none; 3 prompt tokens"


def test_arguments_that_the_audited_program_does_not_take_are_wrong_usage(project: Project) -> None:
    told = project.appl("check", "--replayable", "prog.py:ask", "--", "what")
    assert told.code == 2
    assert "give arguments by name, as --name value; got 'what'" in told.err


def test_settings_with_few_values_name_them(project: Project) -> None:
    told = " ".join(project.appl("run", "--help").out.split())
    assert "how a trace stores texts: full, redacted or digests" in told


def test_every_command_says_what_run_means(project: Project) -> None:
    for command in ("critical", "cost", "stuck", "view", "rerun", "rm", "salvage"):
        told = " ".join(project.appl("trace", command, "--help").out.split())
        assert "a path, the beginning of a run's name, or last" in told, command
