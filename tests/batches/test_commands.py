"""``appl run --batch``, a Ctrl-C in the midst of it, and ``appl trace batches``."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.batches.lives import MODELS
from tests.batches.programs import answer_to
from tests.batches.twins import Twin

PROGRAM = """
import appl
from appl import gen, ppl

@ppl
def ask(text):
    f"{text}"
    return str(gen(max_tokens=100))

def main():
    return list(appl.map(ask, ["a", "b"]))
"""
PRICE = "{ prompt = 1000, answer = 1000, batch = { prompt = 500, answer = 500 } }"
RUN = ("run", "--batch", "prog.py")


class Folder:
    """A folder with a program whose settings name *twin*."""

    def __init__(self, path: Path, twin: Twin) -> None:
        given = twin.settings()
        (path / "prog.py").write_text(PROGRAM)
        (path / "appl.toml").write_text(
            f'model = "{MODELS[twin.kind]}"\n[prices]\n"{MODELS[twin.kind]}" = {PRICE}\n[backends.twin]\ntype = "{given["type"]}"\n'
            f'base_url = "{twin.url}"\napi_key = {{ env = "TWIN_KEY" }}\n'
        )
        self._path = path
        self._env = {**os.environ, "APPL_TRUST": str(path), "TWIN_KEY": "k-123456"}

    def begin(self, *words: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "appl", *words]
        pipe = subprocess.PIPE
        return subprocess.Popen(
            command, cwd=self._path, env=self._env, stdout=pipe, stderr=pipe, text=True
        )

    def run(self, *words: str) -> tuple[int, str, str]:
        process = self.begin(*words)
        said, told = process.communicate(timeout=60)
        return process.returncode, said, told


def test_a_ctrl_c_leaves_the_batch_and_the_same_command_goes_on(tmp_path: Path) -> None:
    with Twin("messages", looks=1) as twin:
        folder, looked = Folder(tmp_path, twin), 2  # that it was sent is known then
        twin.held = True
        process = folder.begin(*RUN)

        def interrupt(number: int, done: bool) -> bool:
            if number == looked and not done:
                process.send_signal(signal.SIGINT)
            return False

        twin.on_request = interrupt
        _, told = process.communicate(timeout=60)
        assert process.returncode == 130 and "goes on at twin" in told and "--cancel" in told
        code, said, _ = folder.run("trace", "batches", "--json")
        (shown,) = json.loads(said)["batches"]
        assert (code, shown["state"], shown["at_provider"]) == (0, "sent", "in_progress")
        twin.release()
        code, said, _ = folder.run(*RUN)
        assert (code, said.split()) == (0, [answer_to("a"), answer_to("b")])
        costs = json.loads(folder.run("trace", "cost", "--json")[1])["total"]
        assert costs["in_doubt"]["calls"] == 0 and costs["spent"]["cost"] == twin.cost * 500
    assert len(twin.batches) == 1 and twin.cost * 2 == twin.whole


@pytest.mark.parametrize("words", [RUN, ("trace", "resume")])
def test_a_cancelled_batch_fails_the_calls_that_it_has_not_answered(
    words: Any, tmp_path: Path
) -> None:
    with Twin("chat", looks=1) as twin:
        folder = Folder(tmp_path, twin)
        twin.held = True
        process = folder.begin(*RUN)
        twin.on_request = lambda number, done: bool(
            number == 3 and not done and process.send_signal(signal.SIGINT)
        )
        process.communicate(timeout=60)
        _, said, _ = folder.run("trace", "batches", "--cancel")
        assert "cancelled" in said
        code, _, told = folder.run(*words)
        assert code == 1 and "was cancelled before a model was asked" in told
    assert not twin.cost


def test_a_plan_tells_what_batches_would_cost(tmp_path: Path) -> None:
    with Twin("chat") as twin:
        folder = Folder(tmp_path, twin)
        (tmp_path / "facts.py").write_text(FACTS)
        _, said, _ = folder.run("plan", "facts.py:ask")
    whole, half = (
        float(said.split(mark)[1].split("$")[1].split()[0]) for mark in ("\nall", "--batch")
    )
    assert half * 2 == pytest.approx(whole, rel=0.01)


FACTS = """
from appl import gen, ppl

@ppl
def ask():
    "Cats sleep most of the day, and dogs some of the night. What sleeps more?"
    return str(gen(max_tokens=9))
"""
