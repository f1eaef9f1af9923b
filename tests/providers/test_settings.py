"""Providers in the settings: one backend under several names, keys by the names of variables."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from appl import gen, ppl
from appl.config import load
from appl.errors import BackendRefused, ConfigError
from appl.session import check, replayed
from appl.session.backend_setup import choose, make_backend
from appl.testing.faults import FAULTS, Fault
from appl.tracing import Trace
from tests.sessions import open_run
from tests.wire.servers import FaultServer


@ppl
def ask(question: str) -> Any:
    f"{question}"
    return gen()


@pytest.fixture
def server() -> Iterator[FaultServer]:
    with FaultServer(model="llama") as server:
        yield server


def config(folder: Path, toml: str, **given: Any) -> Any:
    (folder / "appl.toml").write_text(toml)
    return load(given, directory=folder, environ={})


def test_one_backend_may_have_several_names(tmp_path: Path, server: FaultServer) -> None:
    toml = f"""
        model = "small"
        home = "{tmp_path}"
        [models]
        small = "groq/llama"
        [backends.groq]
        type = "openai"
        base_url = "{server.openai_url}"
    """
    found = config(tmp_path, toml)
    check(found)
    with open_run(found, say=lambda line: None) as session:
        assert ask("hi") == server.answer("hi")
    assert session.run.profile.name == "groq" and server.asks[0].data["model"] == "llama"
    with replayed(session.path):
        assert ask("hi") == server.answer("hi")
    assert len(server.asks) == 1


@pytest.mark.parametrize(
    ("table", "match"),
    [
        ('[backends.groq]\ntype = "openia"', "did you mean 'openai'"),
        ('[backends.groq]\ntype = "openai"\nbase_ulr = "http://x"', "did you mean 'base_url'"),
        ('[backends.sglang]\ntype = "openai"', "another name"),
        ('[backends.openai]\nservr = "vllm"', "did you mean 'server'"),
        ("[backends.openai]\nconnect = true", "connect must be"),
        ('[backends.litellm]\nmodle = "x"', "did you mean 'model'"),
        ('[backends.opanai]\nmodel = "x"', "did you mean 'openai'"),
    ],
)
def test_a_slip_in_the_settings_is_found(tmp_path: Path, table: str, match: str) -> None:
    with pytest.raises(ConfigError, match=match):
        check(config(tmp_path, table))


def test_a_backend_under_another_name_has_retries_prices_and_budget(tmp_path: Path) -> None:
    busy = [fault for fault in FAULTS if fault.name.startswith(("429", "50"))]
    with FaultServer(busy) as server:
        toml = f"""
            model = "groq/llama"
            home = "{tmp_path}"
            [budget]
            cost = 1.0
            [backends.groq]
            type = "openai"
            base_url = "{server.openai_url}"
            prices = {{"llama" = {{prompt = 2.0, answer = 10.0}}}}
            [backends.groq.retries]
            attempts = 20
            base = 0.001
            cap = 0.002
            spare = 100
        """
        found = config(tmp_path, toml, max_tokens=50)
        with open_run(found, say=lambda line: None) as session:
            assert ask("hi") == server.answer("hi")
    assert len(server.asks) == len(busy) + 1 and server.answered == {"hi": 1}
    trace = Trace.open(session.path)
    assert [call.response.cost for call in trace.calls] == [8 * 2 + 6 * 10]


def test_a_model_may_have_slashes(tmp_path: Path) -> None:
    table = '[backends.router]\ntype = "openai"\nbase_url = "http://127.0.0.1:9/v1"'
    found = config(tmp_path, table, model="router/anthropic/claude")
    choice = choose(found)
    assert (choice.backend, choice.model) == ("router", "anthropic/claude")
    assert make_backend(found, choice, 0).profile.name == "router"


def test_no_key_is_in_trace_or_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key = "canary-of-no-known-form-4711"
    monkeypatch.setenv("GROQ", key)
    bad = Fault("400", 400, {}, f'{{"error": {{"message": "what is {key}?"}}}}'.encode())
    said: list[str] = []
    with FaultServer([None, bad]) as server:
        toml = f"""
            model = "groq/llama"
            home = "{tmp_path}"
            [backends.groq]
            type = "openai"
            base_url = "{server.openai_url}"
            api_key = {{env = "GROQ"}}
        """
        with (
            pytest.raises(BackendRefused) as caught,
            open_run(config(tmp_path, toml), say=said.append) as session,
        ):
            str(ask("one"))
            str(ask("two"))
    assert server.asks[0].headers["authorization"] == f"Bearer {key}"
    trace = session.path
    assert trace is not None and key.encode() not in trace.read_bytes()
    assert key not in repr(Trace.open(trace).header) + str(caught.value) + "".join(said)
