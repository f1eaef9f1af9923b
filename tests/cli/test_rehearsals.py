"""``appl trace rerun --dry-run`` rehearses with made-up answers, and touches nothing meanwhile."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from .conftest import Project

TALK = """\
from appl import gen, ppl
{imports}

@ppl
def ask(question):
    f"{{question}}"
    return gen(max_tokens=4)

def main():
    print("begun")
    first = str(ask("first"))
{then}
    return str(ask(f"after {{first}}"))
"""
TOOLS = """\
def shout(text: str) -> str:
    return text.upper()

def look(text: str) -> str:
    return str(ask(text))

@ppl
def use(question, tool):
    f"{question}"
    answer = gen(tools=[tool])
    answer.run_tool_calls()
    return str(gen())
"""


def predicted(project: Project, then: str = "", imports: str = "") -> tuple[dict[str, Any], str]:
    """The prediction for a program that asks its first question anew, and what it prints."""
    program = TALK.format(then=then or "    pass", imports=imports)
    project.write("talk.py", program)
    assert project.appl("run", "--seed=1", "talk.py:main").code == 0
    project.write("talk.py", program.replace('ask("first")', 'ask("first?")'))
    done = project.appl("trace", "rerun", "--dry-run", "--json")
    assert done.code == 0, done.err
    return done.data, done.err


def test_rehearsals_that_agree_give_one_number(project: Project) -> None:
    found, printed = predicted(project)
    assert found["live"] == {"fewest": 2, "most": 2} and found["rehearsed"] == 2
    assert found["same_way"] == {"fewest": 1, "most": 2}
    assert printed.count("begun") == 1, "a rehearsal prints nothing"
    lines = project.appl("trace", "rerun", "--dry-run").out
    assert "rehearsals with made-up answers agree on 2 live: 1 to 2 if new answers" in lines


def test_a_program_that_asks_more_after_some_answer_has_no_one_number(project: Project) -> None:
    found, _ = predicted(project, "    if first == 'no':\n        ask('why')")
    assert found["live"] == {"fewest": 1, "most": None} and found["rehearsed"] is None
    assert (
        "rehearsals with made-up answers ask 2 to 3, not the same"
        in project.appl("trace", "rerun", "--dry-run").out
    )


def test_a_program_that_asks_until_it_is_content_ends(project: Project) -> None:
    project.write("talk.py", TALK.format(then="    pass", imports=""))
    assert project.appl("run", "--seed=1", "talk.py:main").code == 0
    asks = "    while '?' not in first:\n        first = str(max([ask(first) for _ in range(100)], key=str))"
    project.write("talk.py", TALK.format(then=asks, imports="").replace('"first"', '"first!"'))
    found = project.appl("trace", "rerun", "--dry-run", "--json").data
    assert found["live"]["most"] is None and "it asks more and more" in found["open"]


@pytest.mark.parametrize(
    ("touches", "event"),
    [
        ("open('said.txt', 'a').write(first)", "open 'said.txt'"),
        ("os.open('said.txt', os.O_CREAT | os.O_WRONLY)", "open 'said.txt'"),
        ("subprocess.run(['touch', 'said.txt'])", "subprocess.Popen 'touch'"),
        ("os.path.exists('was.txt') and os.remove('was.txt')", "os.remove 'was.txt'"),
    ],
)
def test_a_rehearsal_is_broken_off_before_it_changes_anything(
    project: Project, touches: str, event: str
) -> None:
    (project.folder / "was.txt").write_text("")
    then = f"    try:\n        {touches} if 'zebras' in first else None\n    except Exception:\n        pass"
    found, _ = predicted(project, then, "import os, subprocess")
    assert found["live"] == {"fewest": 1, "most": None}
    assert found["open"] == f"what comes after {event}"
    assert (project.folder / "was.txt").exists() and not (project.folder / "said.txt").exists()


def test_each_rehearsal_imports_the_modules_of_the_program_anew(project: Project) -> None:
    project.write("memory.py", "SEEN = []\n")
    then = "    memory.SEEN.append(first)\n    if len(memory.SEEN) > 1:\n        ask('again')"
    found, _ = predicted(project, then, "import memory")
    assert found["rehearsed"] == 2


def test_the_modules_of_before_are_there_again_afterwards(project: Project) -> None:
    before = sys.modules[__name__]
    predicted(project)
    assert sys.modules[__name__] is before


def test_a_tool_that_asks_nothing_is_rehearsed_and_one_that_may_ask_is_not(
    project: Project,
) -> None:
    found, _ = predicted(project, "    use('shouted', shout)", TOOLS)
    assert found["rehearsed"] == found["live"]["most"] == 2 and found["tools"] == []
    found, _ = predicted(project, "    use(f'looked {first}', look)", TOOLS)
    assert found["live"]["most"] is None and found["open"].endswith(": what look does")


def test_a_typed_answer_is_made_up_as_a_value_of_its_type(project: Project) -> None:
    judge = """
@ppl
def judge(text) -> bool:
    f"Is {text} right?"
    return gen(response_format=bool)
"""
    # ask('why') is answered from the record, whether it is asked or not.
    found, _ = predicted(project, "    if judge(first):\n        ask('why')", judge)
    assert found["live"] == {"fewest": 3, "most": 3} and found["open"] is None
    found, _ = predicted(project, "    if judge(first):\n        ask(f'why {first}')", judge)
    assert found["live"]["most"] is None
    lines = project.appl("trace", "rerun", "--dry-run").out
    assert "rehearsals with made-up answers ask 3 to 4, not the same" in lines


def test_an_answer_that_a_regex_describes_is_not_made_up(project: Project) -> None:
    judge = """
@ppl
def judge(text):
    f"Is {text} right?"
    return gen(regex="yes|no")
"""
    found, _ = predicted(project, "    if str(judge(first)) == 'yes':\n        ask('why')", judge)
    assert found["live"]["most"] is None and found["open"].endswith(": a typed answer")
