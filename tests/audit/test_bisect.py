"""``appl trace bisect``: the commit that changed a prompt is found, and the checkout stays as it is."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from appl import cli

PROGRAM = """
from appl import gen, ppl
from wording import ASK

@ppl
def main(n: int = 2):
    f"{ASK} {n}"
    return gen()
"""


class Project:
    """A git repository with a program that was recorded at its first commit."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.git("init", "--quiet")
        self.git("config", "user.email", "a@example.org")
        self.git("config", "user.name", "A")
        (root / "src").mkdir()
        (root / ".gitignore").write_text(".appl\n__pycache__\n")
        (root / "appl.toml").write_text('backend = "appl.testing:Echo"\n')
        (root / "src/program.py").write_text(PROGRAM)
        self.commit("the first", ASK="What is")

    def git(self, *words: str) -> str:
        done = subprocess.run(
            ["git", "-C", str(self.root), *words], capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    def commit(self, subject: str, ASK: str = "", more: str = "") -> str:
        if ASK:
            (self.root / "src/wording.py").write_text(f"ASK = {ASK!r}\n{more}\n")
        else:
            with (self.root / "src/program.py").open("a") as file:
                file.write(f"# {subject}\n")
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", subject)
        return self.git("rev-parse", "HEAD")

    def state(self) -> tuple[str, ...]:
        return (
            self.git("rev-parse", "HEAD"), self.git("status", "--porcelain"), self.git("diff"),
            self.git("branch", "--list", "--all"), self.git("worktree", "list"),
            (self.root / "src/wording.py").read_text(),
        )  # fmt: skip


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.chdir(tmp_path)
    made = Project(tmp_path)
    assert cli.main(["run", "src/program.py", "--n", "3"]) == 0
    return made


def bisected(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, dict[str, Any], str]:
    capsys.readouterr()
    code = cli.main(["trace", "bisect", "--json", *words])
    told = capsys.readouterr()
    return code, json.loads(told.out), told.err


def test_the_first_commit_that_asks_something_else_is_found_and_nothing_is_touched(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in range(3):
        project.commit(f"harmless {number}")
    guilty = project.commit("other words", ASK="What was")
    for number in range(4):
        project.commit(f"harmless too {number}")
    (project.root / "src/wording.py").write_text("not committed\n")
    before = project.state()
    code, told, _ = bisected(capsys)
    assert code == 0
    assert told["first_bad"] == {
        "commit": guilty, "author": "A", "date": told["first_bad"]["date"],
        "subject": "other words",
    }  # fmt: skip
    assert "- What is 3" in told["divergence"] and "+ What was 3" in told["divergence"]
    assert len(told["tested"]) <= 2 + 3
    assert project.state() == before


def test_commits_that_cannot_be_run_are_left_out_and_named(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = project.commit("broken", ASK="What is", more="oops(")
    guilty = project.commit("other words", ASK="What was")
    project.commit("harmless")
    code, told, _ = bisected(capsys)
    assert code == 1
    assert told["first_bad"] is None
    assert told["candidates"] == [guilty, broken]
    assert {each["commit"]: each["verdict"] for each in told["tested"]}[broken] == "skipped"


def test_the_commit_is_told_to_a_reader_with_what_differs(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    guilty = project.commit("other words", ASK="What was")
    assert cli.main(["trace", "bisect", "last", "--good", "HEAD~1"]) == 0
    told = capsys.readouterr()
    assert f"{guilty} asks something else for the first time" in told.out
    assert "DivergenceError: /main.0/gen.0" in told.out
    assert "appl: bad" in told.err


def test_revisions_that_cannot_be_meant_are_refused(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    project.commit("harmless")
    project.commit("harmless too")
    before = project.state()
    for words, told in (
        (["--good=nothing"], ("there is no commit 'nothing'",)),
        (["--good=--help-me"], ("there is no commit",)),
        (["--good=HEAD"], ("is not among the commits before",)),
        (["--good=HEAD~1"], ("--bad", "is good: it asks what was recorded")),
        (["--good=HEAD~1", "--bad", "HEAD~2"], ("is not among the commits before",)),
    ):
        code, _, said = bisected(capsys, *words)
        assert code == 2 and all(part in said for part in told), (words, said)
    assert project.state() == before


def test_a_program_outside_of_a_repository_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "appl.toml").write_text('backend = "appl.testing:Echo"\n')
    (tmp_path / "program.py").write_text(PROGRAM.replace("from wording import ASK", "ASK = 'q'"))
    assert cli.main(["run", "program.py"]) == 0
    code, _, said = bisected(capsys, "--good", "HEAD")
    assert code == 2
    assert "lies in no git repository" in said
