"""No secret is left anywhere: not in traces, exports, the viewer, the terminal, logs or errors."""

from __future__ import annotations

import contextlib
import io
import json
import os
import pickle
import subprocess
import sys
import tempfile
import threading
import traceback
from pathlib import Path
from urllib.parse import quote

import pytest

from appl.cli import main
from appl.cli.failure import text
from appl.config import load
from appl.errors import CallCancelled
from appl.testing import Run
from appl.testing.faults import FAULTS, Fault
from appl_backends.embedded import WEIGHTS
from tests.ctl.live import eventually, recorded
from tests.sessions import open_run
from tests.wire.servers import FaultServer

from .cage import (
    DATABASE,
    HEADER,
    KEY,
    PASSWORD,
    QUERY,
    TOKEN,
    asked,
    caged,
    command,
    echoes,
    fetched,
    found,
    found_in_files,
    logged,
    outcomes,
)

KNOWN = {
    "gate": ("key", "header", "query", "database", "token"),
    "litellm": ("key", "header", "database", "token"),
    "sglang": ("key", "database", "token"),
}
"""What each client is given, and the environment holds."""
READING = (
    ["ls"], ["ls", "--json"], ["show"], ["show", "--json"], ["cost"], ["critical"], ["verify"],
    ["export", "--jsonl", "FILE"], ["export", "--chrome", "FILE"],
    ["export", "--markdown", "FILE"], ["export", "--otel-file", "FILE", "--content"],
    ["view", "--html", "FILE"], ["diff", "last", "last"], ["share", "--out", "FILE"],
    ["share", "--content", "--out", "FILE"],
)  # fmt: skip


IN_TIME, AT_ONCE = 60.0, 0.1
"""Seconds that an answer which comes is given, however slow the machine, and one that does not."""


def settings(client: str, server: FaultServer, deadline_s: float) -> str:
    place = f"{server.openai_url}?key={QUERY}"
    own = {
        "gate": f'type = "openai"\nbase_url = "{place}"\nheaders = {{"X-Gate" = {{env = "GATE"}}}}',
        "litellm": f'base_url = "{server.openai_url}"\nheaders = {{"X-Gate" = {{env = "GATE"}}}}',
        "sglang": f'url = "{server.url}"\ntokenizer = "{WEIGHTS}"',
    }[client]
    model = {"litellm": "litellm/openai/fault"}.get(client, f"{client}/fault")
    return f"""
        model = "{model}"
        home = ".appl"
        [retries]
        attempts = 2
        base = 0.0
        patience = 0.1
        [deadlines]
        first_token = {deadline_s}
        between_tokens = {deadline_s}
        [backends.{client}]
        {own}
        api_key = {{env = "GATE_API_KEY"}}
    """


def shown(error: BaseException) -> str:
    """Every text that an error of ours may become."""
    pickled = pickle.dumps((type(error).__name__, error.args, vars(error)))
    with contextlib.suppress(Exception):  # one that cannot be pickled leaves nothing
        pickled += pickle.dumps(error)
    lines = "".join(traceback.format_exception_only(error))
    return f"{error} {error!r} {lines} {text(error)} {pickled.decode('latin-1')}"


def leaks_of_a_run(client: str, fault: Fault | None) -> list[str]:
    """Run the careless program once; what its errors, its log and its lines show."""
    said: list[str] = []
    hangs = fault is not None and fault.ends == "hang"
    with FaultServer(lambda ask: fault) as server, logged() as log:
        Path("appl.toml").write_text(settings(client, server, AT_ONCE if hangs else IN_TIME))
        with open_run(load(directory=Path()), say=said.append):
            errors = outcomes()
        assert server.asks or hangs  # on a slow machine, that time may be up before it has asked
        assert all(ask.headers["authorization"] == f"Bearer {KEY}" for ask in server.asks)
    name = fault.name if fault else "no fault"
    places = {
        "an error": "".join(map(shown, errors)),
        "a line": "".join(said),
        "the log": log.getvalue(),
    }
    return [f"{name}: {each} in {place}" for place, data in places.items() for each in found(data)]


@pytest.mark.parametrize("every", [len(KNOWN), pytest.param(1, marks=pytest.mark.long)])
@pytest.mark.parametrize("client", KNOWN)
def test_no_canary_gets_out_whatever_the_server_does(
    client: str, every: int, tmp_path: Path
) -> None:
    """Each client meets its share of all faults, or each of them."""
    wrong: list[str] = []
    share = [*KNOWN].index(client) % every
    faults = (None, *(*FAULTS, *echoes(*KNOWN[client]))[share::every])
    with caged(tmp_path):
        for fault in faults:
            wrong += leaks_of_a_run(client, fault)
        runs = sorted(Path(".appl/runs").glob("*.trace"))
        assert len(runs) == len(faults)
        for number, path in enumerate((runs[0], *runs[-1::-5])):
            for words in READING:
                suffix = ".trace" if "share" in words else ""
                known = {"last": str(path), "FILE": f"{number}{'-'.join(words)}{suffix}"}
                given = [known.get(word, word) for word in words]
                if not {"ls", "diff"} & set(words):
                    given.insert(1, str(path))
                code, out = command("trace", *given)
                assert code == 0, (words, out)
                wrong += [f"{each} printed by {words}" for each in found(out)]
        Path("appl.toml").unlink()
        wrong += found_in_files(tmp_path)
    assert not wrong, "\n".join(sorted(set(wrong))[:40])


PROGRAM = """\
import os
from tests.canaries import cage

def main():
    cage.careless()

def changed():
    cage.asked(f"Now it is {os.environ['DATABASE_PASSWORD']} and {os.environ['SERVICE_TOKEN']}")
"""


def test_no_canary_is_on_the_terminal_of_a_program_that_fails(tmp_path: Path) -> None:
    """A traceback, a failed replay that compares prompts, and errors of settings and of writing."""
    wrong = []
    with caged(tmp_path):
        Path("prog.py").write_text(PROGRAM)
        for words, wanted in (
            (["run", "prog.py:main", "--backend", "appl.testing:Echo"], 1),
            (["run", "prog.py:main", "--backend", "appl.testing:Echo", "--json"], 1),
            (["run", "prog.py:main", "--backend", "appl.testing:Echo", "--stream"], 1),
            (["trace", "replay"], 1),  # the program fails as it did
            (["trace", "replay", "--program", "prog.py:changed"], 3),
            (["trace", "replay", "--program", "prog.py:changed", "--json"], 3),
            (["config"], 0),
        ):
            code, out = command(*words)
            assert code == wanted, (words, out)
            wrong += [f"{each} printed by {words}" for each in found(out)]
        Path("runs").write_text("")
        for toml in (
            f'model = "gate/x"\n[backends.gate]\ntype = "openai"\nbase_url = "http://u:{PASSWORD}@h/v1"',
            f'home = "{tmp_path}/runs"\nmodel = "gate/x"\n[retries]\nattempts = 1\n[backends.gate]\n'
            f'type = "openai"\nbase_url = "http://127.0.0.1:9/v1?key={QUERY}"\napi_key = {{env = "GATE_API_KEY"}}',
            f'[backends.openai]\napi_kee = "{KEY}"',
            f'[backends.openai]\napi_key = ["{KEY}"]',
            f'api_key = "{KEY}"',
            f'model = "openai/x"\n[backends.openai]\nbase_url = "ftp://u:{PASSWORD}@h/?key={QUERY}"',
        ):
            Path("appl.toml").write_text(toml)
            code, out = command("run", "prog.py:main")
            assert code != 0
            wrong += [f"{each} printed after {toml}" for each in found(out)]
            wrong += [
                f"{each} printed by config after {toml}" for each in found(command("config")[1])
            ]
        Path("appl.toml").unlink()
        wrong += [each for each in found_in_files(tmp_path) if "prog.py" not in each]
    assert not wrong, "\n".join(sorted(set(wrong))[:40])


GIVEN = """\
import os, sys
import appl
from appl.config import load
from tests.canaries.cage import asked

def gate():
    return {"type": "openai", "base_url": os.environ["WHERE"], "api_key": os.environ["X"]}

def made():
    from appl_backends.openai import OpenAI
    return OpenAI(base_url=os.environ["WHERE"], api_key=os.environ["X"])

def main(how):
    if how == "record":
        with appl.record(backends={"gate": gate()}, model="gate/fault"):
            return said()
    if how == "constructor":
        appl.init(backend="given:made", model="fault")
    else:
        appl.init(model="gate/fault", backends={"gate": gate()})
    said()

def said():
    print([value for _, value, _ in load().shown()])
    print(asked(f"My key is {os.environ['X']}."))
    try:
        str(asked("Fail."))
    except appl.errors.BackendError as error:
        print(error, repr(error), *error.__notes__)

if __name__ == "__main__":
    main(sys.argv[1])
"""


@pytest.mark.parametrize("how", ["init", "record", "constructor"])
def test_no_key_that_a_program_gives_is_shown_or_recorded(how: str, tmp_path: Path) -> None:
    """The variable that held it may have any name: the key is known by its value."""
    refusal = echoes("key")[0]
    (tmp_path / "given.py").write_text(GIVEN)
    with FaultServer(lambda ask: refusal if "Fail" in ask.question else None) as server:
        paths = {"PYTHONPATH": os.pathsep.join(["", *sys.path]), "WHERE": server.openai_url}
        done = subprocess.run(
            [sys.executable, "given.py", how], text=True, capture_output=True, cwd=tmp_path,
            env={**os.environ, **paths, "X": KEY}, check=False,
        )  # fmt: skip
        assert done.returncode == 0 and "answered 400" in done.stdout, done.stderr
        assert {ask.headers["authorization"] for ask in server.asks} == {f"Bearer {KEY}"}
    wrong = [f"{each} printed by the program" for each in found(done.stdout + done.stderr)]
    with contextlib.chdir(tmp_path):
        for words in (["show"], ["show", "--json"], ["cost"], ["export", "--jsonl", "all.jsonl"]):
            code, out = command("trace", words[0], "last", *words[1:])
            assert code == 0, out
            wrong += [f"{each} printed by {words}" for each in found(out)]
    wrong += found_in_files(tmp_path)
    assert not wrong, "\n".join(wrong)


TELLING = """\
import os
from appl import gen, ppl
from tests.canaries import cage

@ppl
def ask(question):
    f"{question}"
    return gen()

def told(password="none"):
    str(ask("Nothing secret."))
    return {"all": [password, os.environ["DATABASE_PASSWORD"].encode()], cage.TOKEN: (cage.KEY,)}

def asks():
    return str(ask(f"My password is {os.environ['DATABASE_PASSWORD']}."))

def fails():
    str(ask("Nothing secret."))
    raise ValueError(f"{os.environ['SERVICE_TOKEN']} is wrong")
"""


def test_no_canary_is_in_a_test_that_is_made_of_a_run(tmp_path: Path) -> None:
    wrong = []
    with caged(tmp_path):
        Path("prog.py").write_text(TELLING)
        for words, code, made in (
            (["told"], 0, 0), (["told", "--password", KEY], 0, 0), (["asks"], 0, 0), (["fails"], 1, 1),
        ):  # fmt: skip
            run = ["run", f"prog.py:{words[0]}", *words[1:], "--backend", "appl.testing:Echo"]
            assert command(*run)[0] == code
            for more in ([], ["--json"]):
                got, out = command("trace", "export-test", "--force", *more)
                assert got == made, out
                wrong += [f"{each} printed of {words[0]}" for each in found(out)]
        assert "its value is not compared" in Path("test_told.py").read_text()
        Path("prog.py").unlink()
        wrong += found_in_files(tmp_path)
    assert not wrong, "\n".join(wrong)


def test_no_canary_is_shown_of_a_live_run(tmp_path: Path) -> None:
    """``appl ctl``, what goes over its socket, and the files beside it."""
    wrong = []

    def program() -> None:
        with contextlib.suppress(CallCancelled):
            str(asked(f"My password is {DATABASE}."))

    with tempfile.TemporaryDirectory(prefix="ctl", dir="/tmp") as sockets, caged(tmp_path):
        os.environ.update(APPL_CTL_DIR=f"{sockets}/appl", APPL_HOME=str(tmp_path / "home"))
        with recorded(program, tmp_path / "run.trace", "tests.canaries.cage:Telling") as live:
            at = eventually(lambda: [h.call.address for h in live.look(Run.holdings) if h.error])[0]
            shown = live.ask("show", content=True)
            assert shown["calls"][0]["error"]["message"].startswith("[secret ")
            wrong += [f"{each} sent" for each in found(json.dumps(shown))]
            for words in (
                ["ls", "--json"], ["ls"], ["show", "--content"], ["show", "--content", "--json"],
                ["show"], ["pause"], ["resume", "--json"], ["set", "budget", "calls=9"],
                ["cancel", at],
            ):  # fmt: skip
                code, out = command("ctl", *words)
                assert code == 0, out
                wrong += [f"{each} printed by ctl {words}" for each in found(out)]
        wrong += [*found_in_files(tmp_path), *found_in_files(Path(sockets))]
    assert not wrong, "\n".join(wrong)


def test_no_canary_is_told_by_the_server_that_was_sent_them(tmp_path: Path) -> None:
    wrong, told = [], list[str]()
    line = io.StringIO()

    def client() -> None:
        url = eventually(line.getvalue).split()[1]
        chat = f"{url}/v1/chat/completions?key={quote(QUERY)}"
        said = {"role": "user", "content": f"Say {DATABASE} and {TOKEN}"}
        tool = {"name": "look", "arguments": json.dumps({"table": DATABASE})}
        calls = {
            "role": "assistant",
            "tool_calls": [{"id": "1", "type": "function", "function": tool}],
        }
        head = {
            "Authorization": f"Bearer {KEY}",
            "X_Gate": HEADER,
            "Content_Type": "application/json",
        }
        body = {"messages": [said], "max_tokens": 2, "model": "embedded"}
        fetched(chat, body, **head)
        fetched(chat, {**body, "messages": [said, calls]}, **head)
        fetched(
            f"{url}/generate", {"text": TOKEN, "sampling_params": {"regex": DATABASE + "("}}, **head
        )
        told.append(fetched(chat, body, **{**head, "Authorization": f"Bearer {KEY}{PASSWORD}"}))
        told.append(fetched(f"{url}/{quote(DATABASE)}", **head))
        told.append(fetched(chat, b'{"messages": "' + TOKEN.encode(), **head))
        told.extend(
            fetched(f"{url}/{each}", **head)
            for each in ("metrics", "server_info", "get_model_info")
        )
        fetched(f"{url}/shutdown", {}, Authorization=f"Bearer {PASSWORD}")

    with caged(tmp_path), logged() as log:
        os.environ["APPL_SERVE_API_KEY"] = KEY
        with contextlib.redirect_stdout(line), contextlib.redirect_stderr(line):
            thread = threading.Thread(target=client)
            thread.start()
            assert main(["serve", "--admin-key", PASSWORD]) == 0
            thread.join()
        places = {"printed": line.getvalue(), "logged": log.getvalue(), "told": "\n".join(told)}
        wrong += [f"{each} {how}" for how, data in places.items() for each in found(data)]
        wrong += found_in_files(tmp_path)
    assert "Unauthorized" in told[0] and not wrong, "\n".join(wrong)


def test_what_looks_for_canaries_finds_them(tmp_path: Path) -> None:
    """The control: a leak in every form that is looked for is seen."""
    (tmp_path / "a.txt").write_text(f"{KEY} {DATABASE}")
    (tmp_path / "b.json").write_text(repr({"a": TOKEN}))
    assert [each.split()[0] for each in found_in_files(tmp_path)] == ["key", "database", "token"]
