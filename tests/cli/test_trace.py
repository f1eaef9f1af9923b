from __future__ import annotations

import json

from appl.session import replayed
from appl.tracing import Trace
from tests.trust.forging import make_strangers

from .conftest import Project


def recorded(project: Project, function: str = "many", *words: str) -> str:
    done = project.run(function, *words)
    assert done.code == 0, done.err
    return done.out


def test_ls_lists_the_newest_first(project: Project) -> None:
    assert "no run is recorded" in project.appl("trace", "ls").err
    recorded(project, "ask")
    recorded(project, "many")
    lines = project.appl("trace", "ls").out.splitlines()
    assert lines[0].split() == ["RUN", "STATE", "CALLS", "TOKENS", "COST", "SECONDS"]
    assert "-many-" in lines[1]
    assert lines[1].split()[1:3] == ["finished", "3"]
    assert "-ask-" in lines[2]
    data = project.appl("trace", "ls", "--json", "-n", "1").data
    assert [run["program"] for run in data] == ["many"]


def test_ls_names_what_it_cannot_read(project: Project) -> None:
    recorded(project)
    project.traces[0].write_bytes(b"\x1b[2Jnot a trace at all")
    done = project.appl("trace", "ls")
    assert done.code == 0
    assert "unreadable" in done.out
    assert "\x1b" not in done.out


def test_show_prints_the_run_and_one_call(project: Project) -> None:
    recorded(project, "pair", "--first", "one")
    run = project.appl("trace", "show", "pair").out
    assert "/pair.0" in run and "  gen.0" in run
    assert "prog.py:pair --first one" in run
    call = project.appl("trace", "show", "last", "/pair.0/gen.1").out
    assert "[assistant]" in call
    assert "holds    the answers of /pair.0/gen.0" in call
    assert project.appl("trace", "show", "--json").data["calls"][0]["address"] == "/pair.0/gen.0"
    assert project.appl("trace", "show", "/pair.0/gen.1", "--json").data["edges"]


def test_names_that_mean_nothing_are_usage_or_trace_errors(project: Project) -> None:
    assert project.appl("trace", "show").code == 4
    recorded(project)
    wrong = project.appl("trace", "show", "/many.0/gen.9")
    assert wrong.code == 2
    assert "has no call" in wrong.err
    assert project.appl("trace", "show", "nothing-like-it").code == 4
    assert project.appl("trace", "show", "a", "b", "c").code == 2


def test_a_damaged_trace_is_refused_and_its_beginning_salvaged(project: Project) -> None:
    recorded(project, "many", "--n", "200")
    path = project.traces[0]
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0xFF
    path.write_bytes(data)
    done = project.appl("trace", "show")
    assert done.code in (0, 4)  # a flip in the last block is a torn tail
    assert project.appl("trace", "show", "--salvage").code == 0


def test_replay_prints_the_same_for_nothing(project: Project) -> None:
    out = recorded(project, "pair", "--first", "one")
    again = project.appl("trace", "replay")
    assert (again.code, again.out) == (0, out)
    assert again.err.splitlines()[-1] == "appl: replayed 2 calls, 0 live, 0 tokens paid"
    assert len(project.traces) == 1
    data = project.appl("trace", "replay", "--json").data
    assert data["run"] == {
        "replayed": 2, "live": 0, "tokens_paid": 0, "trace": str(project.traces[0].relative_to(project.folder)),
    }  # fmt: skip


def test_replay_of_a_coroutine_and_of_a_generator(project: Project) -> None:
    for function, words in (("later", ["--question", "q"]), ("lines", []), ("many", ["--n", "50"])):
        out = recorded(project, function, *words)
        again = project.appl("trace", "replay", function)
        assert (again.code, again.out) == (0, out), again.err


def test_a_changed_program_diverges_with_an_explanation(project: Project) -> None:
    recorded(project, "ask", "--question", "Why?")
    source = (project.folder / "prog.py").read_text()
    project.write("prog.py", source.replace('f"{question}"', 'f"{question}!"'))
    done = project.appl("trace", "replay")
    assert done.code == 3
    assert "changed since the recording: prog.py" in done.err
    assert "/ask.0/gen.0" in done.err
    assert "- Why?" in done.err
    assert "+ Why?!" in done.err


def test_calls_that_are_not_asked_for_are_an_error(project: Project) -> None:
    recorded(project, "many", "--n", "3")
    source = (project.folder / "prog.py").read_text()
    project.write("prog.py", source.replace("range(n)", "range(n - 1)"))
    done = project.appl("trace", "replay")
    assert done.code == 3
    assert "1 of 3 recorded calls were never asked for" in done.err


def test_a_script_is_recorded_and_replayed(project: Project) -> None:
    project.write("script.py", "from prog import ask\nprint([str(ask(c)) for c in 'ab'])\n")
    first = project.python("script.py", APPL_BACKEND="appl.testing:Echo")
    assert first.code == 0, first.err
    assert "recording in .appl/runs/" in first.err
    again = project.python("-m", "appl", "trace", "replay")
    assert (again.code, again.out) == (0, first.out), again.err


def test_the_arguments_of_a_script_are_asked_for(project: Project) -> None:
    project.write("script.py", "import sys\nfrom prog import ask\nprint(ask(sys.argv[1]))\n")
    first = project.python("script.py", "sk-secret-word", APPL_BACKEND="appl.testing:Echo")
    assert b"sk-secret" not in json.dumps(Trace.open(project.traces[0]).header).encode()
    refused = project.python("-m", "appl", "trace", "replay")
    assert refused.code == 2
    assert "give them after --" in refused.err
    for run in (["last"], []):
        words = ["trace", "replay", *run, "--", "sk-secret-word"]
        again = project.python("-m", "appl", *words)
        assert (again.code, again.out) == (0, first.out), again.err


def test_a_strangers_trace_runs_nothing_that_the_user_did_not_name(project: Project) -> None:
    out = recorded(project, "ask")
    elsewhere = project.folder / "inner"
    elsewhere.mkdir()
    foreign = elsewhere / "foreign.trace"
    make_strangers(project.traces[0], foreign)
    inner = Project(elsewhere, project.programs)
    inner.write("mine.py", (project.folder / "prog.py").read_text())
    code = (
        "import os, sys; os.chdir('inner'); from appl.cli import main; sys.exit(main(sys.argv[1:]))"
    )
    words = ("-c", code, "trace", "replay", "foreign.trace")
    mine = ("--program", "mine.py:ask")
    for refused in (project.python(*words), project.python(*words, *mine)):
        assert refused.code == 2
        assert "write `appl trace replay foreign.trace --trust`" in refused.err
    elsewhere_still = project.python(*words, "--trust")
    assert elsewhere_still.code == 2
    assert "give it as --program file.py:function" in elsewhere_still.err
    again = project.python(*words, *mine, "--trust")
    assert (again.code, again.out) == (0, out), again.err


def test_a_block_is_recorded_and_replayed_inside_a_program(project: Project) -> None:
    project.write(
        "blocks.py",
        "import appl, sys\nfrom prog import ask\nfrom appl.session import replayed\n"
        "with appl.record('one.trace', backend='appl.testing:Echo') as session:\n"
        "    first = [str(ask(c)) for c in 'abc']\n"
        "assert str(session.path) == 'one.trace'\n"
        "with replayed('one.trace'):\n"
        "    assert [str(ask(c)) for c in 'abc'] == first\n"
        "print('same')\n",
    )
    done = project.python("blocks.py")
    assert done.out == "same\n", done.err
    assert callable(replayed)
    foreign = project.appl("trace", "replay", "one.trace")
    assert foreign.code == 2


def test_show_prints_what_is_not_text_as_placeholders(project: Project) -> None:
    project.write(
        "showing.py",
        "from appl import Audio, Image, ToolMessage, gen, ppl\n"
        "from appl.backend import Response, Sample\n"
        "from appl.prompt import ToolCall\n"
        "from appl.testing import Scripted\n"
        "CALLS = (ToolCall('c1', 'look', '{\"at\": \"\\x1b[2J\"}'),)\n"
        "ANSWER = Response((Sample('Let me see.', 'tool_calls', None, CALLS, 'I wonder'),))\n"
        "def backend(): return Scripted([ANSWER, 'A cat.'], features=('images', 'audio'))\n"
        "@ppl\n"
        "def main():\n"
        "    f\"What is {Image('https://example.com/cat.png')}?\"\n"
        "    Audio(b'meow', 'wav')\n"
        "    (answer := gen())\n"
        "    ToolMessage('nothing', tool_call_id=answer.tool_calls[0].id, has_error=True)\n"
        "    return gen()\n",
    )
    done = project.appl("run", "showing.py", "--backend", "showing:backend")
    assert done.code == 0, done.err
    shown = project.appl("trace", "show", "last", "/main.0/gen.1").out
    assert (
        "[user]\nWhat is [image https://example.com/cat.png]?[audio audio/wav, 4 bytes]\n" in shown
    )
    assert '[assistant] /main.0/gen.0\nLet me see.\n[call c1: look({"at": ' in shown
    assert "[tool, answers c1, failed] showing.py:13\nnothing\n" in shown
    assert "\x1b" not in shown
    first = project.appl("trace", "show", "last", "/main.0/gen.0")
    assert "[reasoning]\nI wonder\n" in first.out
    assert "[answer: tool_calls]\nLet me see.\n[call c1: look(" in first.out
    assert "Let me see. [call c1: look(" in project.appl("trace", "show").out
    data = project.appl("trace", "show", "last", "/main.0/gen.1", "--json").data
    assert data["messages"][0]["content"][1]["image_url"] == {"url": "https://example.com/cat.png"}
    replay = project.appl("trace", "replay")
    assert replay.code == 0, replay.err
