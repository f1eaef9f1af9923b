"""A server from its first line to its end."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from appl.cli import main
from appl.testing import Served, serving

from .conftest import ENDLESS, HELLO, connect

ENDINGS: dict[str, Callable[[Served], Any]] = {
    "SIGTERM": lambda server: server.process.send_signal(signal.SIGTERM),
    "SIGINT": lambda server: server.process.send_signal(signal.SIGINT),
    "/shutdown": lambda server: connect(server).post("/shutdown", admin=True),
    "end of input": lambda server: server.process.stdin.close(),  # type: ignore[union-attr]
}


@pytest.mark.parametrize("how", ENDINGS)
def test_it_ends_cleanly_and_answers_what_it_had_begun(how: str) -> None:
    with serving() as server:
        client = connect(server)
        found: list[httpx.Response] = []
        body = {"text": HELLO, "sampling_params": ENDLESS}
        asking = threading.Thread(target=lambda: found.append(client.post("/generate", body)))
        asking.start()
        client.until(lambda state: state["running"] == 1)
        ENDINGS[how](server)
        assert server.process.wait(60) == 0
        asking.join()
        assert found[0].json()["meta_info"]["finish_reason"]["type"] == "abort"
        with pytest.raises(httpx.ConnectError):
            connect(server).http.get("/health")


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "appl", "serve", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        stdin=subprocess.DEVNULL,
        env={**os.environ, **environment},
        check=False,
    )


def test_it_says_in_one_line_that_it_is_ready() -> None:
    done = run("--until-eof")  # its input is at its end: it stops at once
    assert done.returncode == 0 and done.stderr == ""
    assert re.fullmatch(
        r"ready http://127\.0\.0\.1:\d+  api-key=\S{32}  admin-key=\S{32}\n", done.stdout
    )


def test_it_says_so_as_json_too() -> None:
    told = json.loads(run("--until-eof", "--json", "--api-key", "none").stdout)
    assert told["ready"] and told["api_key"] is told["admin_key"] is None


def test_keys_can_come_from_the_environment() -> None:
    keys = {"APPL_SERVE_API_KEY": "one", "APPL_SERVE_ADMIN_KEY": "two"}
    told = json.loads(run("--until-eof", "--json", **keys).stdout)
    assert (told["api_key"], told["admin_key"]) == ("one", "two")


def test_what_cannot_be_served_is_said_in_a_sentence(
    shared: Served, capsys: pytest.CaptureFixture[str]
) -> None:
    port = shared.url.rpartition(":")[2]
    for arguments, words in (
        (("--port", port), f"another program listens on port {port} of 127.0.0.1"),
        (("--weights", "/nowhere"), "no model in /nowhere"),
        (("--max-batch", "0"), "positive"),
        (("--port", "99999"), "port"),
    ):
        assert main(["serve", *arguments]) == 2
        said = capsys.readouterr().err
        assert words in said and "Traceback" not in said


def test_a_server_that_does_not_start_is_an_error_here() -> None:
    with pytest.raises(RuntimeError, match="did not start"), serving("--weights", "/nowhere"):
        pass


def test_a_killed_server_is_gone() -> None:
    with serving() as server:
        server.kill()
        with pytest.raises(httpx.ConnectError):
            connect(server).http.get("/health")


def test_without_the_extra_it_says_what_to_install() -> None:
    code = (
        "import sys; sys.modules['aiohttp'] = None\n"
        "from appl.cli import main; sys.exit(main(['serve']))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (
        2,
        "appl: `appl serve` needs aiohttp, which is not installed: pip install 'appl[serve]'\n",
    )
