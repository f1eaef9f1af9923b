"""Values of the headers of a backend's settings are masked when a server repeats them."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from appl.prompt.secret import CONCEALED
from appl.prompt.secret_headers import conceal_headers
from appl.testing.faults import Fault
from tests.wire.servers import FaultServer

from .cage import command
from .test_names import content

TOLD = {
    "X-Api-Key": "plain-words-of-a-key",
    "X-Gate": "q7Rb2Lx9Wm4Kd8Zs1Tp6",
    "Proxy-Authorization": "Bearer words-of-a-proxy",
    "X-Basic-Auth": "Basic " + base64.b64encode(b"me:words-of-a-user").decode(),
    "Cookie": "theme=dark; session=words-of-a-session",
}
"""Headers that are secret by their names, or look random."""
HELD = {"X-Of-Variable": "words-of-a-variable"}
"""Those that come from a variable whose name tells nothing."""
ORDINARY = {"X-Team": "research-platform", "OpenAI-Beta": "assistants=v2"}
SECRETS = (
    "plain-words-of-a-key", "q7Rb2Lx9Wm4Kd8Zs1Tp6", "words-of-a-proxy", "words-of-a-user",
    "words-of-a-session",
)  # fmt: skip

PROGRAM = """\
import json, os, sys
import appl
from appl.errors import BackendError
from tests.canaries.cage import asked

def made():
    from appl_backends.openai import OpenAI
    return OpenAI(base_url=os.environ["WHERE"], headers=json.loads(os.environ["HELD"]))

def main(how):
    headers = json.loads(os.environ["HELD"])
    gate = {"type": "openai", "base_url": os.environ["WHERE"], "headers": headers}
    if how == "constructor":
        appl.init(backend="program:made", model="fault")
    elif how == "litellm":
        gate = {"base_url": os.environ["WHERE"], "headers": headers, "api_key": "none-at-all"}
        appl.init(model="litellm/openai/fault", backends={"litellm": gate})
    elif how == "init":
        appl.init(model="gate/fault", backends={"gate": gate})
    str(asked("What did I send?"))
    try:
        str(asked("Fail."))
    except BackendError as error:
        print(error)

if __name__ == "__main__":
    main(sys.argv[1])
"""


def ran(folder: Path, how: str, **headers: str) -> str:
    """What a run prints and records whose server repeats every header in an answer and an error."""
    (folder / "program.py").write_text(PROGRAM)
    refusal = Fault("echo", 400, {}, b"")
    with FaultServer(lambda ask: refusal if "Fail" in ask.question else None) as server:

        def repeated(question: str) -> str:
            return json.dumps(dict(server.asks[-1].headers))

        server.answer = repeated
        refused = {"error": {"message": json.dumps({**TOLD, **HELD, **ORDINARY})}}
        object.__setattr__(refusal, "body", json.dumps(refused).encode())
        if how == "settings":
            lines = [f'"{name}" = {json.dumps(value)}' for name, value in headers.items()]
            lines += [f'"{name}" = {{env = "SOMETHING"}}' for name in HELD]
            (folder / "appl.toml").write_text(
                f'model = "gate/fault"\n[backends.gate]\ntype = "openai"\nbase_url = "{server.openai_url}"\n'
                "[backends.gate.headers]\n" + "\n".join(lines)
            )
        variables = {
            "PYTHONPATH": os.pathsep.join(["", *sys.path]), "WHERE": server.openai_url,
            "HELD": json.dumps(headers), "SOMETHING": HELD["X-Of-Variable"],
        }  # fmt: skip
        done = subprocess.run(
            [sys.executable, "program.py", how], text=True, capture_output=True, cwd=folder,
            env={**os.environ, **variables}, check=False,
        )  # fmt: skip
        assert done.returncode == 0 and "answered 400" in done.stdout, done.stderr
        assert all(value in server.asks[0].headers.values() for value in headers.values())
    with contextlib.chdir(folder):
        code, shown = command("trace", "show", "last", "--json")
        assert code == 0
    traces = "".join(content(path) for path in folder.rglob("*.trace"))
    return done.stdout + done.stderr + shown + traces


@pytest.mark.parametrize("how", ["settings", "init", "constructor", "litellm"])
def test_no_secret_of_a_header_is_recorded_or_shown(how: str, tmp_path: Path) -> None:
    held = HELD if how == "settings" else {}
    shown = ran(tmp_path, how, **TOLD, **ORDINARY)
    wrong = [each for each in (*SECRETS, *held.values()) if each in shown]
    assert wrong == [] and "[secret " in shown


def test_an_ordinary_value_of_a_header_is_recorded(tmp_path: Path) -> None:
    shown = ran(tmp_path, "init", **TOLD, **ORDINARY)
    assert all(value in shown for value in ORDINARY.values())


def test_a_word_of_a_header_is_no_secret() -> None:
    before = CONCEALED.copy()
    conceal_headers("headers", {"Authorization": "Bearer EMPTY", **ORDINARY})
    assert before == CONCEALED
