from __future__ import annotations

import os
import signal

import pytest

from appl.tracing import Trace

from .conftest import Project


def test_the_value_is_printed_and_the_run_recorded(project: Project) -> None:
    done = project.run("ask", "--question", "Why?")
    assert done.code == 0
    assert len(done.out.strip()) == 6
    assert "recording in .appl/runs/" in done.err
    assert "1 done" in done.err
    (path,) = project.traces
    trace = Trace.open(path)
    assert [call.address for call in trace.calls] == ["/ask.0/gen.0"]
    assert trace.state == "finished"
    assert trace.header["entry"]["argv"][:2] == ["--question", "Why?"]
    assert path.stat().st_mode & 0o777 == 0o600


def test_lists_are_printed_line_by_line(project: Project) -> None:
    assert len(project.run("many", "--n", "4").out.split()) == 4
    assert len(project.run("lines", "--n", "3").out.split()) == 3
    assert len(project.run("pair", "--first", "one").out.split()) == 2


def test_a_file_is_run_as_it_is_though_it_was_edited_within_the_same_second(
    project: Project,
) -> None:
    for answer in (1, 2):
        file = project.write("edited.py", f"def main():\n    return {answer}\n")
        os.utime(file, (1_700_000_000, 1_700_000_000))
        assert project.appl("run", "edited.py").out.strip() == str(answer)
    assert not (project.folder / "__pycache__").exists()


def test_a_coroutine_function_is_run_on_a_loop(project: Project) -> None:
    assert len(project.run("later", "--question", "q").out.strip()) == 6
    assert [c.address for c in Trace.open(project.traces[0]).calls] == ["/ask.0/gen.0"]


def test_json_stands_alone_on_stdout(project: Project) -> None:
    done = project.run("nothing", "--json")
    assert done.data["value"] is None
    assert "printed" in done.err
    data = project.run("table", "--json").data
    assert set(data["value"]) == {"answer"}
    assert data["run"]["calls"] == data["run"]["answered"] == 1
    assert data["run"]["trace"] == str(project.traces[-1].relative_to(project.folder))


def test_a_failure_is_a_document_too(project: Project) -> None:
    done = project.run("boom", "--json")
    assert done.code == 1
    assert done.data["error"]["type"] == "ZeroDivisionError"
    assert done.data["exit_code"] == 1


def test_no_trace_records_nothing(project: Project) -> None:
    done = project.run("ask", "--no-trace")
    assert done.code == 0
    assert "recording" not in done.err
    assert not project.traces


def test_a_program_without_calls_leaves_no_trace(project: Project) -> None:
    assert project.run("nothing").out == "printed\n"
    assert not project.traces


def test_the_trace_can_go_to_a_file_of_its_own_once(project: Project) -> None:
    assert project.run("ask", "--trace", "own.trace").code == 0
    assert Trace.open("own.trace").calls
    again = project.run("ask", "--trace", "own.trace")
    assert again.code == 2
    assert "exists already" in again.err


def test_a_failing_program_shows_the_users_lines_only(project: Project) -> None:
    done = project.run("boom")
    assert done.code == 1
    assert "prog.py" in done.err
    assert "return 1 / 0" in done.err
    assert "ZeroDivisionError" in done.err
    assert "appl/cli" not in done.err
    assert Trace.open(project.traces[0]).reason == "failed"


def test_usage_mistakes_are_sentences_with_exit_code_2(project: Project) -> None:
    for words, said in (
        (["prog.py:aks"], "no function 'aks'; did you mean 'ask'?"),
        (["none.py:f"], "there is no file none.py"),
        (["no_such_module:f"], "there is no module 'no_such_module'"),
        (["prog.py:ask", "--model", "embeded"], "no model 'embeded'; did you mean 'embedded'?"),
        (["prog.py:ask", "--backend", "embeded"], "did you mean 'embedded'?"),
        (["prog.py:ask", "--temperature", "hot"], "--temperature must be a number"),
        (["prog.py:many", "--n", "x", "--backend", "appl.testing:Echo"], "--n needs int"),
    ):
        done = project.appl("run", *words)
        assert done.code == 2, (words, done.err)
        assert said in done.err
        assert "Traceback" not in done.err


def test_what_a_module_asks_at_import_belongs_to_the_run(project: Project) -> None:
    project.write(
        "eager.py",
        "from prog import ask\nfirst = ask('early')\ndef f(): return [first, ask('late')]\n",
    )
    done = project.appl("run", "eager.py:f", "--backend", "appl.testing:Echo")
    assert done.code == 0, done.err
    (path,) = project.traces
    assert [call.address for call in Trace.open(path).calls] == ["/ask.0/gen.0", "/ask.1/gen.0"]


def test_source_that_cannot_be_compiled_is_shown_with_its_caret(project: Project) -> None:
    project.write("lam.py", "from appl import ppl\nf = ppl(lambda x: x)\n")
    done = project.appl("run", "lam.py:f")
    assert done.code == 2
    assert "lam.py" in done.err
    assert "^" in done.err


def test_escape_sequences_of_an_answer_do_not_reach_the_terminal(project: Project) -> None:
    project.write(
        "evil.py",
        "from appl.testing import Scripted\n"
        "def backend(): return Scripted(['\\x1b[2J\\x1b]0;owned\\x07\\ud800hi\\0'])\n"
        "from prog import ask\n",
    )
    done = project.appl("run", "--backend", "evil:backend", "evil.py:ask")
    assert done.out == "\ufffdhi\n"
    shown = project.appl("trace", "show").out + project.appl("trace", "show", "/ask.0/gen.0").out
    assert "\x1b" not in shown
    assert "hi" in shown


def test_strange_and_long_text_survives_recording_and_replay(project: Project) -> None:
    project.write(
        "odd.py",
        "from prog import ask\n"
        "def f(): return [ask('\\0\\ud800\\x1b[2J'), ask('x' * 10_000_000)]\n",
    )
    first = project.appl("run", "odd.py:f", "--backend", "appl.testing:Echo")
    assert first.code == 0, first.err
    again = project.appl("trace", "replay")
    assert (again.code, again.out) == (0, first.out), again.err


def test_ctrl_c_gives_130_and_a_valid_trace(project: Project) -> None:
    project.write(
        "slow.py",
        "import asyncio\nfrom appl.testing import Instant\nfrom prog import ask\n"
        "class Never(Instant):\n"
        "    async def complete(self, request, emit=None):\n"
        "        print('asked', flush=True)\n"
        "        await asyncio.sleep(3600)\n"
        "def f(): return ask('never')\n",
    )
    running = project.process("-m", "appl", "run", "slow.py:f", "--backend", "slow:Never")
    assert running.stdout is not None
    assert running.stdout.readline() == "asked\n"
    running.send_signal(signal.SIGINT)
    _, err = running.communicate(timeout=60)
    assert running.returncode == 130, err
    assert "interrupted" in err
    assert "Traceback" not in err
    trace = Trace.open(project.traces[0])
    assert (trace.state, trace.reason) == ("finished", "interrupted")
    assert [call.outcome for call in trace.calls] == ["cancelled"]


def test_no_model_configured_is_said_in_one_line(project: Project) -> None:
    done = project.appl("run", "prog.py:ask", "--question", "Hello, who are you?")
    assert done.code == 0
    lines = [line for line in done.err.splitlines() if "no model is configured" in line]
    assert len(lines) == 1
    quiet = project.appl("run", "prog.py:ask", "--model", "embedded")
    assert "no model is configured" not in quiet.err


def test_a_method_needs_an_object(project: Project) -> None:
    project.write(
        "methods.py",
        "from appl import gen, ppl\n\nclass Agent:\n"
        '    @ppl\n    def ask(self):\n        "x"\n        return gen()\n'
        '    @classmethod\n    @ppl\n    def usual(cls):\n        "x"\n        return gen()\n',
    )
    for command in ("run", "render"):
        done = project.appl(command, "methods.py:Agent.ask")
        assert done.code == 2
        assert "Agent.ask is a method, which needs an object" in done.err
        assert "`def main(...): return Agent(...).ask(...)`" in done.err
        assert project.appl(command, "methods.py:Agent.usual").code == 0
    assert project.appl("graph", "methods.py:Agent.ask").code == 0
    assert project.appl("plan", "methods.py:Agent.ask").code == 0


@pytest.mark.parametrize("command", ["run", "render", "plan", "graph"])
def test_a_program_is_asked_for_in_one_way(project: Project, command: str) -> None:
    assert f"appl {command} needs file.py:function\n" in project.appl(command).err
    shown = project.appl(command, "--help").out
    assert (
        shown.startswith(f"Usage: appl {command} [options] file.py:function")
        and "without a function, main" in shown
    )


def test_a_late_error_names_the_try_that_was_left_before_it(project: Project) -> None:
    project.write(
        "late.py",
        "from appl import gen, ppl\n"
        "from appl.errors import BackendError\n"
        "from appl.testing import Scripted\n"
        "def backend(): return Scripted([BackendError('refused')])\n"
        "@ppl\ndef ask(q):\n    f'{q}'\n    return gen()\n"
        "@ppl\ndef other(q):\n    f'{q}'\n    return gen()\n"
        "def helper(f):\n"
        "    try:\n        return f('now')\n    except BackendError:\n        return 'n/a'\n"
        "def guarded():\n"
        "    try:\n        return ask('now')\n    except BackendError:\n        return 'n/a'\n"
        "def late(): return str(guarded())\n"
        "def unknown(): return str(helper(other))\n",
    )
    done = project.appl("run", "late.py:late", "--backend", "late:backend")
    assert "late.py:20: `ask('now')` is a future here" in done.err
    assert "the `try` on line 19 does not catch it; write `str(ask('now'))`" in done.err
    done = project.appl("run", "late.py:unknown", "--backend", "late:backend")
    assert "refused" in done.err and "is a future here" not in done.err
