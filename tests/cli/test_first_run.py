"""The first run of a folder ends with the next command, and later ones do not."""

from __future__ import annotations

from .conftest import Project

NEXT = "appl: next: "
SCRIPT = "from prog import ask\nprint(ask('Why?'))\n"


def test_the_first_run_names_the_command_that_shows_it(project: Project) -> None:
    first = project.run("ask")
    assert first.err.splitlines()[-1] == (
        "appl: next: `appl trace show` shows the prompts and answers of this run"
    )
    assert NEXT not in project.run("ask").err


def test_a_first_run_that_is_quiet_or_prints_json_names_nothing(project: Project) -> None:
    assert NEXT not in project.run("ask", "--quiet").err
    project.traces[0].unlink()
    assert NEXT not in project.run("ask", "--json").err


def test_a_first_run_that_is_not_recorded_names_nothing(project: Project) -> None:
    assert NEXT not in project.run("ask", "--no-trace").err
    assert NEXT not in project.run("ask", "--trace", "mine.trace").err


def test_showing_the_only_run_names_a_call_and_the_replay(project: Project) -> None:
    project.run("ask")
    shown = project.appl("trace", "show")
    assert f"{NEXT}`appl trace show /ask.0/gen.0` shows the whole prompt" in shown.err
    assert "`appl trace replay` runs the program again" in shown.err
    assert NEXT not in project.appl("trace", "show", "--json").err
    project.run("ask")
    assert NEXT not in project.appl("trace", "show").err


def test_a_file_without_findings_is_run_next_until_there_is_a_run(project: Project) -> None:
    project.write("clean.py", "def main() -> int:\n    return 3\n")
    checked = project.appl("check", "clean.py")
    assert checked.err.splitlines()[-1] == f"{NEXT}`appl run clean.py` runs it"
    assert NEXT not in project.appl("check", "clean.py", "--json").err
    project.run("ask")
    assert NEXT not in project.appl("check", "clean.py").err


def test_a_check_needs_no_settings_that_can_be_read(project: Project) -> None:
    project.write("clean.py", "def main() -> int:\n    return 3\n")
    project.write("appl.toml", "modle = 3\n")
    checked = project.appl("check", "clean.py")
    assert checked.code == 0 and NEXT not in checked.err


def test_the_first_run_of_a_plain_script_names_the_next_command(project: Project) -> None:
    project.write("script.py", SCRIPT)
    first = project.python("script.py", cold=True, APPL_BACKEND="appl.testing:Echo")
    assert first.err.splitlines()[-1].startswith(f"{NEXT}`appl trace show`")
    assert NEXT not in project.python("script.py", APPL_BACKEND="appl.testing:Echo").err
