from __future__ import annotations

import re
from pathlib import Path

import pytest
from explain.support import call, trace

from appl.cli import main
from appl.tracing import Recorder, tape
from appl.tracing.reading import Span
from appl.tracing.reading.trace import Incarnation

from .conftest import Project
from .test_trace_diff import stable

ORIGINS = """\
from appl import AIRole, SystemRole, gen, grow, ppl

@ppl
def leaf(word):
    f"Explain {word}."
    return gen()

@ppl
def main():
    with SystemRole():
        "Be terse."
    f"First {leaf('one')},"
    f"then {'two'}."
    with AIRole():
        (answer := gen())
    text = str(answer)
    text
    f"In capitals: {text.upper()}, and as it was: {text}."
    grow("Go on.")
    return gen()
"""


def times(text: str) -> str:
    """*text* with every time as T."""
    return re.sub(r"\d+\.\d+ s", "T", stable(text))


def answers(text: str) -> str:
    """*text* with every answer of ``Echo`` as ANSWER."""
    return re.sub(r"\b[0-9a-fA-F]{6}\b", "ANSWER", text)


@pytest.fixture
def origins(project: Project) -> Project:
    project.write("prog.py", ORIGINS)
    done = project.run("main")
    assert done.code == 0, done.err
    return project


@pytest.fixture
def trip(project: Project) -> str:
    """A tape of a run whose times are known: two questions, one that holds their answers, one."""
    one, two = "/trip.0/about.0/gen.0", "/trip.0/about.1/gen.0"
    run = trace(
        call(one, 0.1, 1.1, 3.2, sent=0.2, first=0.5, line=6, text="Snow.", cost=120),
        call(two, 0.1, 2.1, 3.2, sent=1.1, first=1.4, line=6, text="Pasta.", cost=130),
        call("/trip.0/gen.0", 2.1, 3.1, 3.2, edges=(one, two), line=13, text="Rome.", cost=300),
        call("/motto.0/gen.0", 3.5, 5.0, 5.0, line=19, text="Go far.", cost=50),
        scopes=(
            ("/trip.0", 0.0), ("/trip.0/about.0", 0.05), ("/trip.0/about.1", 0.06),
            ("/motto.0", 3.4),
        ),
        header={"format": 1, "program": "trip", "backend": "fake", "model": "m", "seed": 1},
        incarnations=[Incarnation(0, 1, "host", "run", 1_700_000_000_000_000_000, 0)],
    )  # fmt: skip
    tape.save(run, Path("trip.tape"), full=True)
    return "trip.tape"


def test_the_tree_of_a_known_run(project: Project, trip: str) -> None:
    assert (
        project.appl("trace", "show", trip).out
        == """\
trip: finished, 2023-11-14 22:13:20 UTC, 4.9 s
  program  trip
  answers  fake/m, seed 1
  calls    4 answered; 40 prompt tokens, 16 of them cached, 20 generated
  cost     spent $0.0006, 40 prompt tokens, 20 completion tokens

CALL             TIME    TOKENS  CACHED  COST      LINE
/trip.0          3.00 s  30+15   12      $0.00055  program.py:1   3 calls
  about.0/gen.0  1.00 s  10+5    4       $0.00012  program.py:6   Snow.
  about.1/gen.0  2.00 s  10+5    4       $0.00013  program.py:6   Pasta.
  gen.0          1.00 s  10+5    4       $0.0003   program.py:13  Rome.
/motto.0/gen.0   1.50 s  10+5    4       $0.00005  program.py:19  Go far.
"""
    )


def test_the_critical_path_of_a_known_run(project: Project, trip: str) -> None:
    assert (
        project.appl("trace", "critical", trip).out
        == """\
trip: 5.00 s

the time went to
  answer    2.50 s  50%  answers in one piece: prefill and decode together
  queue     1.00 s  20%  waiting for their turn: slots, or a shared beginning that is sent first
  decode    0.70 s  14%  the rest of a streamed answer
  program   0.40 s  8%   the program's own code
  prefill   0.30 s  6%   until the first piece of a streamed answer
  delivery  0.10 s  2%   finished answers on their way to the program

the path
  at 0.00 s  0.10 s  program   /trip.0/about.1/gen.0 program.py:6
  at 0.10 s  1.00 s  queue     /trip.0/about.1/gen.0 program.py:6
  at 1.10 s  0.30 s  prefill   /trip.0/about.1/gen.0 program.py:6
  at 1.40 s  0.70 s  decode    /trip.0/about.1/gen.0 program.py:6
  at 2.10 s  1.00 s  answer    /trip.0/gen.0 program.py:13
  at 3.10 s  0.10 s  delivery  /trip.0/gen.0 program.py:13
  at 3.20 s  0.30 s  program   /motto.0/gen.0 program.py:19
  at 3.50 s  1.50 s  answer    /motto.0/gen.0 program.py:19

began only after an answer that its prompt does not hold
  /motto.0/gen.0 program.py:19
    after /trip.0/gen.0 program.py:13
    asked at once: 3.20 s, 1.80 s (36%) less
"""
    )


def test_the_costs_of_a_known_run(project: Project, trip: str) -> None:
    assert (
        project.appl("trace", "cost", trip, "--by", "line").out
        == """\
trip: spent $0.0006, 40 prompt tokens, 20 completion tokens

LINE           CALLS  KIND   PROMPT  CACHED  ANSWER  COST
program.py:13  1      spent  10      4       5       $0.0003
program.py:6   2      spent  20      8       10      $0.00025
program.py:19  1      spent  10      4       5       $0.00005

cache: 16 of 40 prompt tokens read; savings unpriced
"""
    )


def test_a_run_is_a_tree_with_times_tokens_and_lines(origins: Project) -> None:
    shown = answers(times(origins.appl("trace", "show").out))
    rows = [" ".join(row.split()) for row in shown[shown.index("\nCALL") :].strip().splitlines()]
    assert rows == [
        "CALL TIME TOKENS COST LINE",
        "/main.0 T 26+3 unknown prog.py:9 3 calls",
        "leaf.0/gen.0 T 2+1 unknown prog.py:6 ANSWER",
        "gen.0 T 6+1 unknown prog.py:15 ANSWER",
        "gen.1 T 18+1 unknown prog.py:20 ANSWER",
    ]


def test_a_call_shows_where_each_part_of_its_prompt_comes_from(origins: Project) -> None:
    shown = answers(origins.appl("trace", "show", "/main.0/gen.1").out)
    prompt = shown[shown.index("[system]") : shown.index("\n[answer")]
    assert [line.rstrip() for line in prompt.splitlines()] == [
        "[system] prog.py:11",
        "Be terse.",
        "",
        "[user]",
        "prog.py:12           | First",
        "/main.0/leaf.0/gen.0 > ANSWER",
        "prog.py:12           > ,",
        "prog.py:13           | then two.",
        "",
        "[assistant] /main.0/gen.0",
        "ANSWER",
        "",
        "[user]",
        "/main.0/gen.0 | ANSWER",
        "prog.py:18    | In capitals: ANSWER, and as it was:",
        "/main.0/gen.0 > ANSWER",
        "prog.py:18    > .",
        "prog.py:19    | Go on.",
    ]
    plain = answers(origins.appl("trace", "show", "/main.0/gen.1", "--plain").out)
    assert "[user]\nFirst ANSWER,\nthen two.\n" in plain


def test_origins_are_data_too(origins: Project) -> None:
    data = origins.appl("trace", "show", "/main.0/gen.0", "--json").data
    texts = [message["content"] for message in data["messages"]]
    spans = [[Span(**each) for each in of] for of in data["spans"]]
    assert [of[-1].end for of in spans] == [len(text) for text in texts]
    assert [each.call for each in spans[1]] == [None, "/main.0/leaf.0/gen.0", None, None]
    assert {Path(each.file or "").name for each in spans[0]} == {"prog.py"}


def test_the_critical_path_tells_what_the_data_did_not_need(project: Project) -> None:
    project.write(
        "prog.py",
        "from appl import gen, ppl\n\n"
        "@ppl\ndef ask(word):\n    f'{word}'\n    return gen()\n\n"
        "def main():\n    first = str(ask('one'))\n    return [first, str(ask('two'))]\n",
    )
    assert project.run("main").code == 0
    shown = times(project.appl("trace", "critical").out)
    assert "  /ask.1/gen.0 prog.py:6\n    after /ask.0/gen.0 prog.py:6\n" in shown
    data = project.appl("trace", "critical", "--json").data
    assert sum(each["took_us"] for each in data["segments"]) == data["duration_us"]
    (wait,) = data["order_waits"]
    assert (wait["address"], wait["after"]) == ("/ask.1/gen.0", "/ask.0/gen.0")


def test_costs_are_told_by_model_function_and_line(project: Project) -> None:
    assert project.run("many").code == 0
    by_line = project.appl("trace", "cost", "--by", "line").out.splitlines()
    assert by_line[2].split() == ["LINE", "CALLS", "KIND", "PROMPT", "CACHED", "ANSWER", "COST"]
    assert by_line[3].split() == ["prog.py:6", "3", "spent", "3", "?", "3", "unknown"]
    data = project.appl("trace", "cost", "--by", "scope", "--json").data
    (row,) = data["rows"]
    assert (row["scope"], row["spent"]["calls"], row["spent"]["cost"]) == ("/ask", 3, None)


def recording(project: Project) -> Recorder:
    return Recorder(project.folder / ".appl" / "runs" / "20200101T000000.000Z-live-0000.trace")


def test_a_running_program_says_what_it_waits_for(project: Project) -> None:
    from appl import gen, ppl
    from appl.testing import Held, Run

    @ppl
    def ask(word: str) -> object:
        f"{word}"
        return gen()

    recorder, backend = recording(project), Held()
    with Run(backend, instruments=[recorder], gate=recorder.gate):
        answers = [ask("one"), ask("two")]
        backend.release("/ask.0/gen.0")
        assert str(answers[0])
        while len(backend.requests) < 2:
            assert not answers[1].done()  # type: ignore[attr-defined]
        recorder.barrier()
        shown = times(project.appl("trace", "stuck").out)
        assert "RUN-live: running; 1 of 2 calls answered" in shown
        assert "/ask.1/gen.0  " in shown
        assert "call for T: sent, and not answered, attempt 1 T ago" in shown
        data = project.appl("trace", "stuck", "--json").data
        assert [each["address"] for each in data["waiting"]] == ["/ask.1/gen.0"]
        backend.release()
        assert str(answers[1])
    recorder.close()
    assert "nothing was under way" in project.appl("trace", "stuck").out


def test_a_long_run_is_cut_and_summed_up_by_function(project: Project) -> None:
    assert project.run("many", "--n", "300").code == 0
    lines = project.appl("trace", "show").out.splitlines()
    assert "… and 100 more calls; --all shows them. By function:" in lines
    assert lines[-1].split()[:2] == ["/ask/gen", "300"]
    assert len(project.appl("trace", "show", "--all").out.splitlines()) > 300


@pytest.mark.parametrize("name", ["critical", "cost", "stuck", "show", "diff"])
def test_each_command_says_what_it_is_for(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trace", name, "--help"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith(f"Usage: appl trace {name}") and "Example" in shown


def test_commands_on_an_empty_run_say_so(project: Project) -> None:
    assert project.run("nothing").code == 0
    recorder = recording(project)
    recorder.close()
    name = recorder.path.stem
    assert "nothing in it was waited for" in project.appl("trace", "critical", name).out
    for command in ("cost", "stuck", "show"):
        assert project.appl("trace", command, name).code == 0
