"""What a model's name means, wherever it is given, and what a run records of it."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import appl
from appl import gen, ppl
from appl.cli import main
from appl.config import load
from appl.errors import ApplError, ModelNotFound
from appl.session import nameable, predicted, replayed, rerun, resumed
from appl.testing.faults import Fault
from tests.sessions import open_run
from tests.wire.servers import FaultServer

KEY = "sk-of-the-test-4711"
REFUSED = Fault("wrong", 404, {}, b'{"error": {"message": "no such model or key"}}')
MODEL = "gpt-5-mini"


@contextlib.contextmanager
def provider(*models: str) -> Iterator[FaultServer]:
    """A server that answers for *models* with the right key, and refuses everything else."""

    def script(ask: Any) -> Fault | None:
        right = ask.headers.get("authorization") == f"Bearer {KEY}"
        return None if right and ask.data["model"] in models else REFUSED

    with FaultServer(script) as server:
        yield server


@pytest.fixture
def openai(monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultServer]:
    with provider(MODEL, "gpt-5") as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.openai_url)
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        yield server


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@ppl
def ask(question: str, *models: str) -> list[Any]:
    f"{question}"
    return [gen(model) for model in models] or [gen()]


def answers(*models: str) -> list[str]:
    return [str(each) for each in ask("Who?", *models)]


def asked(server: FaultServer) -> list[str]:
    return [each.data["model"] for each in server.asks]


PROGRAM = """
import appl
@appl.ppl{of_function}
def ask():
    "Who?"
    return appl.gen({of_call})
def main():
    return str(ask())
{init}
if __name__ == "__main__":
    print(main())
"""
PLACES = {
    "gen": {"of_call": f"'openai/{MODEL}'"},
    "ppl": {"of_function": f"(model='openai/{MODEL}')"},
    "init": {"init": f"appl.init(model='openai/{MODEL}')"},
    "option": {"words": f"--model openai/{MODEL}"},
    "variable": {"APPL_MODEL": f"openai/{MODEL}"},
    "file": {"file": f'model = "openai/{MODEL}"'},
    "bare in gen": {"of_call": f"'{MODEL}'"},
    "bare option": {"words": f"--model {MODEL}"},
    "bare variable": {"APPL_MODEL": MODEL},
}


OFTEN = ("init", "file", "bare variable")
"""Places that are tried in a process of their own in each run of the tests."""


@pytest.fixture
def words(place: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The program and the settings that name its model in a place, and the words that do."""
    how = PLACES[place]
    parts = {"of_function": "", "of_call": "", "init": "", **how}
    (folder / "prog.py").write_text(PROGRAM.format(**parts))
    (folder / "appl.toml").write_text(how.get("file", ""))
    for name in how.keys() & {"APPL_MODEL"}:
        monkeypatch.setenv(name, how[name])
    yield how.get("words", "").split()
    appl.init(model=None)


def is_asked(place: str, openai: FaultServer, out: str, err: str) -> None:
    assert out.strip() == openai.answer("Who?")
    said = f"'{MODEL}' is a model of OpenAI, asked as 'openai/{MODEL}' with the key in"
    assert err.count(said) == ("bare" in place)
    assert set(asked(openai)) == {MODEL}


@pytest.mark.parametrize("place", PLACES)
def test_a_model_is_asked_wherever_it_is_named(
    place: str, openai: FaultServer, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """The first answer with a key, by ``appl run``."""
    assert main(["run", "prog.py", *words]) == 0
    is_asked(place, openai, *capsys.readouterr())


@pytest.mark.parametrize(
    "place",
    [
        pytest.param(name, marks=() if name in OFTEN else pytest.mark.long)
        for name, how in PLACES.items()
        if "words" not in how
    ],
)
def test_a_plain_script_asks_the_model_too(
    place: str, openai: FaultServer, words: list[str]
) -> None:
    done = subprocess.run([sys.executable, "prog.py"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    is_asked(place, openai, done.stdout, done.stderr)


def test_backends_are_made_at_their_first_use_beside_others(
    folder: Path, openai: FaultServer
) -> None:
    """A second server of the same kind, and the embedded engine, in one run; and its replay."""
    with provider("zz") as lan:
        tables = {"lan": {"type": "openai", "base_url": lan.openai_url, "api_key": KEY}}
        names = ("lan/zz", f"openai/{MODEL}", "embedded/embedded", f"openai/{MODEL}", "gpt-5")
        with appl.record("run.trace", backends=tables):
            told = answers(*names)
    assert asked(lan) == ["zz"] and sorted(asked(openai)) == ["gpt-5", MODEL, MODEL]
    before = len(openai.asks)
    with replayed("run.trace"):
        assert answers(*names) == told
    assert len(openai.asks) == before


def test_a_run_goes_on_without_the_backend_for_what_is_recorded(
    folder: Path, openai: FaultServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with appl.record("run.trace"):
        told = answers(MODEL, "embedded")
    monkeypatch.delenv("OPENAI_API_KEY")
    with resumed("run.trace"):
        assert answers(MODEL, "embedded") == told
    with rerun("run.trace", into="again.trace") as report:
        assert answers(MODEL, "embedded") == told
    assert report.live == []
    with replayed("again.trace"):
        assert answers(MODEL, "embedded") == told
    assert asked(openai) == [MODEL]


def test_a_resumed_run_asks_for_what_is_missing(folder: Path, openai: FaultServer) -> None:
    with appl.record("run.trace"):
        answers(MODEL)
    with resumed("run.trace", edited=True):
        answers(MODEL, f"openai/{MODEL}")
    with replayed("run.trace"):
        answers(MODEL, f"openai/{MODEL}")
    assert asked(openai) == [MODEL, MODEL]


def test_a_prediction_says_that_a_new_model_would_be_asked(
    folder: Path, openai: FaultServer
) -> None:
    with appl.record("run.trace"):
        answers(MODEL)
    found = predicted("run.trace", lambda: answers(MODEL, f"openai/{MODEL}"))
    assert [each.cause for each in found.fewest] == ["new"] and len(openai.asks) == 1


def test_a_program_that_names_its_model_is_not_told_that_none_is_chosen(
    folder: Path, openai: FaultServer, capsys: pytest.CaptureFixture[str]
) -> None:
    with appl.record("run.trace"):
        answers(f"openai/{MODEL}")
    assert "no model is configured" not in capsys.readouterr().err


def test_a_default_model_by_its_bare_name_is_resumed_without_its_key(
    folder: Path, openai: FaultServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with appl.record("run.trace", model=MODEL):
        told = answers()
    monkeypatch.delenv("OPENAI_API_KEY")
    with resumed("run.trace"):
        assert answers() == told


async def test_a_coroutine_names_a_model_too(folder: Path, openai: FaultServer) -> None:
    async with appl.record("run.trace"):
        assert await gen(f"openai/{MODEL}", messages="Who?") == openai.answer("Who?")
    async with replayed("run.trace"):
        assert await gen(f"openai/{MODEL}", messages="Who?") == openai.answer("Who?")


def test_every_item_of_a_map_may_name_a_model(folder: Path, openai: FaultServer) -> None:
    def one(name: str) -> str:
        return str(gen(name, messages="Who?"))

    names = [f"openai/{MODEL}", "openai/gpt-5", "embedded"] * 3
    with appl.record("run.trace"):
        told = list(appl.map(one, names))
    with replayed("run.trace"):
        assert list(appl.map(one, names)) == told
    assert len(openai.asks) == 6


def test_a_gateway_and_the_provider_itself_are_two(folder: Path, openai: FaultServer) -> None:
    """Both have a model that is called ``openai/…`` somewhere."""
    name = f"openai/{MODEL}"
    with provider(name) as gateway:
        table = {"type": "openai", "base_url": gateway.openai_url, "api_key": KEY}
        names = (name, f"router/{name}", name)
        settings: dict[str, Any] = {"model": f"router/{name}", "backends": {"router": table}}
        with appl.record("run.trace", **settings):
            answers()
            answers(*names)
        assert asked(gateway) == [name] * 2 and asked(openai) == [MODEL] * 2
        with replayed("run.trace"):
            answers()
            answers(*names)


def test_settings_that_list_a_name_win(folder: Path, openai: FaultServer) -> None:
    with provider(MODEL) as lan:
        tables = {
            "lan": {"type": "openai", "base_url": lan.openai_url, "api_key": KEY, "models": [MODEL]}
        }
        with appl.record(backends=tables):
            answers(MODEL)
        with appl.record(backends=tables, model=MODEL):
            answers()
    assert asked(lan) == [MODEL, MODEL] and not openai.asks


@pytest.mark.parametrize(
    ("name", "variable", "extra"),
    [
        ("gpt-5-mini", "OPENAI_API_KEY", "openai"),
        ("o3", "OPENAI_API_KEY", "openai"),
        ("o4-mini", "OPENAI_API_KEY", "openai"),
        ("claude-sonnet-4-5", "ANTHROPIC_API_KEY", "anthropic"),
        ("mistral/mistral-small-latest", "MISTRAL_API_KEY", "litellm"),
        ("gemini-2.5-flash", "GEMINI_API_KEY", "litellm"),
    ],
)
def test_a_bare_name_without_its_key_says_what_to_type(
    name: str, variable: str, extra: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(variable, raising=False)
    said: list[str] = []
    with pytest.raises(ModelNotFound) as refused, open_run(load(), say=said.append):
        answers(name)
    said.append(str(refused.value))
    with pytest.raises(ModelNotFound) as refused, open_run(load({"model": name})):
        answers()
    said.append(str(refused.value))
    for text in said[-2:]:
        assert f"export {variable}=" in text and f"'appl[{extra}]'" in text
        assert "embedded" not in text


REAL = (
    "text-embedding-3-small", "nomic-embed-text", "embed-v4", "mixedbread-embed", "llama-3.1-8b",
    "Qwen/Qwen3-8B", "qwen3:8b", "gpt-oss-20b", "embeddinggemma", "mistral", "phi-4", "gpt2",
    "gpt-5-mini", "claude-opus-4-1", "gemini-embedding-001", "voyage-3-embed",
)  # fmt: skip


@pytest.mark.parametrize("name", REAL)
def test_no_suggestion_leads_from_a_real_model_to_the_embedded_one(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY"):
        monkeypatch.delenv(variable, raising=False)
    for settings, names in (({"model": name}, []), ({}, [name])):
        with pytest.raises(ApplError) as refused, open_run(load(settings)):
            answers(*names)
        assert "did you mean" not in str(refused.value)


def test_a_slip_of_a_name_is_still_told(folder: Path) -> None:
    with pytest.raises(ModelNotFound, match="did you mean 'embedded'"), open_run(load()):
        answers("embeded")


def test_a_slip_of_a_backend_is_told(folder: Path) -> None:
    for settings, names in (({"model": "opnai/gpt-5"}, []), ({}, ["opnai/gpt-5"])):
        refused = pytest.raises(ModelNotFound, match="did you mean 'openai/gpt-5'")
        with refused, open_run(load(settings)):
            answers(*names)


def test_what_can_be_named_says_what_is_missing(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    config = load(
        {
            "models": {"fast": MODEL},
            "backends": {"lan": {"type": "openai", "base_url": "http://lan/v1", "models": ["zz"]}},
        }
    )
    found = {each.name: each for each in nameable(config)}
    assert found["fast"].missing_key == ("OPENAI_API_KEY",)
    assert found["lan/zz"].missing_key == () and found["lan/zz"].origin == "settings"
    assert found["claude-sonnet-4-5"].missing_key == ()
    assert found["embedded/embedded"].origin == "backend"
    assert {"openai/…", "litellm/…", "sglang/…"} <= found.keys()
    assert not {"small", "large"} & found.keys()  # nothing says which model they mean
