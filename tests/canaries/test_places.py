"""Sixty secrets in eight encodings, in every place where text goes: none is left anywhere."""

from __future__ import annotations

import contextlib
import io
import os
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from appl.cli import main
from appl.errors import CallCancelled
from appl.testing import Run
from appl.tracing import new_path
from tests.ctl.live import eventually, recorded
from tests.exports.conftest import collecting

from .cage import command, fetched, logged
from .places import ask
from .test_names import NAMES, USUAL, content, core, environment, plain

__all__ = ["environment"]

EVERY = [encode(plain(name)) for name in NAMES for encode in USUAL.values()]
ROOT = Path(__file__).parents[2]
ADMIN = "key-of-the-admin"
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


def test_no_secret_is_shown_of_answers_while_they_come(here: Path) -> None:
    """They come in pieces of seven characters."""
    run = ["run", f"{ROOT}/tests/canaries/places.py:streams", "--stream"]
    code, out = command(*run, "--backend", "tests.canaries.places:Repeating")
    assert code == 0, out[-2000:]
    assert len(EVERY) <= out.count("[secret ") and leaks(out) == []


@pytest.mark.parametrize("content", [[], ["--content"]], ids=["bare", "content"])
def test_no_secret_is_sent_to_a_collector(here: Path, content: list[str]) -> None:
    """Neither when the run ends, nor by the command, at once or as it goes on."""
    with collecting() as collector:
        Path("appl.toml").write_text(f'otel = "{collector.url}"\n')
        run = ["run", f"{ROOT}/tests/canaries/places.py:fails", "--quiet"]
        out = command(*run, "--backend", "tests.canaries.places:Repeating")[1]
        ended = len(collector.spans)
        for words in (content, [*content, "--openinference"], [*content, "--follow"]):
            again = ["--otel", f"{collector.url}/{len(words)}", *words]
            code, said = command("trace", "export", "last", *again)
            assert code == 0, said
            out += said
        assert len(collector.spans) == 4 * ended > 4 and collector.wrong == []
        assert leaks(out + "".join(map(str, collector.requests))) == []


def test_no_secret_is_shown_of_a_live_run(here: Path) -> None:
    """``appl ctl`` shows the end of each prompt, and what was refused."""

    def program() -> None:
        with contextlib.suppress(CallCancelled):
            for answer in [ask(each) for each in EVERY]:
                str(answer)

    outs = list[str]()
    with tempfile.TemporaryDirectory(prefix="ctl", dir="/tmp") as sockets:
        os.environ.update(APPL_CTL_DIR=f"{sockets}/appl", APPL_HOME=str(here / "home"))
        with recorded(program, here / "run.trace", "tests.canaries.places:Busy") as live:
            eventually(lambda: len(live.look(Run.holdings)) == len(EVERY))
            eventually(lambda: [each for each in live.look(Run.holdings) if each.error])
            assert live.socket.exists()
            for words in (
                ["show", "--content", "--limit", "480"],
                ["show", "--content", "--json", "--limit", "480"],
                ["ls", "--json"],
            ):
                code, out = command("ctl", *words)
                assert code == 0, out
                outs.append(out)
        wrong = [each for out in outs for each in leaks(out)]
        assert wrong + in_files(here) + in_files(Path(sockets)) == []
    assert outs[1].count("[secret ") >= len(EVERY)


def test_no_secret_is_told_by_the_server_that_was_sent_them(here: Path) -> None:
    line, told = io.StringIO(), list[str]()
    said = " ".join(EVERY)

    def client() -> None:
        url = eventually(line.getvalue).split()[1]
        chat, head = f"{url}/v1/chat/completions", {"Content_Type": "application/json"}
        body = {
            "messages": [{"role": "user", "content": said}],
            "max_tokens": 2,
            "model": "embedded",
        }
        told.append(fetched(chat, body, **head))
        told.append(fetched(chat, {**body, "stop": [said]}, **head))
        told.append(fetched(chat, b'{"messages": "' + said.encode(), **head))
        for each in map(quote, EVERY):
            told.append(fetched(f"{url}/{each}?key={each}", X_Key=each, **head))
        fetched(f"{url}/shutdown", {}, Authorization=f"Bearer {ADMIN}")

    with logged() as log, contextlib.redirect_stdout(line), contextlib.redirect_stderr(line):
        thread = threading.Thread(target=client)
        thread.start()
        assert main(["serve", "--api-key", "none", "--admin-key", ADMIN]) == 0
        thread.join()
    assert leaks(line.getvalue() + log.getvalue() + "".join(told)) + in_files(here) == []


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
