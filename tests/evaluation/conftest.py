"""A folder with a program of three prompts and its cases, and a server that counts what it is asked."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from appl.testing import Fault
from tests.cli.conftest import Project, project  # noqa: F401 - a fixture
from tests.wire.servers import FaultServer

PROGRAM = """\
from appl import gen, ppl

@ppl
def topic(question):
    f"Topic of {question}?"
    return gen()

@ppl
def tone(question):
    f"Tone of {question}?"
    return gen()

@ppl
def answer(question):
    f"{topic(question)} in a {tone(question)} way: {question}"
    return gen()

@ppl
def older(question):
    f"Say {question}"
    return gen()

@ppl
def judge(answer, target):
    f"Is {answer} as good as {target}?"
    return gen(response_format=bool)

def length(answer):
    return len(answer) / 100

def broken(answer, target):
    raise KeyError(target)

def fails(question):
    if question.endswith("3"):
        raise ValueError("it ends with 3")
    return question
"""


def said(question: str) -> str:
    """The answer to *question*; only every third one depends on the word it begins with."""
    if question.startswith("Is "):
        return "true" if len(question) % 2 else "false"
    number = int(re.findall(r"\d+", question)[-1])
    word = question.split()[0] if number % 3 == 0 else "plain"
    return f"{word}{number % 7}"


REFUSED = Fault("refused", 401, {}, b'{"error": {"message": "no such key"}}')


class Asked:
    """The questions that a server has answered, since they were taken last; or it ``refuses``."""

    def __init__(self) -> None:
        self.refuses = False
        self.server = FaultServer(
            lambda ask: REFUSED if self.refuses else None, answer=said, model="m"
        )
        self._before: Counter[str] = Counter()

    def take(self) -> Counter[str]:
        now = Counter(self.server.answered)
        found, self._before = now - self._before, now
        return found


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Iterator[Asked]:
    """A provider on this machine, which the settings of the environment lead to."""
    made = Asked()
    with made.server:
        monkeypatch.setenv("OPENAI_BASE_URL", made.server.openai_url)
        monkeypatch.setenv("OPENAI_API_KEY", "k")
        monkeypatch.setenv("APPL_MODEL", "openai/m")
        yield made


@pytest.fixture
def folder(project: Project, asked: Asked) -> Project:  # noqa: F811
    """The folder of a program and 20 cases."""
    project.write("prog.py", PROGRAM)
    write_cases(project.folder, 20)
    return project


def write_cases(folder: Path, count: int) -> None:
    cases = [{"id": f"c{i}", "input": f"case {i}", "target": f"plain{i % 7}"} for i in range(count)]
    (folder / "cases.jsonl").write_text("\n".join(map(json.dumps, cases)))
