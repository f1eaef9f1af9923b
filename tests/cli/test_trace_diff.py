from __future__ import annotations

import re

from .conftest import Project


def stable(text: str) -> str:
    """*text* with the names of runs as RUN and digests as DIGEST."""
    text = re.sub(r"\d{8}T\d{6}\.\d{3}Z-(\w+)-[0-9a-f]{4}", r"RUN-\1", text)
    return re.sub(r"b2:[0-9a-f]{32}", "DIGEST", text)


def recorded(project: Project, *words: str) -> str:
    assert project.run(*words).code == 0
    return project.traces[-1].stem


def test_the_same_run_twice_does_not_differ(project: Project) -> None:
    before = recorded(project, "pair", "--first", "one")
    recorded(project, "pair", "--first", "one")
    done = project.appl("trace", "diff", before)
    assert done.code == 0
    assert stable(done.out) == (
        "A  RUN-pair: finished, 2 calls\n"
        "B  RUN-pair: finished, 2 calls\n"
        "2 calls are the same; nothing differs\n"
    )


def test_what_differs_is_told_first_cause_first(project: Project) -> None:
    before = recorded(project, "pair", "--first", "one")
    recorded(project, "pair", "--first", "uno")
    done = project.appl("trace", "diff", before, "last", "--ignore", "program")
    assert done.code == 1
    assert (
        stable(done.out)
        == """\
A  RUN-pair: finished, 2 calls
B  RUN-pair: finished, 2 calls
0 calls are the same; 2 differences, 1 first cause

1. /pair.0/gen.0 prog.py:12 changed: message 1 (user), answer
     message 1 (user)
       - one
       + uno
     answer
       - 87df8f
       + 2243cc
     so also (1):
       /pair.0/gen.1 prog.py:14 changed: its prompt holds what differs in /pair.0/gen.0
"""
    )


def test_json_says_the_same(project: Project) -> None:
    before = recorded(project, "pair", "--first", "one")
    recorded(project, "pair", "--first", "uno")
    data = project.appl("trace", "diff", before, "--json").data
    assert (data["same"], data["causes_count"], data["consequences_count"]) == (False, 2, 1)
    assert [each["address"] for each in data["causes"]] == ["arguments", "/pair.0/gen.0"]
    assert data["consequences"][0]["root"] == "/pair.0/gen.0"
    whole = project.appl("trace", "diff", before, "--json", "--all").data
    assert whole["causes"][1]["parts"][0] == {"name": "message 1 (user)", "a": "one", "b": "uno"}


def test_many_differences_are_cut(project: Project) -> None:
    project.write(
        "prog.py", project.folder.joinpath("prog.py").read_text().replace("str(i)", "x(i)")
    )
    project.folder.joinpath("prog.py").open("a").write("\ndef x(i): return f'number {i}'\n")
    before = recorded(project, "many", "--n", "20")
    text = project.folder.joinpath("prog.py").read_text().replace("number", "item")
    project.write("prog.py", text)
    recorded(project, "many", "--n", "20")
    short, whole = (
        project.appl("trace", "diff", before, *more).out.splitlines() for more in ((), ("--all",))
    )
    assert short[-1].startswith("… and 16 more first causes")
    assert len(whole) > 80 > len(short)


def test_what_cannot_be_compared_has_a_code_of_its_own(project: Project) -> None:
    assert project.appl("trace", "diff", "nothing").code == 2
    before = recorded(project, "ask")
    assert project.appl("trace", "diff", before, "nothing").code == 2
    wrong = project.appl("trace", "diff", before, "--ignore", "words")
    assert wrong.code == 2
    assert "--ignore takes no 'words'" in wrong.err
    project.traces[0].write_bytes(b"\x1b[2Jnot a trace")
    broken = project.appl("trace", "diff", before)
    assert (broken.code, "\x1b" in broken.err) == (2, False)


def test_escapes_in_a_recorded_text_do_not_reach_the_terminal(project: Project) -> None:
    before = recorded(project, "ask", "--question", "a\x1b[2J")
    recorded(project, "ask", "--question", "b\x1b]0;x\x07")
    assert "\x1b" not in project.appl("trace", "diff", before).out
