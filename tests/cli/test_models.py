"""Names for models: aliases, defaults and options, from the settings to the recorded call."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from appl import config, gen, ppl, select
from appl.backend import Profile
from appl.cli import main
from appl.config import Alias, followed, load
from appl.config.values import USUAL as CONFIGURED
from appl.errors import ConfigError, InvalidOption, ModelNotFound
from appl.runtime import models_from
from appl.runtime.answers.models import USUAL
from appl.session import choose
from appl.testing import Fake, Model, Models, running
from tests.wire.servers import FaultServer

from .conftest import Project


def settings(folder: Path, toml: str, **given: object):
    (folder / "appl.toml").write_text(toml)
    return load(given, directory=folder, environ={})


def asked(program, models: Models | None = None, **profile):
    """The requests of *program* on a backend with the models a and b."""
    backend = Fake(lambda _: "ok", name="fake", models=("a", "b"), default_model="a", **profile)
    with running(backend, models=models(backend.profile) if models else None) as seen:
        program()
    return [(r.model, r.sampling.temperature, r.sampling.max_tokens) for r in seen.requests]


def table(**names: Model):
    return lambda profile: Models(profile, None, names, "fake")


# -- in the settings


def test_names_stand_for_models_with_options(tmp_path: Path) -> None:
    found = settings(
        tmp_path,
        'model = "small"\n[models]\nsmall = "x/y"\njudge = {model = "small", temperature = 0.5}\n',
    )
    assert found.models == {"small": Alias("x/y"), "judge": Alias("small", {"temperature": 0.5})}
    assert followed("judge", found.models) == Alias("x/y", {"temperature": 0.5})
    rows = {key: (value, origin) for key, value, origin in found.shown()}
    assert rows["models.judge"] == ("small temperature=0.5", str(tmp_path / "appl.toml"))
    assert rows["models.large"] == (None, "default")


def test_options_that_are_nearer_win_and_circles_are_shown(tmp_path: Path) -> None:
    found = settings(
        tmp_path,
        '[models]\na = {model = "b", seed = 1}\nb = {model = "m", seed = 2, max_tokens = 3}\n'
        'm = {model = "m", temperature = 0.0}\nx = "y"\ny = "x"\n',
    )
    assert followed("a", found.models) == Alias(
        "m", {"seed": 1, "max_tokens": 3, "temperature": 0.0}
    )
    with pytest.raises(ConfigError, match="x → y → x"):
        followed("x", found.models)


def test_a_name_without_a_model_is_the_default_with_options(tmp_path: Path) -> None:
    found = settings(tmp_path, "[models]\ncold = {temperature = 0.0}\n")
    assert followed("cold", found.models) == Alias(None, {"temperature": 0.0})
    assert str(found.models["cold"]) == "the default model temperature=0.0"


@pytest.mark.parametrize(
    ("toml", "said"),
    [
        ("models = 3", "models must be a table"),
        ("[models]\nsmall = 3", "small must name a model"),
        ('[models]\nsmall = ""', "small must name a model"),
        ("[models]\nsmall = {model = 3}", "model must be a text"),
    ],
)
def test_what_names_no_model_is_refused(tmp_path: Path, toml: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        settings(tmp_path, toml)


def test_the_default_model_may_be_a_name(tmp_path: Path) -> None:
    found = settings(
        tmp_path, 'model = "big"\n[models]\nbig = {model = "embedded/embedded", seed = 4}\n'
    )
    choice = choose(found)
    assert (choice.backend, choice.model, choice.options) == ("embedded", "embedded", {"seed": 4})


def test_a_program_may_name_models_and_take_that_back(tmp_path: Path) -> None:
    config.init(models={"small": "mine"})
    try:
        found = settings(tmp_path, '[models]\nsmall = "file"\nlarge = "file"')
        assert [str(found.models[name]) for name in ("small", "large")] == ["mine", "file"]
        assert found.origin("models.small") == "appl.init"
    finally:
        config.init(models=None)
    assert str(settings(tmp_path, '[models]\nsmall = "file"').models["small"]) == "file"


def test_the_two_lists_of_usual_names_agree() -> None:
    assert CONFIGURED == USUAL


# -- in a run


def test_a_call_asks_by_name_and_the_request_holds_the_model():
    def program():
        gen(messages="x")
        gen("b", messages="x")
        gen("cold", messages="x")
        gen("cold", messages="x", temperature=1)
        gen("small", messages="x")
        gen("fake/b", messages="x")

    names = table(cold=Model(None, "b", {"temperature": 0.0, "max_tokens": 5}))
    assert sorted(asked(program, names), key=str) == sorted(
        [("a", None, None), ("b", None, None), ("b", 0.0, 5), ("b", 1, 5), ("a", None, None),
         ("b", None, None)],
        key=str,
    )  # fmt: skip


def test_the_default_of_a_function_is_for_its_own_calls():
    @ppl(model="cold")
    def program():
        "x"
        gen()
        gen("a")
        other()

    @ppl
    def other():
        "y"
        gen()

    names = table(cold=Model(None, "b", {"temperature": 0.0}))
    assert sorted(asked(program, names), key=str) == [
        ("a", None, None), ("a", None, None), ("b", 0.0, None),
    ]  # fmt: skip


def test_a_choice_asks_by_name_too():
    def program():
        select(["ok", "no"], "cold", messages="x")

    names = table(cold=Model(None, "b", {"temperature": 0.0}))
    assert asked(program, names, features=["choices"])[0][:2] == ("b", 0.0)


def test_a_stop_string_and_a_backends_own_option_may_be_the_default():
    def program():
        gen("told", messages="x")

    backend = Fake(lambda _: "ok", models=("a",), default_model="a", options=["mode"])
    names = {"told": Model(None, "a", {"stop": "\n", "mode": "quick"})}
    with running(backend, models=Models(backend.profile, None, names)) as seen:
        program()
    (request,) = seen.requests
    assert request.sampling.stop == ("\n",)
    assert request.sampling.extra == (("mode", "quick"),)


def test_an_alias_does_not_change_what_is_asked():
    def by(name, models=None):
        backend = Fake(lambda _: "ok", models=("a", "b"), default_model="a")
        made = models and Models(backend.profile, None, models)
        with running(backend, models=made) as seen:
            gen(name, messages="x", temperature=0.5)
        return seen.requests[0].digest

    names = {"cool": Model(None, "b"), "cold": Model(None, "b", {"temperature": 0.5})}
    assert by("cool", names) == by("b") == by("cold", names)


def test_a_slip_in_a_name_is_answered_with_the_nearest():
    profile = Profile("fake", models=("alpha", "beta"), default_model="alpha")
    models = Models(profile, None, {"judge": Model(None, "beta"), "far": Model("other", "gpt")})
    with pytest.raises(ModelNotFound, match=r"no model 'jugde'; did you mean 'judge'\?"):
        models.resolve("jugde")
    with pytest.raises(ModelNotFound, match=r"'far' is other/gpt, and this run is answered by"):
        models.resolve("far")
    wrong = Models(profile, None, {"judge": Model(None, "betta")})
    with pytest.raises(ModelNotFound, match=r"'betta' \(for which 'judge' stands\).*'beta'"):
        wrong.resolve("judge")
    with pytest.raises(ConfigError, match=r"models.judge: unknown option 'temprature'.*'temperat"):
        Models(profile, None, {"judge": Model(None, "beta", {"temprature": 1})})
    with running(Fake(lambda _: "ok")), pytest.raises(InvalidOption, match="name of a model"):
        gen(3, messages="x")


def test_a_real_model_called_small_is_that_model():
    profile = Profile("fake", models=("small", "base"), default_model="base")
    assert Models(profile).resolve("small").name == "small"
    assert Models(profile).resolve("large").name == "base"


def test_names_go_through_the_header_of_a_trace():
    profile = Profile("fake", models=("a", "b"), default_model="a")
    models = Models(profile, None, {"x": Model(None, "b", {"stop": ("\n",)})}, "fake")
    again = models_from(models.as_data(), profile, "fake")
    assert again is not None
    assert again.resolve("x") == models.resolve("x")
    assert again.default == models.default
    assert models_from(None, profile, "fake") is None


# -- from the command line


PROGRAM = """\
from appl import gen, ppl

@ppl(model="warm")
def ask():
    "x"
    return [gen(), gen("cold"), gen("small")]
"""


def test_names_are_recorded_and_replayed_as_they_were(project: Project) -> None:
    project.write("ask.py", PROGRAM)
    file = project.write(
        "appl.toml",
        'backend = "appl.testing:Echo"\n[models]\nwarm = {temperature = 0.75}\n'
        'cold = {temperature = 0.25}\nsmall = "warm"\n',
    )
    assert project.appl("run", "ask.py:ask").code == 0
    for number, temperature in enumerate((0.75, 0.25, 0.75)):
        shown = project.appl("trace", "show", f"/ask.0/gen.{number}").out
        assert f"temperature={temperature}" in shown
    file.write_text('backend = "appl.testing:Echo"\n')
    assert project.appl("trace", "replay").code == 0


def test_config_shows_the_names_and_what_was_found_of_no_use(project: Project) -> None:
    project.write("appl.toml", '[models]\nlarge = "embedded/embedded"\n')
    shown = project.appl("config")
    assert "models.large" in shown.out and "a name for a model" in shown.out
    data = project.appl("config", "--json").data
    assert data["models.small"] == {"value": None, "origin": "default"}


def test_a_slip_on_the_command_line_is_answered_with_the_nearest_name(project: Project) -> None:
    project.write("appl.toml", '[models]\ncareful = "embedded/embedded"\n')
    done = project.appl("run", "prog.py:ask", "--model", "carefull")
    assert done.code == 2 and "did you mean 'careful'" in done.err
    assert project.appl("run", "prog.py:ask", "--model", "careful", "--no-trace").code == 0


def test_a_list_is_shown_asked_and_replayed(project: Project) -> None:
    file = project.write(
        "appl.toml",
        '[models]\nsmall = ["second/b", "embedded/embedded"]\n'
        '[backends.second]\ntype = "appl.testing:Echo"\n',
    )
    shown = project.appl("config").out
    assert "second/b, else embedded/embedded" in shown and "backend 'embedded'" in shown
    assert project.appl("run", "prog.py:ask", "--model", "small").code == 0
    shown = project.appl("trace", "show").out
    assert "answers  second/b | embedded/embedded," in shown
    assert "by       second/b\n" in project.appl("trace", "show", "/ask.0/gen.0").out
    file.write_text('model = "small"\n' + file.read_text())
    assert "answered by second/b or embedded/embedded, by order" in project.appl("config").out
    file.write_text("")
    assert project.appl("trace", "replay").code == 0


def test_the_server_of_a_backend_that_is_named_alone_is_asked_for_its_models(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with FaultServer() as server:
        (tmp_path / "appl.toml").write_text("", "utf-8")
        monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/v1")
        main(["models", "openai", "--json"])
    (row,) = json.loads(capsys.readouterr().out)
    assert row["name"] == f"openai/{server.model}"


def test_a_server_that_cannot_be_asked_is_named_and_the_known_models_are_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:1/v1")
    main(["models", "openai"])
    seen = capsys.readouterr()
    assert "could not be asked for its models" in seen.err and "openai/…" in seen.out
