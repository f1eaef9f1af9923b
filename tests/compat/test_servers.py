"""An ``appl.yaml`` of APPL 0.2: what its servers mean, over HTTP, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from appl import gen, init, record
from appl.config import followed, load
from appl.errors import ConfigError, ModelNotFound
from appl.parts.compat.servers import read
from tests.wire.servers import FaultServer

PUBLIC_KEY, PRIVATE_KEY = "sk-public-0123456789", "sk-private-0123456789"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to work in, with two keys in the environment."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", PUBLIC_KEY)
    monkeypatch.setenv("MINE", PRIVATE_KEY)
    return tmp_path


def asked(folder: Path, text: str, *models: str | None, **options: Any) -> list[Any]:
    """The requests of one question to each of *models*, whose settings are *text*."""
    with FaultServer() as server:
        (folder / "appl.yaml").write_text(text.replace("URL", server.openai_url))
        with record(trace=False):
            for model in models or (None,):
                str(gen(model, messages="Hello?", **options))
        return server.asks


LOCAL = """\
default_servers: {default: local, small: cold}
servers:
  local:
    model: Qwen/Qwen2.5-7B
    base_url: URL
    api_key: os.environ/MINE
    cost_currency: EUR
  cold: {template: local, model: tiny, temperature: 0, max_completion_tokens: 5}
"""


def test_prompts_go_to_the_address_of_the_file_with_its_key_alone(folder: Path) -> None:
    first, second = asked(folder, LOCAL, None, "small")
    assert (first.data["model"], second.data["model"]) == ("Qwen/Qwen2.5-7B", "tiny")
    assert (second.data["temperature"], second.data["max_tokens"]) == (0, 5)
    for ask in (first, second):
        assert ask.headers["authorization"] == f"Bearer {PRIVATE_KEY}"


def test_a_server_without_a_key_is_never_sent_that_of_the_environment(folder: Path) -> None:
    (ask,) = asked(folder, "servers: {srt: {model: custom/default, base_url: URL}}", "srt")
    assert ask.data["model"] == "default"
    assert PUBLIC_KEY not in str(dict(ask.headers))


def test_headers_and_the_older_word_for_an_address_are_obeyed(folder: Path) -> None:
    text = "servers: {a: {model: m, api_base: URL, extra_headers: {X-Team: blue}}}"
    (ask,) = asked(folder, text, "a")
    assert ask.headers["x-team"] == "blue"


def test_several_servers_answer_in_one_run(folder: Path) -> None:
    with FaultServer() as other:
        text = "servers: {a: {model: m, base_url: URL}, b: {model: n, base_url: OTHER}}"
        first = asked(folder, text.replace("OTHER", other.openai_url), "a", "b")
    assert [ask.data["model"] for ask in first + other.asks] == ["m", "n"]


@pytest.mark.parametrize(
    ("server", "kind", "model"),
    [
        ({"model": "m", "provider": "custom", "base_url": "http://x"}, "openai", "m"),
        ({"model": "custom/m", "base_url": "http://x"}, "openai", "m"),
        ({"model": "m", "provider": "custom/ollama", "base_url": "http://x"}, "litellm", "ollama/m"),
        ({"model": "openai/m", "base_url": "http://x"}, "openai", "m"),
        ({"model": "a/b", "base_url": "http://x"}, "openai", "a/b"),
        ({"model": "gpt-4o", "api_key": "os.environ/MINE"}, "openai", "gpt-4o"),
        ({"model": "claude-3", "api_key": "os.environ/MINE"}, "litellm", "anthropic/claude-3"),
        ({"model": "gemini-2", "api_key": "os.environ/MINE"}, "litellm", "gemini/gemini-2"),
        ({"model": "azure/mine", "api_version": "1"}, "litellm", "azure/mine"),
        ({"model": "m", "provider": "mistral"}, "litellm", "mistral/m"),
        ({"model": "mistral/m", "provider": "mistral"}, "litellm", "mistral/m"),
        ({"model": "m", "custom_llm_provider": "groq"}, "litellm", "groq/m"),
        ({"model": "gpt-4o", "timeout": 5}, "openai", "gpt-4o"),
    ],
)  # fmt: skip
def test_who_is_asked(server: dict[str, Any], kind: str, model: str) -> None:
    found = read({"it": server}, "appl.init")
    assert found.backends["it"]["type"] == kind
    assert found.models["it"]["model"] == f"it/{model}"


def test_a_server_that_is_only_a_name_needs_no_backend_of_its_own() -> None:
    found = read({"a": {"model": "azure/gpt35"}, "b": {"model": "gpt-4o", "top_p": 1}}, "appl.init")
    assert found.backends == {}
    assert found.models == {
        "a": {"model": "litellm/azure/gpt35"},
        "b": {"model": "gpt-4o", "top_p": 1},
    }


def test_a_template_needs_no_model(tmp_path: Path) -> None:
    text = "servers: {base: {base_url: 'http://x'}, one: {template: base, model: m}}"
    (tmp_path / "appl.yaml").write_text(text)
    found = load(directory=tmp_path, environ={})
    assert set(found.backends) == {"one"} and followed("one", found.models).model == "one/m"


def test_limits_and_prices_of_a_server_are_obeyed(tmp_path: Path) -> None:
    text = """\
servers:
  one: {model: m, base_url: "http://x", timeout: 5, num_retries: 2,
        input_cost_per_token: 1.2e-6, output_cost_per_token: 2.0e-6}
"""
    (tmp_path / "appl.yaml").write_text(text)
    found = load(directory=tmp_path, environ={})
    assert found.schedule["backends.one.deadlines"] == {"total": 5.0}
    assert found.schedule["backends.one.retries"] == {"attempts": 3}
    assert found.schedule["prices"] == {"m": {"prompt": 1.2, "answer": 2.0}}


def test_settings_for_litellm_reach_it() -> None:
    server = {"model": "bedrock/m", "aws_region_name": "eu-west-1", "organization": "o"}
    settings = read({"it": server}, "appl.init").backends["it"]
    assert settings["parameters"] == {"aws_region_name": "eu-west-1", "organization": "o"}


def test_the_layout_of_0_1_still_names_the_default(tmp_path: Path) -> None:
    (tmp_path / "appl.yaml").write_text("settings: {model: {default: a, large: azure/b}}")
    found = load(directory=tmp_path, environ={})
    assert (found.model, found.models["large"].model) == ("a", "litellm/azure/b")


def test_a_json_file_is_read_too(tmp_path: Path) -> None:
    (tmp_path / "appl.json").write_text('{"default_servers": {"default": "m"}}')
    assert load(directory=tmp_path, environ={}).model == "m"


REFUSED = [
    ("api_key: sk-123", 4, "secrets do not belong in a file; write api_key: os.environ/NAME"),
    ("baseurl: x", 4, "servers.it.baseurl is not known; did you mean 'base_url'"),
    ("fallbacks: [a]", 4, "servers.it.fallbacks has no meaning here; name a list of models"),
    ("mock_response: hi", 4, "give gen\\(mock_response=...\\)"),
    ("n: 3", 4, "give gen\\(n=...\\)"),
    ("extra_headers: {Authorization: x}", 4, "cannot hold the secret 'Authorization'"),
    ("extra_headers: 3", 4, "must hold names with values"),
    ("provider: custom", 3, "servers.it.base_url is missing"),
    ("api_key: os.environ/MINE", 3, "servers.it.provider is missing: nothing says who has"),
    ("aws_region_name: x\n    base_url: 'http://x'", 4, "is for a provider that litellm asks"),
    ("provider: bedrock\n    aws_secret_access_key: x", 5, "set AWS_SECRET_ACCESS_KEY in the env"),
    ("provider: 3", 4, "must be a text, got 3"),
    ("input_cost_per_token: cheap", 4, "must be a number, got 'cheap'"),
    ("template: nobody", 4, "its template 'nobody' is no server"),
]


@pytest.mark.parametrize(("setting", "line", "message"), REFUSED)
def test_what_cannot_be_obeyed_is_refused_with_file_and_line(
    tmp_path: Path, setting: str, line: int, message: str
) -> None:
    file = tmp_path / "appl.yaml"
    file.write_text(f"servers:\n  # mine\n  it:\n    {setting}\n    model: unheard-of\n")
    with pytest.raises(ConfigError, match=message) as caught:
        load(directory=tmp_path, environ={})
    assert str(caught.value).startswith(f"{file}:{line}: ")


def test_the_line_is_found_in_toml_too(tmp_path: Path) -> None:
    file = tmp_path / "appl.toml"
    file.write_text('model = "m"\n\n[servers.it]\nmodel = "x"\nbaseurl = "y"\n')
    with pytest.raises(ConfigError, match="did you mean 'base_url'") as caught:
        load(directory=tmp_path, environ={})
    assert str(caught.value).startswith(f"{file}:5: ")


def test_an_address_without_a_model_is_refused(tmp_path: Path) -> None:
    (tmp_path / "appl.yaml").write_text("servers: {it: {base_url: 'http://x'}}")
    with pytest.raises(ConfigError, match=r"servers\.it\.model is missing"):
        load(directory=tmp_path, environ={})


def test_a_default_server_may_be_the_bare_name_of_a_public_model(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with FaultServer() as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.openai_url)
        (folder / "appl.yaml").write_text("default_servers: {default: gpt-4o-mini}")
        with record(trace=False):
            str(gen(messages="Hello?"))
    assert [ask.data["model"] for ask in server.asks] == ["gpt-4o-mini"]


@pytest.mark.parametrize("text", ["servers: {a: {model: gpt-4o}}", "settings: {}"])
def test_without_a_default_server_the_default_is_that_of_0_2(
    folder: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    (folder / "appl.yaml").write_text(text)
    with FaultServer(kind="openai") as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.openai_url)
        monkeypatch.setenv("OPENAI_API_KEY", PRIVATE_KEY)
        with record(trace=False):
            str(gen(messages="Hello?"))
    assert [ask.data["model"] for ask in server.asks] == ["gpt-4o-mini"]


def test_without_a_key_for_it_no_other_model_answers(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "appl.yaml").write_text("servers: {a: {model: gpt-4o}}")
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    said = "no default server is named, so APPL's default is asked: 'gpt-4o-mini'"
    with pytest.raises(ModelNotFound, match=said), record(trace=False):
        gen(messages="Hello?")


@pytest.mark.parametrize("given", [{"model": "embedded/embedded"}, {"backend": "embedded"}])
def test_a_model_that_is_chosen_elsewhere_is_no_other(folder: Path, given: dict[str, str]) -> None:
    (folder / "appl.yaml").write_text("servers: {a: {model: gpt-4o}}")
    assert load(given, directory=folder).model == given.get("model")
    assert load(directory=folder, environ={"APPL_MODEL": "m"}).model == "m"


def test_a_server_that_no_call_names_stops_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is refused when a call would go there: its key is missing."""
    monkeypatch.chdir(tmp_path)
    url = "http://127.0.0.1:9/v1"
    text = f"servers: {{moon: {{model: custom/kimi, base_url: {url}, api_key: os.environ/MOON}}}}"
    (tmp_path / "appl.yaml").write_text(text)
    with record(trace=False, backend="appl.testing:Echo"):
        assert str(gen(messages="Hello?"))
        with pytest.raises(ModelNotFound, match="MOON is not set"):
            str(gen("moon", messages="Hello?"))


def test_a_file_of_todays_layout_has_no_default_of_0_2(folder: Path) -> None:
    (folder / "appl.yaml").write_text("seed: 7")
    assert load(directory=folder, environ={}).model is None


def test_a_key_given_in_python_is_taken(folder: Path) -> None:
    with FaultServer() as server:
        local = {"model": "m", "base_url": server.openai_url, "api_key": PRIVATE_KEY}
        init(servers={"local": local}, default_servers={"default": "local"})
        try:
            with record(trace=False):
                str(gen(messages="Hello?"))
        finally:
            init(servers=None, default_servers=None)
    assert [ask.headers["authorization"] for ask in server.asks] == [f"Bearer {PRIVATE_KEY}"]
