"""Words and files that parsers choke on: numbers, nesting and addresses, given to commands."""

from __future__ import annotations

import pytest

from .conftest import Project

LONG = "9" * 5000


@pytest.mark.parametrize(
    "words",
    [
        ["run", "prog.py:many", "--n", LONG], ["run", "prog.py:many", "--n", "[" * 3000],
        ["trace", "ls", "--since", "999999999w"], ["trace", "ls", "--since", f"{LONG}d"],
        ["trace", "ls", "--since", "2001-13-45"], ["trace", "ls", "--until", LONG],
        ["trace", "gc", "--keep-age", f"{LONG}w"], ["trace", "gc", "--keep-size", LONG],
        ["trace", "export", "last", "--otel", "http://["],
        ["ctl", "set", "concurrency", LONG], ["ctl", "set", "concurrency", "²"],
        ["ctl", "set", "budget", f"calls={LONG}"],
    ],
)  # fmt: skip
def test_a_word_that_cannot_be_read_is_a_mistake_of_its_user(
    project: Project, words: list[str]
) -> None:
    project.run("ask")
    done = project.appl(*words)
    assert done.code == 2 and "Traceback" not in done.err, done


@pytest.mark.parametrize("name", [LONG, "²", "٣"])
def test_a_run_is_not_found_by_a_number_that_is_none(project: Project, name: str) -> None:
    done = project.appl("ctl", "show", name)
    assert done.code != 0 and "Traceback" not in done.err and "Error" not in done.err


@pytest.mark.parametrize(
    "words",
    [["--since", "99999w"], ["--since", "0001-01-01T00:00+23:59"], ["--until", "9999-12-31"]],
)
def test_a_time_beyond_the_calendar_selects_what_it_means(
    project: Project, words: list[str]
) -> None:
    project.run("ask")
    assert project.appl("trace", "ls", *words).code in (0, 2)


def test_runs_may_be_kept_for_longer_than_there_have_been_years(project: Project) -> None:
    project.write("appl.toml", "keep_age = '999999w'\n")
    project.run("ask")
    done = project.appl("trace", "gc")
    assert done.code == 0 and len(project.traces) == 1, done


@pytest.mark.parametrize(
    "source",
    ["x = " + "-" * 100_000 + "1", "x = " + "1+" * 3000 + "1", "x = a" + ".b" * 3000,
     "x = " + "(" * 3000, "x = " + "1" * 5000, "x = '\0'"],
)  # fmt: skip
def test_a_file_that_is_hard_to_parse_is_checked_or_a_finding(
    project: Project, source: str
) -> None:
    """How deep Python parses depends on the stack that it is allowed."""
    file = project.write("deep.py", source + "\n")
    done = project.appl("check", str(file))
    said = done.err + done.out
    assert "Error" not in said and (done.code == 0 or "1 refused" in said), done
