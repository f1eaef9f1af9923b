from __future__ import annotations

from .conftest import Project

WRONG = """\
from appl import gen, ppl

@ppl
def f(stack):
    stack.pop()
    return gen()
"""
RIGHT = WRONG.replace("stack.pop()", "_ = stack.pop()")


def test_a_finding_is_told_as_editors_read_it(project: Project) -> None:
    project.write("f.py", WRONG)
    done = project.appl("check", "f.py")
    assert done.code == 1
    assert done.out.startswith("f.py:5:5: warning[accidental-text]: `.pop()` may return text")
    assert "1 file checked, 1 found: 1 accidental-text" in done.err


def test_nothing_found(project: Project) -> None:
    project.write("f.py", RIGHT)
    done = project.appl("check", "f.py")
    assert (done.code, done.out) == (0, "")
    assert "nothing found" in done.err


def test_the_program_is_not_run(project: Project) -> None:
    project.write("f.py", RIGHT + "\nraise SystemExit(7)\n")
    assert project.appl("check", "f.py").code == 0


def test_folders_are_searched_but_hidden_ones_are_not(project: Project) -> None:
    project.write("lib/f.py", WRONG)
    project.write(".venv/g.py", WRONG)
    found = project.appl("check", "lib", "--json").data
    assert [each["file"] for each in found["findings"]] == ["lib/f.py"]
    assert all(
        ".venv" not in each["file"] for each in project.appl("check", "--json").data["findings"]
    )


def test_annotations_for_github(project: Project) -> None:
    project.write("a,b.py", WRONG)
    done = project.appl("check", "a,b.py", "--format", "github")
    assert done.out.startswith(
        "::warning file=a%2Cb.py,line=5,endLine=5,col=5,endColumn=16,title=appl accidental-text::"
    )


def test_sarif(project: Project) -> None:
    project.write("f.py", WRONG)
    (run,) = project.appl("check", "f.py", "--format", "sarif").data["runs"]
    (result,) = run["results"]
    place = result["locations"][0]["physicalLocation"]
    assert result["ruleId"] == "accidental-text" and place["region"]["startLine"] == 5
    assert result["ruleId"] in {rule["id"] for rule in run["tool"]["driver"]["rules"]}


def test_rules_can_be_chosen_and_are_listed(project: Project) -> None:
    project.write("f.py", WRONG)
    assert project.appl("check", "f.py", "--ignore", "accidental-text").code == 0
    assert project.appl("check", "f.py", "--select", "set-order").code == 0
    assert "serial-wait" in project.appl("check", "--rules").out
    wrong = project.appl("check", "f.py", "--ignore", "acidental-text")
    assert wrong.code == 2 and "did you mean 'accidental-text'?" in wrong.err


def test_a_path_that_is_not_there(project: Project) -> None:
    done = project.appl("check", "nowhere.py")
    assert done.code == 2 and "nowhere.py" in done.err


def test_a_file_that_is_not_text_does_not_hide_the_others(project: Project) -> None:
    (project.folder / "a.py").write_bytes(b"\xff\xfe")
    (project.folder / "b.py").write_text("def f(:\n")
    done = project.appl("check", ".")
    assert done.code == 1
    assert "a.py:1:1: error[refused]: this is not UTF-8 text" in done.out
    assert "b.py:1:7: error[refused]" in done.out


def test_an_unknown_rule_lists_those_there_are(project: Project) -> None:
    done = project.appl("check", "--select", "serial-wiat")
    assert done.code == 2
    assert "did you mean 'serial-wait'?" in done.err and "late-constant, " in done.err
