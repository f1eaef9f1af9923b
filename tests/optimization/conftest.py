"""A folder with a program of three prompts and its cases, and a server that counts what it is asked."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import Project, project  # noqa: F401 - a fixture
from tests.evaluation.conftest import Asked

PROGRAM = """\
from appl import gen, ppl

@ppl
def topic(question):
    f"Topic of {question}?"
    return gen(max_tokens=20)

@ppl
def tone(question):
    f"Tone of {question}?"
    return gen(max_tokens=20)

@ppl
def answer(question):
    f"{topic(question)} in a {tone(question)} way: {question}"
    return gen(max_tokens=20)

@ppl
def judge(answer, target):
    f"Is {answer} as good as {target}?"
    return gen(response_format=bool, max_tokens=20)
"""
PROPOSED = {
    "topic": "Kind of {question}?",
    "tone": "Style of {question}?",
    "answer": "Carefully, {topic(question)} in a {tone(question)} way: {question}",
}
"""The text that the model proposes for each function: that of ``topic`` helps nobody."""


def said(question: str) -> str:
    """The answer to *question*: right for a third of the cases, for more with the new texts."""
    if question.startswith("You improve"):
        found = re.search(r"Its function (\w+) says", question)
        assert found is not None
        return f"It is too short.\n```\n{PROPOSED[found[1]]}\n```"
    if question.startswith("Is "):
        return "true"
    number = int(re.findall(r"\d+", question)[-1])
    word = question.split()[0]
    if word in ("Topic", "Kind", "Tone"):
        return "plain"
    if word == "Style":
        return "fine" if number % 2 else "plain"
    right = number % 3 == 0 or (word == "Carefully," and number % 5 != 1) or "fine" in question
    return f"a{number}" if right else "b"


def write_cases(folder: Path, count: int) -> None:
    cases = [{"id": f"c{i}", "input": f"case {i}", "target": f"a{i}"} for i in range(count)]
    (folder / "cases.jsonl").write_text("\n".join(map(json.dumps, cases)))


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Iterator[Asked]:
    """A provider on this machine, which the settings of the environment lead to."""
    made = Asked()
    made.server.answer = said
    with made.server:
        monkeypatch.setenv("OPENAI_BASE_URL", made.server.openai_url)
        monkeypatch.setenv("OPENAI_API_KEY", "k")
        monkeypatch.setenv("APPL_MODEL", "openai/m")
        yield made


@pytest.fixture
def folder(project: Project, asked: Asked) -> Project:  # noqa: F811
    """The folder of a program and 24 cases."""
    project.write("prog.py", PROGRAM)
    write_cases(project.folder, 24)
    return project
