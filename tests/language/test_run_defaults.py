"""Sampling options as defaults of a run, and where they come from."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import appl
from appl import gen, ppl
from appl.cli import main
from appl.config import load
from appl.errors import ConfigError, InvalidOption, UnknownOption
from appl.session.replaying import replayed
from appl.testing import Echo, running
from appl.tracing import Trace

DEFAULTS = {"stop": ["\n", "END"], "top_p": 0.5, "backend_options": {"top_k": 40}}
ASKED = {"stop": ["\n", "END"], "top_p": 0.5, "extra": {"top_k": 40}}


class Keen(Echo):
    """A backend with options of its own."""

    def __init__(self) -> None:
        super().__init__(options=("top_k", "logit_bias"))


BACKEND = f"{__name__}:Keen"


def recorded(path: Path, **settings: object) -> Path:
    with appl.record(path, backend=BACKEND, **settings):
        gen(messages="x").result()
        gen(messages="x", stop="y", top_p=0.25, top_k=3).result()
    return path


def samplings(path: Path) -> list[dict[str, object]]:
    return [json.loads(call.sampling) for call in Trace.open(path).calls]


def test_a_run_gives_its_options_to_the_calls_that_leave_them_open(tmp_path: Path) -> None:
    first, second = samplings(recorded(tmp_path / "a.trace", **DEFAULTS))
    assert first == ASKED
    assert second == {"stop": ["y"], "top_p": 0.25, "extra": {"top_k": 3}}


def test_a_run_without_such_defaults_asks_as_ever(tmp_path: Path) -> None:
    assert samplings(recorded(tmp_path / "a.trace"))[0] == {}


def test_a_replay_has_the_defaults_of_its_record(tmp_path: Path) -> None:
    path = recorded(tmp_path / "a.trace", **DEFAULTS)
    with replayed(path):  # which raises where a request differs
        gen(messages="x").result()
        gen(messages="x", stop="y", top_p=0.25, top_k=3).result()


def test_a_name_for_a_model_wins_over_the_run(tmp_path: Path) -> None:
    path = tmp_path / "a.trace"
    models = {"other": {"top_p": 0.75, "stop": "."}}
    with appl.record(path, backend=BACKEND, models=models, **DEFAULTS):
        gen("other", messages="x").result()
    assert samplings(path) == [{"stop": ["."], "top_p": 0.75, "extra": {"top_k": 40}}]


def test_they_may_stand_in_a_settings_file(tmp_path: Path) -> None:
    toml = 'stop = "\\n"\ntop_p = 0.5\n[backend_options]\ntop_k = 40\nlogit_bias = {"1" = 2}\n'
    (tmp_path / "appl.toml").write_text(toml)
    found = load(directory=tmp_path, environ={}).sampling
    assert found == {"stop": ("\n",), "top_p": 0.5, "top_k": 40, "logit_bias": {"1": 2}}


def test_and_on_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "p.py").write_text(
        "from appl import gen, ppl\n@ppl\ndef f():\n    'Hi'\n    return gen()\n"
    )
    monkeypatch.chdir(tmp_path)
    words = ["run", "p.py:f", "--backend", BACKEND, "--top-p", "0.5", "--stop", "\n"]
    assert main([*words, "--trace", "a.trace"]) == 0
    assert samplings(tmp_path / "a.trace") == [{"stop": ["\n"], "top_p": 0.5}]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"top_p": 1.5}, "from 0 to 1"),
        ({"stop": ""}, "a text"),
        ({"stop": ["a", 3]}, "texts"),
        ({"backend_options": "top_k=4"}, "a table"),
        ({"backend_options": {"top_p": 0.5}}, "top_p = "),
        ({"backend_options": {"n": 2}}, r"gen\(n="),
    ],
)
def test_an_impossible_default_is_refused_before_any_call(
    settings: dict[str, object], said: str
) -> None:
    with pytest.raises(ConfigError, match=said):
        appl.record(backend=BACKEND, **settings).__enter__()


def test_an_option_that_the_backend_does_not_have_is_refused_by_the_call() -> None:
    refused = pytest.raises(UnknownOption, match="top_k")
    with appl.record(backend="appl.testing:Echo", backend_options={"top_k": 4}), refused:
        gen(messages="x")


# -- a JSON schema as a text

SCHEMA = '{"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}'


@pytest.mark.parametrize("written", [SCHEMA, f"\n  {SCHEMA}", json.loads(SCHEMA)])
def test_a_json_schema_may_be_given_as_its_text(written: object) -> None:
    @ppl
    def number() -> object:
        "A number?"
        return gen(response_format=written).result()

    with running(appl.testing.Scripted(['{"n": "no"}', '{"n": 3}'])):
        assert number() == {"n": 3}


@pytest.mark.parametrize("written", ['{"type": ', "{}", "object", "[" * 10_000, "{" * 10_000])
def test_a_text_that_is_no_schema_is_refused_before_any_call(written: str) -> None:
    with running(Echo()) as seen, pytest.raises(InvalidOption, match="response_format"):
        gen(messages="x", response_format=written)
    assert seen.requests == []
