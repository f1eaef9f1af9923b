"""Settings in APPL's layout: appl.yaml, appl.init with its keys, get_parser."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from appl import config, get_parser, update_appl_configs
from appl.config import Alias, find_file, followed, load
from appl.errors import ConfigError

from .conftest import Project

YAML = """\
settings:
  tracing: {enabled: false}
  concurrency: {llm_max_workers: 7}
  logging: {display: {llm_cost: true}}
default_servers:
  default: base
  small: base-cold
servers:
  base:
    model: gpt-4o
    temperature: 1.0
    cost_currency: CNY
  base-cold:
    template: base
    temperature: 0.0
    frequency_penalty: 0.5
prompts: {continue_generation: "x"}
"""


def yaml_in(folder: Path, text: str, name: str = "appl.yaml"):
    (folder / name).write_text(text)
    return load(directory=folder, environ={})


def test_servers_become_names_for_models(tmp_path: Path) -> None:
    found = yaml_in(tmp_path, YAML)
    assert (found.model, found.trace, found.concurrency) == ("base", False, 7)
    assert followed("base", found.models) == Alias("gpt-4o", {"temperature": 1.0})
    cold = {"temperature": 0.0, "frequency_penalty": 0.5}
    assert followed("small", found.models) == Alias("gpt-4o", cold)
    assert found.origin("models.base") == str(tmp_path / "appl.yaml")
    (note,) = found.notes
    for idle in ("settings.logging.display", "servers.base.cost_currency", "prompts"):
        assert idle in note


def test_a_server_without_a_model_is_called_as_it_is_named(tmp_path: Path) -> None:
    found = yaml_in(tmp_path, "servers: {gpt-4o: {temperature: 0.5}}", "appl.yml")
    assert followed("gpt-4o", found.models) == Alias("gpt-4o", {"temperature": 0.5})


def test_the_form_of_0_1_names_the_default_among_the_servers(tmp_path: Path) -> None:
    found = yaml_in(tmp_path, "servers: {default: mine, mine: {model: m}}")
    assert found.model == "mine" and found.notes == ()


@pytest.mark.parametrize(("mode", "shown"), [("print", True), ("live", True), ("none", False)])
def test_how_streams_are_shown_is_a_setting(tmp_path: Path, mode: str, shown: bool) -> None:
    text = f"settings: {{logging: {{display: {{streaming_mode: {mode}}}}}}}"
    found = yaml_in(tmp_path, text)
    assert found.stream is shown and found.notes == ()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "settings: {logging: {display: {streaming_mode: prnt}}}",
            "one of print, live, none, got 'prnt'; did you mean 'print'",
        ),
        ("settings: {tracng: {enabled: true}}", "unknown key 'tracng'; did you mean 'tracing'"),
        ("settings: {tracing: {enabld: true}}", "did you mean 'enabled'"),
        ("default_servers: {smal: x}", "did you mean 'small'"),
        ("servers: {a: {template: b}}", "its template 'b' is no server"),
        ("servers: {a: {template: b}, b: {template: a}}", "leads back to it"),
        ("servers: 3", "servers must hold names"),
        ("- 1", "must be a table"),
        ("a: [", "is not valid YAML"),
        ("modle: x", "unknown key 'modle'; did you mean 'model'"),
    ],
)
def test_what_appl_did_not_know_either_is_an_error(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        yaml_in(tmp_path, text)


def test_todays_keys_may_stand_in_yaml_and_toml_wins_in_a_folder(tmp_path: Path) -> None:
    assert yaml_in(tmp_path, "model: m\nbackend: b\nmodels: {small: s}").models == {
        "small": Alias("s")
    }
    (tmp_path / "appl.toml").write_text('model = "toml"')
    found = find_file(tmp_path)
    assert found is not None and found[0].name == "appl.toml"


def test_an_empty_file_says_nothing(tmp_path: Path) -> None:
    assert yaml_in(tmp_path, "# nothing yet\n").notes == ()


def test_init_takes_the_keys_of_appl(tmp_path: Path) -> None:
    config.init(default_servers={"default": "gpt-4o", "small": "gpt-4o-mini"})
    try:
        found = load(directory=tmp_path, environ={})
        assert (found.model, str(found.models["small"])) == ("gpt-4o", "gpt-4o-mini")
        assert found.origin("model") == "appl.init"
    finally:
        config.init(default_servers=None)
    assert load(directory=tmp_path, environ={}).model is None


def test_a_parser_takes_settings_beside_the_programs_own_options(tmp_path: Path) -> None:
    parser = get_parser(prog="x")
    parser.add_argument("--name", default="APPL")
    args = parser.parse_args(
        ["--name", "Bo", "--appl.default_servers.default", "m", "--appl.temperature", "0.5"]
    )
    assert args.name == "Bo" and args.appl.default_servers.default == "m"
    update_appl_configs(args.appl)
    try:
        found = load(directory=tmp_path, environ={})
        assert (found.model, found.temperature) == ("m", 0.5)
    finally:
        config.init(default_servers=None, temperature=None)


def test_what_has_no_meaning_is_told_once(project: Project) -> None:
    project.write("appl.yaml", "settings: {logging: {log_level: INFO}}\nbackend: appl.testing:Echo")
    project.write("twice.py", "import appl\nfrom prog import ask\n"
                  "for _ in range(2):\n    with appl.record():\n        print(ask())\n")  # fmt: skip
    done = project.python("twice.py")
    assert done.code == 0, done.err
    assert done.err.count("settings.logging.log_level") == 1
    assert "coming-from-appl.md" in done.err


def test_without_pyyaml_the_file_says_what_to_install(project: Project) -> None:
    project.write("appl.yaml", "model: m")
    project.write(
        "block.py", "import sys\nsys.modules['yaml'] = None\nfrom appl.config import load\nload()"
    )
    done = project.python("block.py")
    assert "pip install 'appl[yaml]'" in done.err
    assert "yaml" in sys.modules
