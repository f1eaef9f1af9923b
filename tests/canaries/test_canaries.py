"""No secret is left anywhere: not in traces, exports, the viewer, the terminal, logs or errors."""

from __future__ import annotations

import contextlib
import io
import logging
import pickle
import traceback
from collections.abc import Iterator
from pathlib import Path

import pytest

from appl.cli.failure import text
from appl.config import load
from appl.session import open_run
from appl.testing_faults import FAULTS, Fault, FaultServer
from appl_backends.embedded import WEIGHTS

from .cage import (
    DATABASE,
    HEADER,
    KEY,
    PASSWORD,
    QUERY,
    TOKEN,
    caged,
    command,
    echoes,
    found,
    found_in_files,
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
    ["view", "--html", "FILE"], ["diff", "last", "last"],
)  # fmt: skip


def settings(client: str, server: FaultServer) -> str:
    place = f"{server.openai_url}?key={QUERY}"
    own = {
        "gate": f'type = "openai"\nbase_url = "{place}"\nheaders = {{"X-Gate" = "{HEADER}"}}',
        "litellm": f'base_url = "{server.openai_url}"\nheaders = {{"X-Gate" = "{HEADER}"}}',
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
        first_token = 0.1
        between_tokens = 0.1
        [backends.{client}]
        {own}
        api_key = {{env = "GATE_API_KEY"}}
    """


@contextlib.contextmanager
def logged() -> Iterator[io.StringIO]:
    """What is logged at a level that is shown by default."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    logging.getLogger().addHandler(handler)
    try:
        yield stream
    finally:
        logging.getLogger().removeHandler(handler)


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
    with FaultServer(lambda ask: fault) as server, logged() as log:
        Path("appl.toml").write_text(settings(client, server))
        with open_run(load(directory=Path()), say=said.append):
            errors = outcomes()
        assert server.asks and server.asks[0].headers["authorization"] == f"Bearer {KEY}"
    name = fault.name if fault else "no fault"
    places = {
        "an error": "".join(map(shown, errors)),
        "a line": "".join(said),
        "the log": log.getvalue(),
    }
    return [f"{name}: {each} in {place}" for place, data in places.items() for each in found(data)]


@pytest.mark.parametrize("client", KNOWN)
def test_no_canary_gets_out_whatever_the_server_does(client: str, tmp_path: Path) -> None:
    wrong: list[str] = []
    faults = (None, *FAULTS, *echoes(*KNOWN[client]))
    with caged(tmp_path):
        for fault in faults:
            wrong += leaks_of_a_run(client, fault)
        runs = sorted(Path(".appl/runs").glob("*.trace"))
        assert len(runs) == len(faults)
        for number, path in enumerate((runs[0], *runs[-1::-5])):
            for words in READING:
                known = {"last": str(path), "FILE": f"{number}{words[1]}" if words[1:] else ""}
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
    cage._asked(f"Now it is {os.environ['DATABASE_PASSWORD']} and {os.environ['SERVICE_TOKEN']}")
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
            (["trace", "replay"], 3),
            (["trace", "replay", "--program", "prog.py:changed"], 3),
            (["trace", "replay", "--program", "prog.py:changed", "--json"], 3),
            (["config"], 0),
        ):
            code, out = command(*words)
            assert code == wanted, (words, out)
            wrong += [f"{each} printed by {words}" for each in found(out)]
        Path("runs").write_text("")
        for toml in (
            f'home = "{tmp_path}/runs"\nmodel = "gate/x"\n[backends.gate]\ntype = "openai"\n'
            f'base_url = "http://u:{PASSWORD}@127.0.0.1:9/v1?key={QUERY}"\napi_key = {{env = "GATE_API_KEY"}}',
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


def test_what_looks_for_canaries_finds_them(tmp_path: Path) -> None:
    """The control: a leak in every form that is looked for is seen."""
    (tmp_path / "a.txt").write_text(f"{KEY} {DATABASE}")
    (tmp_path / "b.json").write_text(repr({"a": TOKEN}))
    assert [each.split()[0] for each in found_in_files(tmp_path)] == ["key", "database", "token"]
