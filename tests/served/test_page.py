"""The page about served functions: its program, its commands and its client, as they stand there."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.snippets import Block, blocks

from .conftest import Home

PAGE = Path(__file__).parents[2] / "docs" / "serving-functions.md"


def found(language: str, title: str | None = None) -> list[Block]:
    every = blocks(PAGE.read_text("utf-8"))
    return [each for each in every if each.language == language and each.title == title]


@pytest.fixture
def folder(home: Home) -> Home:
    for name in ("program.py", "client.py"):
        (block,) = found("python", name)
        (home.folder / name).write_text(block.text)
    return home


def test_the_commands_of_the_page_do_what_it_says(folder: Home) -> None:
    start, *calls = [line for block in found("sh") for line in block.text.splitlines()]
    words = start.removeprefix("appl serve ").split()
    words[words.index("8000")] = "0"
    server = folder.start(*words[1:], target=words[0])
    outputs = [curl(server.url, line) for line in calls]
    (shown,) = [each for each in found("json") if '"run"' in each.text]
    run = json.loads(outputs[0])
    assert run.keys() == json.loads(shown.text).keys()
    assert run["usage"].keys() >= json.loads(shown.text)["usage"].keys()
    assert run["status"] == "finished" and len(json.loads(outputs[1])["result"]) == 2
    assert re.findall("^event: (.*)$", outputs[2], re.M)[-1] == "end"
    client = (folder.folder / "client.py").read_text().replace("http://127.0.0.1:8000", server.url)
    done = subprocess.run([sys.executable, "-c", client], capture_output=True, text=True)
    assert done.stdout.startswith("the answer is "), done.stderr
    for words in (["show"], ["replay"]):
        command = [sys.executable, "-m", "appl", "trace", *words, run["run"]]
        again = subprocess.run(
            command, cwd=folder.folder, env=folder.environment(), capture_output=True, text=True
        )
        assert again.returncode == 0, again.stderr
    assert run["result"] in again.stdout


def curl(url: str, line: str) -> str:
    command = line.replace("http://127.0.0.1:8000", url)
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
    return done.stdout


def test_the_statuses_and_routes_of_the_page_are_those_of_the_server(folder: Home) -> None:
    from appl.parts.serving import openapi

    document = openapi.document([], keys=True)
    text = PAGE.read_text("utf-8")
    for path in document["paths"]:
        assert path.replace("{run}", "RUN") in text
