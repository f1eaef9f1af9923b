from __future__ import annotations

import re
from pathlib import Path

import pytest

from appl import config
from appl.backend import Emit, Request, Response
from appl.config import SecretSetting, find_file, load
from appl.errors import ConfigError
from appl.session import check

from .conftest import Project


def settings(folder: Path, toml: str = "", environ: dict[str, str] | None = None, **given: object):
    (folder / "appl.toml").write_text(toml)
    return load(given, directory=folder, environ=environ or {})


def test_without_any_source_the_defaults_hold(tmp_path: Path) -> None:
    found = load(directory=tmp_path, environ={})
    assert (found.model, found.trace, str(found.home)) == (None, True, ".appl")
    assert found.origin("trace") == "default"


def test_arguments_win_over_environment_over_file(tmp_path: Path) -> None:
    toml = 'model = "file"\nbackend = "file"\nseed = 1\n'
    environ = {"APPL_MODEL": "env", "APPL_BACKEND": "env"}
    found = settings(tmp_path, toml, environ, model="arg")
    assert (found.model, found.backend, found.seed) == ("arg", "env", 1)
    assert found.origin("model") == "--model"
    assert found.origin("backend") == "APPL_BACKEND"
    assert found.origin("seed") == str(tmp_path / "appl.toml")


def test_an_unknown_key_names_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"unknown key 'modle'; did you mean 'model'\?"):
        settings(tmp_path, 'modle = "x"')


def test_a_variable_with_a_slip_is_refused_and_a_foreign_one_is_not(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="APPL_TRCE is not known; did you mean 'APPL_TRACE'"):
        settings(tmp_path, environ={"APPL_TRCE": "off"})
    assert settings(tmp_path, environ={"APPL_STORE_URL": "x"}).trace


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("trace", "perhaps", "on or off"),
        ("temperature", "-1", "at least 0"),
        ("temperature", "nan", "at least 0"),
        ("max_tokens", "0", "at least 1"),
        ("seed", "1.5", "whole number"),
        ("durability", "sytem", "did you mean 'system'"),
        ("model", " ", "not empty"),
    ],
)
def test_an_impossible_value_says_what_is_wanted(tmp_path: Path, key: str, value: str, said: str):
    with pytest.raises(ConfigError, match=said):
        settings(tmp_path, environ={f"APPL_{key.upper()}": value})


def test_a_secret_in_a_file_is_refused_and_one_by_reference_is_not_shown(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="looks like a secret"):
        settings(tmp_path, '[backends.x]\napi_key = "sk-123"')
    found = settings(tmp_path, '[backends.x]\napi_key = {env = "X_KEY"}\nkv_tokens = 12')
    assert found.backends["x"]["api_key"] == SecretSetting("X_KEY")
    assert ("backends.x.api_key", "$X_KEY", str(tmp_path / "appl.toml")) in list(found.shown())
    with pytest.raises(ConfigError, match="X_KEY is not set"):
        found.settings_of("x")


def test_pyproject_is_read_only_for_its_own_table(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.other]\nx = 1\n")
    assert find_file(tmp_path) is None
    (tmp_path / "pyproject.toml").write_text('[tool.appl]\nmodel = "m"\n')
    assert load(directory=tmp_path, environ={}).model == "m"


def test_the_search_stops_at_the_repository(tmp_path: Path) -> None:
    (tmp_path / "appl.toml").write_text('model = "outside"')
    inner = tmp_path / "repo" / "deep"
    inner.mkdir(parents=True)
    assert load(directory=inner, environ={}).model is None
    (tmp_path / "repo" / ".git").mkdir()
    (tmp_path / "repo" / "appl.toml").write_text('model = "inside"')
    assert load(directory=inner, environ={}).model == "inside"


def test_a_relative_home_is_meant_from_its_file(tmp_path: Path) -> None:
    assert settings(tmp_path, 'home = "runs"').home == tmp_path / "runs"


def test_broken_toml_is_an_error_with_the_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"appl.toml is not valid TOML"):
        settings(tmp_path, "model = ")


def test_init_holds_until_it_is_taken_back(tmp_path: Path) -> None:
    config.init(model="mine")
    try:
        found = load(directory=tmp_path, environ={"APPL_MODEL": "env"})
        assert (found.model, found.origin("model")) == ("mine", "appl.init")
    finally:
        config.init(model=None)
    assert load(directory=tmp_path, environ={}).model is None
    with pytest.raises(ConfigError, match="did you mean 'model'"):
        config.init(modell="x")


def test_tables_of_several_inits_are_put_together(tmp_path: Path) -> None:
    config.init(models={"a": "x"}, backends={"b": {"one": 1}})
    config.init(models={"c": "y"}, backends={"b": {"two": 2}})
    try:
        found = load(directory=tmp_path, environ={})
        assert sorted(found.models) == ["a", "c"]
        assert found.backends["b"] == {"one": 1, "two": 2}
    finally:
        config.init(models=None, backends=None)


@pytest.mark.parametrize(
    ("toml", "said"),
    [
        ("[models]\na = {modle = 'x'}", "unknown option 'modle'; did you mean 'model'"),
        (
            "[models]\na = {temprature = 1}",
            "unknown option 'temprature'; did you mean 'temperature'",
        ),
        ("[models]\na = {temperature = 'hot'}", "models.a: .*takes a number, got 'hot'"),
        ("[models]\na = 'b'\nb = 'a'", "in a circle: a → b → a; let one of them stand for a model"),
        ("[models]\na = 'embeded'", "no model 'embeded' .for which 'a' stands.; did you mean"),
        (
            "[backends.embedded]\ncache_tokns = 5",
            "no setting 'cache_tokns'; did you mean 'cache_tokens'",
        ),
        ("[backends.embedded]\nmax_batch = 'x'", "max_batch must be int, got 'x'"),
        ("[backends.embedded]\ncache = 'radx'", r"must be Literal\[.radix., .naive.\], got .radx."),
        ("[backends.embeded]\nseed = 5", "no backend 'embeded'; did you mean 'embedded'"),
        ("backend = 'appl.testing:Replies'", "'appl.testing:Replies' cannot be imported"),
    ],
)
def test_config_finds_what_a_call_would_be_refused_for(project: Project, toml: str, said: str):
    project.write("appl.toml", toml)
    shown = project.appl("config")
    assert re.search(said, shown.out + shown.err), shown
    assert shown.code == (0 if "imported" in said else 2)
    if "stands" not in said and "imported" not in said:
        opened = project.appl("run", "prog.py:ask")
        assert opened.code == 2 and re.search(said, opened.err), opened
        assert "recording in" not in opened.err


def test_config_needs_no_secret(project: Project) -> None:
    project.write(
        "appl.toml", "[models]\na = 'b'\n[backends.embedded]\nweights = {env = 'NOT_SET'}"
    )
    shown = project.appl("config")
    assert shown.code == 0
    assert "NOT_SET is not set, so the backend 'embedded' is not checked" in shown.out


class Needy:
    """A backend that has to be told something."""

    def __init__(self, *, url: str, **more: object) -> None:
        raise AssertionError("it was never told")

    async def complete(self, request: Request, emit: Emit | None = None) -> Response:
        raise NotImplementedError

    async def aclose(self) -> None:
        raise NotImplementedError


def test_a_setting_that_is_missing_is_named(tmp_path: Path) -> None:
    found = settings(tmp_path, f"backend = '{__name__}:Needy'")
    with pytest.raises(ConfigError, match=r"needs the setting 'url': write .backends.*. url = …"):
        check(found)
