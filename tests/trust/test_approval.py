"""What approves the settings of a folder, and what takes the approval back."""

from __future__ import annotations

import contextlib
import io
import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from appl import gen, record
from appl.cli import main
from appl.config import find_file, load
from appl.config.state import state_folder
from appl.errors import ApplError, ConfigError
from tests.wire.servers import FaultServer

ROOT = Path(__file__).parents[2]
HOSTILE = 'seed = 7\nbackend = "evil:f"\n'
BOMB = "a0: &a0 {x: y}\n" + "".join(
    f"a{n}: &a{n} {{{', '.join(f'{k}: *a{n - 1}' for k in 'abcdefgh')}}}\n" for n in range(1, 9)
)
"""A table of eight tables of eight tables: a few hundred bytes, and 16 million values."""
NEEDS = "holds settings that need your approval"


def appl(*words: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of the command line."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(list(words))
    return code, out.getvalue(), err.getvalue()


def write(folder: Path, text: str = HOSTILE, name: str = "appl.toml") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text, "utf-8")
    return folder / name


def refused(folder: Path) -> str:
    with pytest.raises(ConfigError, match=NEEDS) as caught:
        load(directory=folder, environ={})
    return str(caught.value)


def trusted(folder: Path) -> bool:
    return load(directory=folder, environ={}).seed == 7


def test_the_refusal_names_the_line_and_what_to_type(stranger: Path) -> None:
    file = write(stranger)
    assert f"{file}:2: backend = 'evil:f'" in refused(stranger)
    code, _, err = appl("config")
    assert code == 2 and f"`appl trust {stranger}`" in err and "APPL_TRUST" in err


def test_names_and_numbers_need_no_approval(stranger: Path) -> None:
    write(
        stranger,
        'seed = 7\nmodel = "openai/ft:gpt-4o-mini:org::id"\nkeep_failed = "off"\ngc = false\n'
        '[models]\nsmall = ["anthropic/claude-3@2024", "llama3:8b"]\n'
        'other = {model = "small", stop = ["\\n\\n"], temperature = 0}\n'
        '[prices."gpt*"]\nprompt = 1\nanswer = 2\n[limits]\nrequests = 3\n'
        '[backends.openai]\napi_key = {env = "OPENAI_API_KEY"}\nwithout = ["seed"]\n'
        "[backends.openai.retries]\nattempts = 2\n"
        '[backends.embedded]\nweights = "models/own"\n',
    )
    assert trusted(stranger)


def test_approved_is_what_was_shown_and_a_change_is_asked_again(stranger: Path) -> None:
    file = write(stranger)
    code, out, err = appl("trust", "--yes")
    assert code == 0 and f"{file}:2: backend = 'evil:f'" in out and "approved" in err
    assert trusted(stranger)
    write(stranger, HOSTILE + "# one word more\n")
    refused(stranger)
    write(stranger)
    assert trusted(stranger)


def test_what_was_read_is_approved_and_not_what_the_file_has_become(stranger: Path) -> None:
    file = write(stranger)
    (stranger / "other.toml").write_text(HOSTILE.replace("evil", "worse"))
    main_end, user_end = pty.openpty()
    running = subprocess.Popen(
        [sys.executable, "-m", "appl", "trust"], stdin=user_end, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "backends")])},
    )  # fmt: skip
    assert running.stderr is not None
    assert "approve this? [y/N]" in running.stderr.readline()
    (stranger / "other.toml").replace(file)
    os.write(main_end, b"y\n")
    assert running.wait(60) == 0
    running.stderr.close()
    os.close(main_end), os.close(user_end)
    assert "worse:f" in refused(stranger)
    write(stranger)
    assert trusted(stranger)


def test_without_a_terminal_nothing_is_approved_unsaid(stranger: Path) -> None:
    write(stranger)
    code, out, err = appl("trust")
    assert code == 2 and "backend = 'evil:f'" in out and "give --yes" in err
    refused(stranger)


def test_json_shows_the_needs_and_approves_only_with_yes(stranger: Path) -> None:
    file = write(stranger)
    shown = json.loads(appl("trust", "--json")[1])
    assert shown["trusted"] is None and shown["file"] == str(file)
    assert [each["key"] for each in shown["needs_approval"]] == ["backend"]
    refused(stranger)
    assert json.loads(appl("trust", "--json", "--yes")[1])["trusted"] == "approval"
    assert trusted(stranger)


def test_an_approval_is_listed_and_taken_back(stranger: Path) -> None:
    file = write(stranger)
    appl("trust", "--yes")
    assert appl("trust", "--list")[1].split()[1:] == [str(file)]
    assert json.loads(appl("trust", "--list", "--json")[1])[0]["file"] == str(file)
    assert json.loads(appl("trust", "--remove", "--json")[1]) == {"removed": [str(file)]}
    refused(stranger)
    assert appl("trust", "--list")[1] == ""


def test_a_copy_in_another_folder_needs_approval(stranger: Path) -> None:
    write(stranger)
    appl("trust", "--yes")
    write(stranger / "copy")
    refused(stranger / "copy")


@pytest.mark.parametrize("inner", [".", "a", "a/b"])
def test_the_folders_of_the_variable_are_trusted_and_no_others(
    stranger: Path, monkeypatch: pytest.MonkeyPatch, inner: str
) -> None:
    for folder in ("own", "owner"):
        write(stranger / folder / inner)
    named = [str(stranger / "nowhere"), str(stranger / "own")]
    monkeypatch.setenv("APPL_TRUST", os.pathsep.join(named))
    assert trusted(stranger / "own" / inner)
    refused(stranger / "owner" / inner)


def test_a_link_out_of_a_trusted_folder_is_not_trusted(
    stranger: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(stranger / "theirs")
    (stranger / "own").mkdir()
    (stranger / "own" / "link").symlink_to(stranger / "theirs")
    monkeypatch.setenv("APPL_TRUST", str(stranger / "own"))
    refused(stranger / "own" / "link")


def test_a_relative_folder_in_the_variable_is_an_error(
    stranger: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(stranger)
    monkeypatch.setenv("APPL_TRUST", ".")
    with pytest.raises(ConfigError, match="APPL_TRUST lists folders by their whole paths"):
        load(directory=stranger, environ={})


def test_the_file_of_the_home_folder_is_trusted_and_one_below_is_not(
    stranger: Path, tmp_path: Path
) -> None:
    write(tmp_path / "home")
    assert trusted(tmp_path / "home") and trusted((tmp_path / "home" / "sub").parent)
    write(tmp_path / "home" / "sub")
    refused(tmp_path / "home" / "sub")


def test_the_file_of_a_folder_above_is_refused_from_below(stranger: Path) -> None:
    (stranger / ".git").mkdir()
    file = write(stranger)
    (stranger / "a" / "b").mkdir(parents=True)
    assert f"{file}:2" in refused(stranger / "a" / "b")
    appl("trust", "a/b", "--yes")
    assert trusted(stranger / "a" / "b") and trusted(stranger)
    appl("trust", "a/b", "--remove")
    refused(stranger)


def test_a_settings_file_that_is_a_link_is_approved_with_what_it_holds(
    stranger: Path, tmp_path: Path
) -> None:
    write(tmp_path / "elsewhere")
    (stranger / "appl.toml").symlink_to(tmp_path / "elsewhere" / "appl.toml")
    refused(stranger)
    appl("trust", "--yes")
    assert trusted(stranger)
    write(tmp_path / "elsewhere", HOSTILE.replace("evil", "worse"))
    refused(stranger)


def test_of_a_pyproject_only_the_table_counts(stranger: Path) -> None:
    text = '[project]\nname = "x"\n[tool.appl]\nseed = 7\nbackend = "evil:f"\n'
    file = write(stranger, text, "pyproject.toml")
    assert f"{file}:5: backend" in refused(stranger)
    appl("trust", "--yes")
    write(stranger, text.replace('"x"', '"y"'), "pyproject.toml")
    assert trusted(stranger)
    write(stranger, text.replace("evil", "worse"), "pyproject.toml")
    refused(stranger)


@pytest.mark.parametrize("name", ["appl.yaml", "appl.yml", "appl.json"])
def test_the_other_formats_are_refused_with_their_lines(stranger: Path, name: str) -> None:
    text = '{\n "seed": 7,\n "backend": "evil:f"\n}\n'
    assert f"{write(stranger, text, name)}:3: backend" in refused(stranger)
    appl("trust", "--yes")
    assert trusted(stranger)


def test_servers_in_the_former_layout_are_refused_with_their_lines(stranger: Path) -> None:
    text = "seed: 7\nservers:\n  own/it:\n    model: m\n    base_url: http://evil.example/v1\n"
    file = write(stranger, text, "appl.yaml")
    assert f"{file}:5: backends.own-it.base_url" in load(directory=stranger).unapproved["own-it"]


def test_a_server_without_approval_stops_only_who_asks_it(
    stranger: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("THEIR_KEY", "sk-the-key-of-theirs")
    with FaultServer() as server:
        text = f"servers:\n  own:\n    model: m\n    base_url: {server.openai_url}\n"
        write(stranger, f"{text}    api_key: os.environ/THEIR_KEY\n", "appl.yaml")
        settings = {"trace": False, "backend": "appl.testing:Echo"}
        with record(**settings):
            assert str(gen(messages="x"))
            with pytest.raises(ApplError, match="appl trust"):
                gen("own", messages="x").result()
        assert server.asks == []
        appl("trust", "--yes")
        with record(**settings):
            assert str(gen("own", messages="x"))
        assert [ask.headers["authorization"] for ask in server.asks] == [
            "Bearer sk-the-key-of-theirs"
        ]
        appl("trust", "--remove")
        with record(**settings), pytest.raises(ApplError, match="appl trust"):
            gen("own", messages="x").result()
    assert len(server.asks) == 1


def test_a_server_that_is_the_default_needs_approval_at_once(stranger: Path) -> None:
    server = "servers: {own: {model: m, base_url: 'http://evil.example/v1'}}"
    write(stranger, f"{server}\ndefault_servers: {{default: own}}", "appl.yaml")
    with pytest.raises(ConfigError, match="appl trust"), record(trace=False):
        gen(messages="x")


def test_a_table_of_todays_layout_beside_servers_needs_approval_at_once(stranger: Path) -> None:
    table = "backends: {own: {type: openai, base_url: 'http://evil.example/v1'}}"
    write(stranger, f"servers: {{a: {{model: m}}}}\n{table}", "appl.yaml")
    assert "backends.own.base_url" in refused(stranger)


def test_secrets_are_masked_and_no_character_acts_on_the_terminal(stranger: Path) -> None:
    write(
        stranger,
        '[backends."a\\u001b[2J"]\ntype = "openai"\nbase_url = "https://user:hunter22@evil/\\u202e"\n'
        '[backends.openai.headers]\nX = "plain-password"\n',
    )
    out, said = appl("trust", "--json")[1], refused(stranger)
    for text in (out, said, appl("trust", "--yes")[1]):
        assert "hunter22" not in text and "plain-password" not in text
        assert "evil" in text and "\x1b" not in text and "\u202e" not in text


def test_letters_that_look_alike_are_told_apart(stranger: Path) -> None:
    write(stranger, '[backends.openai]\nbase_url = "https://api.\\u043epenai.com"\n')
    assert "https://api.\\u043epenai.com" in refused(stranger)


def test_arguments_the_environment_and_the_program_need_no_approval(stranger: Path) -> None:
    redact = "appl.testing:Echo"
    assert load({"backend": "a:b", "redact": redact}, environ={"APPL_OTEL": "http://x"}).otel


def test_approval_is_kept_outside_of_the_folder(stranger: Path) -> None:
    file = write(stranger)
    appl("trust", "--yes")
    assert list(stranger.iterdir()) == [file]
    assert not state_folder().is_relative_to(stranger)
    found = find_file(stranger)
    assert found is not None and found.digest in appl("trust", "--list", "--json")[1]


@pytest.mark.parametrize("key", ["NO_KEY", "OPENAI_API_KEY"])
def test_what_appl_init_writes_needs_no_approval(
    stranger: Path, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    monkeypatch.setenv(key, "sk-not-a-key")
    assert appl("init", "new")[0] == 0
    assert json.loads(appl("trust", "new", "--json")[1])["needs_approval"] == []


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda file: os.mkfifo(file), "no ordinary file"),
        (lambda file: file.symlink_to("/dev/zero"), "no ordinary file"),
        (lambda file: file.write_bytes(b"#" * (1 << 20) + b"\n"), "larger than"),
        (lambda file: file.write_text("a = " + "[" * 100_000), "nested too deeply"),
        (lambda file: file.with_suffix(".yaml").write_text(BOMB), "more than 100000 values"),
        (lambda file: file.with_suffix(".yaml").write_text("a: &a [*a]"), "more than 100000"),
    ],
)
def test_a_file_that_cannot_be_settings_ends_the_search(
    stranger: Path, make: object, said: str
) -> None:
    make(stranger / "appl.toml")  # type: ignore[operator]
    with pytest.raises(ConfigError, match=said):
        load(directory=stranger, environ={})
