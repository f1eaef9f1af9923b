"""Sixty secrets in eight encodings, in every place where text goes: none is left anywhere."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from appl.tracing.recording.recorder import new_path

from .cage import command
from .test_names import ENCODINGS, NAMES, content, core, environment, plain

__all__ = ["environment"]

EVERY = [encode(plain(name)) for name in NAMES for encode in ENCODINGS.values()]
ROOT = Path(__file__).parents[2]
READING = (
    ["show", "last"], ["show", "last", "--json"], ["ls", "--json"], ["cost", "last"], ["critical", "last"],
    ["verify", "last"], ["diff", "last", "last"],
    ["export", "last", "--jsonl", "all.jsonl", "--markdown", "all.md", "--chrome", "all.json",
     "--otel-file", "spans.json", "--html", "all.html", "--content", "--openinference"],
    ["share", "last", "--content", "--out", "shared.trace"], ["share", "last", "--out", "bare.trace"],
    ["export-test", "last", "--force"],
)  # fmt: skip


def leaks(data: str) -> list[str]:
    return [each for each in EVERY if core(each) in data]


def in_files(folder: Path) -> list[str]:
    files = [path for path in folder.rglob("*") if path.is_file() and path.name != "said.txt"]
    return [f"{each} in {path.name}" for path in files for each in leaks(content(path))]


@pytest.fixture
def here(tmp_path: Path, environment: None) -> Iterator[Path]:
    with contextlib.chdir(tmp_path):
        Path("said.txt").write_text("\n".join(EVERY))
        yield tmp_path


@pytest.mark.parametrize("program, code", [("works", 0), ("fails", 1)])
def test_no_secret_is_in_a_run_and_in_what_is_made_of_it(
    here: Path, program: str, code: int
) -> None:
    run = ["run", f"{ROOT}/tests/canaries/places.py:{program}", "--question", EVERY[0]]
    got, shown = command(
        *run, "--api_key", "s3cr3t", "--backend", "tests.canaries.places:Repeating", "--quiet"
    )
    assert got == code, shown
    wrong = leaks(shown) if program == "fails" else []  # what a program returns is its own
    for words in READING:
        got, out = command("trace", *words)
        assert words[0] == "export-test" or got == 0, out
        wrong += [f"{each} printed by {words}" for each in leaks(out)]
    assert wrong + in_files(here) == []
    assert "s3cr3t" not in "".join(content(path) for path in here.rglob("*.trace"))


def test_no_secret_is_in_the_name_of_a_run(environment: None) -> None:
    words = [re.sub(r"[^A-Za-z0-9_]+", "_", each) for each in EVERY]
    for each, word in zip(EVERY, words, strict=True):
        name = new_path(each).name
        assert "secret_" in name and word[8:32] not in name, name


def test_no_secret_is_left_by_a_chat(here: Path) -> None:
    line = " ".join(EVERY)
    words = [
        "-m",
        "appl",
        "chat",
        "--backend",
        "tests.canaries.places:Repeating",
        "--system",
        line[:2000],
    ]
    paths = {"PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
    done = subprocess.run(
        [sys.executable, *words], input=f"{line}\n/quit\n", text=True, capture_output=True,
        env={**os.environ, **paths}, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert list(here.rglob("*.trace")) and leaks(done.stderr) + in_files(here) == []


def test_no_secret_is_shown_of_settings_and_models(here: Path) -> None:
    wrong = leaks(command("models", "canary")[1])
    for at in range(0, len(NAMES), 12):
        model = " ".join(plain(name) for name in NAMES[at : at + 12])
        Path("appl.toml").write_text(f"model = '''{model}'''\n")
        for words in (["config"], ["config", "--json"]):
            out = command(*words)[1]
            assert "[secret " in out
            wrong += [f"{each} printed by {words}" for each in leaks(out)]
    assert wrong == []


def test_the_search_would_find_them(here: Path) -> None:
    """The control: without the environment all of them are in the trace of such a run."""
    os.environ.clear()
    os.environ.update(PATH="/usr/bin", HOME=str(here))
    run = [
        "run",
        f"{ROOT}/tests/canaries/places.py:fails",
        "--backend",
        "tests.canaries.places:Repeating",
    ]
    assert command(*run)[0] == 1
    assert len({each.rpartition(" in ")[0] for each in in_files(here)}) == len({*EVERY})
