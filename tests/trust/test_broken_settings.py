"""Settings files that nobody meant: whatever they hold, a command reads them or says what is wrong.

The files are drawn from a seed: real keys with wrong values, cut and damaged texts, and a list of
what once ended a command with an error that was not meant for users.
"""

from __future__ import annotations

import contextlib
import datetime
import io
import json
import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from test_hostile_settings import nested, paths

import appl
from appl import gen, ppl
from appl.cli import main
from appl.config import load
from appl.errors import ApplError, ConfigError
from tests.drawn import counts

LONG = "9" * 5000
DEEP_LIST: Any = 1
DEEP_TABLE: Any = 1
for _ in range(150):
    DEEP_LIST, DEEP_TABLE = [DEEP_LIST], {"a": DEEP_TABLE}
DAY = datetime.date(2001, 1, 1)
VALUES: list[Any] = [
    10**400, -(10**400), 2**64, -1, 0, 1.5, float("nan"), float("inf"), -0.0, True, None,
    "", " ", "\0", "\ud800", "é" * 10, "x" * 70_000, "http://[", "on", "p95", "/", "1e999", "1_0",
    '"', "\x1b[31m", "embedded/embedded", "99999999999w", "2001-13-45", [], {}, [[]], [{}],
    [1, "a", None], ["a", "b"], [["a"]], {"env": 1}, {"env": "NOPE"}, {"": 1}, {"model": []},
    {"type": []}, {"prompt": "x", "answer": {}}, {"a": {"b": []}}, {"x": [[["y"]]]},
    DAY, datetime.datetime(2001, 1, 1, 1, 1, 1), datetime.time(1, 1), DEEP_LIST, DEEP_TABLE,
]  # fmt: skip
COMMANDS = (["config"], ["run", "prog.py:main"], ["trace", "ls"], ["models"], ["trust", "--json"])


class Written(NamedTuple):
    """A settings file, and the words that a message about it may name."""

    name: str
    data: bytes
    words: frozenset[str] = frozenset()


# -- files from a list

_PYPROJECT = [
    "tool = 1", "[[tool]]\na = 1", "[[tool]]\n[tool.appl]\nmodel = 'x'", "tool = 'appl'",
    f"[tool.other]\nseed = {LONG}", f"[tool.other]\nx = {LONG}\n[tool.appl]\nmodel = 'x'",
    "[tool]\nappl = 1", "[tool]\nappl = []", "[[tool.appl]]\nmodel = 'x'", "[tool.appl",
    "[tool.appl]\nmodel =", "[tool.other]\nx =", f"[tool.appl]\n{'a.' * 5000}b = 1",
    f"[tool.appl]\nx = {'[' * 5000}", "[tool.appl]\nx = 1979-13-45", "[tool]\n'appl'.model = 3",
    f"[tool.appl]\nseed = 0x{'f' * 5000}", '[tool."appl"]\nmodel =', "\0", "\ufeff[tool.appl]\nmodel = 1",
]  # fmt: skip
_TOML = [
    f"seed = {LONG}", f"seed = 0x{'f' * 5000}", "seed = 1e999", "model = 2001-13-45",
    "model = 2001-01-01", "[[models]]\na = 1", "[models]\n[models.small]\n[[models.small.x]]\n",
    "[limits]\nconcurrency = 1979-05-27T07:32:00Z", "\0", "model = '\0'", "a." * 5000 + "b = 1",
    "x = " + "{a=" * 5000, "model = 'x'\nmodel = 'y'", "\ufeffmodel = 'embedded'", "'' = 1",
    "temperature = " + "1" * 400, "model", " = ", "[", "[a]\n[a]", "a." * 500_000 + "b = 1",
]  # fmt: skip
_YAML = [
    "model: 2001-13-45", "1: 2", "null: 1", "? [a]\n: b", "? {a: 1}\n: b", "2001-01-01: x",
    f"seed: {LONG}", f"seed: 0x{'f' * 5000}", "!!python/object/apply:os.system ['x']",
    "!!binary '!!!'", "model: !!binary YQ==", "x: !!set {a, b}", "x: !!omap [a: 1]", "x: !!omap 1",
    "x: !!int ''", "x: !!float ''", "x: !!bool foo", "x: !!timestamp foo", "x: !!int '1:99:99'",
    "x: !!null 3", "<<: 1", "<<: [1]", "a: &a [*a]", "a: &a {b: *a}", "&a ? *a : 1", "- 1",
    "just text", "3", "'[", "\t", "--- 1\n--- 2", "x: *nope", "%YAML 9.9\n---\na: 1", "[" * 500,
    "{a: " * 500, "\ud800", 'x: "\\ud800"', "true: 1", "model: 12:30:45", "x: 1e5000",
    "limits: {concurrency: .inf}", "x: 2001-01-01T00:00:00+99:99", "x: 0o9", "~: ~",
    "x: 9999-99-99 99:99:99", f"x: 0x{'f' * 5000}", f"? {LONG}\n: 1", f"? 0x{'f' * 5000}\n: 1",
]  # fmt: skip
_JSON = [
    f'{{"seed": {LONG}}}', '{"seed": 1e999}', '{"seed": NaN}', "[]", "3", '"x"', "null", "", '{"": 1}',
    '{"a": 1, "a": 2}', "\ufeff{}", '{"model": "\\ud800"}', '{"\\ud800": 1}', "[" * 5000,
    '{"a":' * 5000, '{"home": "\\u0000"}', '{"home": "~nobody/x"}', f'{{"home": "{"x" * 5000}"}}',
    '{\t"backend":\t"evil:f"\n}', '{"seed": 1}x', f'{{"temperature": {"1" * 400}}}',
]  # fmt: skip
_LISTED = {
    "pyproject.toml": _PYPROJECT,
    "appl.toml": _TOML,
    "appl.yaml": _YAML,
    "appl.json": _JSON,
}


def listed() -> Iterator[Written]:
    for name, texts in _LISTED.items():
        for text in texts:
            yield Written(
                name, text.encode("utf-8", "surrogatepass"), frozenset({"evil", "has no"})
            )
    yield Written("appl.toml", "model = 'é'".encode("latin-1"))
    yield Written("appl.yaml", "model: é".encode("utf-16"))


# -- files from a seed


def drawn(seed: int, count: int) -> Iterator[Written]:
    dice, every = random.Random(seed), paths()
    for _ in range(count):
        table: dict[str, Any] = {}
        for _ in range(dice.choice([1, 1, 1, 2, 4])):
            _lay(table, nested(_path(dice, every), dice.choice(VALUES)))
        name = dice.choice(sorted(_LISTED))
        yield Written(name, _damaged(dice, _text(name, table).encode()), frozenset(_words(table)))


def _path(dice: random.Random, every: list[tuple[str, ...]]) -> tuple[str, ...]:
    path, how = list(dice.choice(every)), dice.random()
    if how < 0.3:
        path = path[: dice.randrange(1, len(path) + 1)]
    elif how < 0.4:
        path.append(dice.choice(["x", "", "env", "a.b"]))
    elif how < 0.45:
        path[dice.randrange(len(path))] = dice.choice(["", "x", "ünï", "__class__"])
    return tuple(path)


def _lay(table: dict[str, Any], more: Mapping[str, Any]) -> None:
    for key, value in more.items():
        if isinstance(value, dict) and isinstance(table.get(key), dict):
            _lay(table[key], value)
        else:
            table[key] = value


def _text(name: str, table: Mapping[str, Any]) -> str:
    if not name.endswith(".toml"):
        return json.dumps(table, default=str)
    head = ["[tool.appl]"] if name == "pyproject.toml" else []
    return "\n".join(head + [f"{_quoted(key)} = {_toml(value)}" for key, value in table.items()])


def _toml(value: Any) -> str:
    if value is None or isinstance(value, str):
        return _quoted(value or "")
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_quoted(k)} = {_toml(v)}' for k, v in value.items())}}}"
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    return str(value).lower()


def _quoted(text: str) -> str:
    return json.dumps(text).replace("\\ud800", "A")  # which TOML has not


def _damaged(dice: random.Random, data: bytes) -> bytes:
    how = dice.random()
    if how < 0.1:
        return data[: dice.randrange(len(data) + 1)]
    if how < 0.15:
        return b"\xef\xbb\xbf" + data
    if how < 0.2:
        at = dice.randrange(len(data))
        return data[:at] + bytes([dice.randrange(256)]) + data[at + 1 :]
    return data


def _words(value: object) -> Iterator[str]:
    """The keys and texts in *value*, those that a message could name."""
    if isinstance(value, dict):
        yield from value
        value = [*value.values()]
    for part in value if isinstance(value, list) else ():
        yield from _words(part) if isinstance(part, dict | list) else [str(part)]


# -- what is done with them


@pytest.fixture
def program(stranger: Path) -> Path:
    (stranger / "prog.py").write_text(
        "from appl import gen, ppl\n@ppl\ndef main():\n    'Hi'\n    return gen(max_tokens=4)\n"
        "if __name__ == '__main__': print(main())\n"
    )
    return stranger


@ppl
def _asked() -> Any:
    "Hi"
    return gen(max_tokens=4)


def _said_by(words: list[str]) -> tuple[int, str]:
    """The exit code of a command, and what it says on stderr."""
    err = io.StringIO()
    sys.modules.pop("prog", None)
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(err):
        code = main(list(words))
    return code, err.getvalue()


def _judged(folder: Path, written: Written, words: list[str]) -> str:
    """What became of a command; anything but reading the file or naming it fails the test."""
    code, said = _said_by(words)
    assert "Traceback" not in said and code in (0, 2), (written, words, code, said)
    if code == 0 or "there are no settings" in said:
        return "read, or of another tool"
    lines = {word for word in written.words if len(word) > 1 and word in said}
    assert written.name in said or lines, (written, words, said)
    return "refused"


def _tried(folder: Path, files: Iterator[Written]) -> Counter[str]:
    """What became of commands on each of *files*, and of a program that is run by hand."""
    sums = Counter[str]()
    for number, written in enumerate(files):
        (folder / written.name).write_bytes(written.data)
        for words in (COMMANDS[number % 5], COMMANDS[(number + 2) % 5]):
            sums[_judged(folder, written, words)] += 1
        sums[_run(folder)] += 1
        (folder / written.name).unlink()
    return sums


def _run(folder: Path) -> str:
    try:
        with appl.record("x.trace"):
            str(_asked())
    except ApplError:
        return "refused"
    finally:
        Path("x.trace").unlink(missing_ok=True)
    return "read, or of another tool"


def test_a_file_from_the_list_is_read_or_named(program: Path) -> None:
    sums = _tried(program, listed())
    assert sums["refused"] > 200 and sums["read, or of another tool"] > 20


@counts(1, 40, "share")
@pytest.mark.parametrize("trusted", [False, True])
def test_a_drawn_file_is_read_or_named(
    program: Path, monkeypatch: pytest.MonkeyPatch, share: int, trusted: bool
) -> None:
    monkeypatch.setenv("APPL_TRUST", str(program) if trusted else "")
    sums = _tried(program, drawn(7 + trusted, 25 * share))
    assert sums["refused"] > 40 and sums["read, or of another tool"] > 5


@pytest.mark.parametrize("name", ["appl.toml", "appl.yaml", "appl.json"])
@pytest.mark.parametrize("made", [os.mkfifo, os.mkdir, "itself", "/dev/zero"])
def test_what_is_no_file_is_named(program: Path, name: str, made: Any) -> None:
    if isinstance(made, str):
        (program / name).symlink_to(name if made == "itself" else made)
    else:
        made(program / name)
    for words in COMMANDS:
        code, said = _said_by(words)
        assert code == 2 and name in said and "Traceback" not in said


# -- the line, and what belongs to others


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("appl.toml", f"model = 'x'\nseed = {LONG}", "appl.toml:2 is not valid TOML"),
        ("appl.json", f'{{"model": "x",\n\n"seed": {LONG}}}', "appl.json:3 is not valid JSON"),
        ("appl.json", '{"model": "x"\n"seed": 1}', "line 2"),
        ("appl.yaml", "seed: 1\nmodel: 2001-13-45", "line 2"),
        ("appl.yaml", f"seed: 1\nkeep_runs: {LONG}", "line 2"),
        ("appl.yaml", "limits: {1: 2}", "appl.yaml: limits: the key 1 is no text"),
        ("appl.toml", "[models]\nsmall = {model = 2001-01-01}", "appl.toml: models.small.model: a date"),
        ("appl.toml", f"limits = {{concurrency = 0x{'f' * 5000}}}", "limits.concurrency: this number"),
        ("appl.toml", "temperature = " + "9" * 309, "appl.toml: temperature"),
        ("pyproject.toml", f"[tool.x]\na = {LONG}\n[tool.appl]\nseed = 1", "pyproject.toml:2 is not"),
    ],
)  # fmt: skip
def test_a_message_names_the_line_or_the_key(
    stranger: Path, name: str, text: str, said: str
) -> None:
    (stranger / name).write_text(text)
    with pytest.raises(ConfigError) as caught:
        load(environ={})
    assert said in str(caught.value)


@pytest.mark.parametrize(
    "text",
    ["tool = 1", "[[tool]]\nname = 'x'", f"[tool.other]\nseed = {LONG}", "[tool.ruff", "\0", "tool.x ="],
)  # fmt: skip
def test_a_neighbours_broken_file_does_not_matter(program: Path, text: str) -> None:
    (program / "pyproject.toml").write_text(text)
    assert load(environ={}).seed is None
    assert _said_by(["config"])[0] == 0 and _run(program) == "read, or of another tool"


def test_a_script_below_a_neighbours_broken_file_runs(program: Path) -> None:
    (program / "pyproject.toml").write_text("tool = 1")
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "prog.py"], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_byte_order_mark_is_no_mistake(stranger: Path) -> None:
    for name, text in (
        ("appl.toml", "seed = 3"),
        ("appl.json", '{"seed": 3}'),
        ("appl.yaml", "seed: 3"),
    ):
        (stranger / name).write_text(text, "utf-8-sig")
        assert load(environ={}).seed == 3
        (stranger / name).unlink()
