"""A stranger's settings: each key of the configuration, with each value that could do harm.

The keys come from the code, so that a new one is in these tests by itself. Four canaries sing when a
setting has an effect: a module that is imported, an address that is asked, files of another project,
and a variable of the environment.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import io
import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import appl
from appl.backend import installed
from appl.cli import SECTIONS, main
from appl.cli.trace import SECTIONS as TRACE_SECTIONS
from appl.config import KEYS, load
from appl.config.classes import BACKENDS, OPTIONS, SETTINGS, TABLES, needs
from appl.config.schedule import GONE, TABLES as KEYS_OF_TABLES
from appl.errors import ApplError, ConfigError
from appl.runtime import SAMPLING
from appl.session import check
from tests.drawn import counts

ROOT = Path(__file__).parents[2]
CANARY = "canary-7c1e5b"
NEEDS = "holds settings that need your approval"
EVIL = """\
import pathlib
pathlib.Path(__file__).with_name("SUNG").write_text("imported")
def f(*args, **named):
    raise SystemExit("called")
class Backend:
    def __init__(self, **named): f()
    profile = complete = aclose = f
"""
PROGRAM = """\
from appl import gen, ppl

@ppl
def main(question: str = "What?"):
    f"{question}"
    return gen(max_tokens=4)

if __name__ == "__main__":
    print(main())
"""
OURS = tuple(
    name for name, point in installed().items() if point.value.startswith("appl_backends.")
)
_MODULES = (
    "anthropic.body:OPTIONS",
    "openai.body:OPTIONS",
    "openai.responses.body:OPTIONS",
    "litellm:_OPTIONS",
    "sglang.request_bodies:OPTIONS",
)


def signature(backend: str) -> set[str]:
    """The settings that the installed *backend* takes."""
    return set(inspect.signature(installed()[backend].load()).parameters)


def options() -> set[str]:
    """What a name of ``[models]`` may set, by the backends of this package."""
    found = {"model", "prefer", "within", *SAMPLING}
    for each in _MODULES:
        module, _, name = each.partition(":")
        found |= getattr(importlib.import_module(f"appl_backends.{module}"), name)
    return found


def paths() -> list[tuple[str, ...]]:
    """Every key that a settings file may hold, as a path of tables."""
    tables = [(table, key) for table, keys in KEYS_OF_TABLES.items() for key in keys]
    of_backends = [("backends", each, key) for each in OURS for key in sorted(signature(each))]
    return [
        *((key,) for key in KEYS),
        *tables,
        *(("backends", "openai", table, key) for table, key in tables if table != "budget"),
        *of_backends,
        *(("backends", "other", key) for key in ("type", "base_url", "new")),
        *(("models", "small", option) for option in sorted(options())),
        ("models", "small"), ("models", "evil:f", "model"), ("prices", "m"),
        ("prices", "m", "prompt"), ("backends", "evil:f", "x"), ("backends", "evil:Backend", "x"),
    ]  # fmt: skip


def nested(path: tuple[str, ...], value: object) -> dict[str, Any]:
    for key in reversed(path):
        value = {key: value}
    assert isinstance(value, dict)
    return value


@dataclass
class Stranger:
    """The stranger's folder, and what its settings would like to reach."""

    folder: Path
    other: Path
    listener: socket.socket

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.listener.getsockname()[1]}/v1"

    def says(self, settings: dict[str, Any]) -> None:
        (self.folder / "appl.json").write_text(json.dumps(settings))

    def values(self) -> list[object]:
        """What a setting is tried with."""
        plain: list[object] = [
            "evil:f", "evil:Backend", self.url, self.url.removeprefix("http:"),
            f"huggingface/{self.url}", {"env": "CANARY"}, "os.environ/CANARY", str(self.other),
            os.path.relpath(self.other, self.folder), "link", "link/..", str(self.folder / "link"),
            True, False, 1, "0s",
        ]  # fmt: skip
        return [*plain, plain[:8], {"x": {"env": "CANARY"}}, {"model": self.url, "x": "evil:f"}]

    def effects(self) -> list[str]:
        """The canaries that sang."""
        found = ["code"] if (self.folder / "SUNG").exists() or "evil" in sys.modules else []
        if sorted(path.name for path in self.other.rglob("*")) != ["a.trace", "b.trace", "runs"]:
            found.append("files")
        with contextlib.suppress(BlockingIOError):
            self.listener.accept()[0].close()
            found.append("network")
        return found


@pytest.fixture
def theirs(stranger: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stranger]:
    """A folder with a module and a program in it, beside another project with two runs."""
    monkeypatch.setenv("CANARY", CANARY)
    for name in ("OPENAI_API_KEY", "SGLANG_API_KEY", "SGLANG_ADMIN_KEY", "AZURE_OPENAI_AD_TOKEN"):
        monkeypatch.setenv(name, f"{CANARY}-{name}")
    monkeypatch.syspath_prepend(str(stranger))
    (stranger / "evil.py").write_text(EVIL)
    (stranger / "prog.py").write_text(PROGRAM)
    runs = tmp_path / "other" / "runs"
    runs.mkdir(parents=True)
    for name in ("a.trace", "b.trace"):
        (runs / name).write_text("a run")
    (stranger / "link").symlink_to(tmp_path / "other")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        yield Stranger(stranger, tmp_path / "other", listener)
    sys.modules.pop("evil", None)
    sys.modules.pop("prog", None)


def test_every_setting_has_a_class() -> None:
    assert set(SETTINGS) == set(KEYS)
    assert {table: set(keys) for table, keys in TABLES.items()} == {
        table: {*keys, *(GONE if table == "schedule" else ())}
        for table, keys in KEYS_OF_TABLES.items()
    }
    for backend in OURS:
        classes = set(BACKENDS.get(backend, {}))
        assert classes == signature(backend), f"{backend!r} in BACKENDS of appl/config/classes.py"
    assert set(BACKENDS) == set(OURS)
    assert not options() - set(OPTIONS), "OPTIONS of appl/config/classes.py"


@pytest.mark.parametrize(
    "path", [("new",), ("limits", "new"), ("models", "small", "new"), ("backends", "openai", "new"),
             ("backends", "theirs", "new"), ("backends", "openai", "limits", "new")],
    ids=".".join,
)  # fmt: skip
def test_a_setting_without_a_class_needs_approval(stranger: Path, path: tuple[str, ...]) -> None:
    for value in (1, "word", True):
        assert [need.keys for need in needs(nested(path, value), stranger)] == [path]


@counts(3, 1, "share")
def test_no_value_of_any_key_has_an_effect_without_approval(theirs: Stranger, share: int) -> None:
    """Each key with every third value, other ones than the key before it; or with all of them."""
    tried = refused = 0
    for number, path in enumerate(paths()):
        for value in theirs.values()[number % share :: share]:
            made = value in ("evil:f", str(theirs.other)) and path[1:2] in [
                (each,) for each in OURS
            ]
            theirs.says(nested(path, value) | ({"backend": path[1]} if made else {}))
            tried += 1
            try:
                _used(theirs, made)
            except ApplError:
                refused += 1
            assert not theirs.effects(), (path, value)
    assert tried > 2000 / share and refused > tried / 2


def _used(theirs: Stranger, made: bool) -> None:
    """The settings are read; with *made*, so are the backends that they name."""
    config = load(environ={})
    assert config.home == theirs.folder / ".appl" or config.origin("home") == "default"
    given = [config.settings_of(name) for name in config.backends]
    own = [f"{CANARY}-{name}" for name in ("OPENAI_API_KEY", "SGLANG_API_KEY", "SGLANG_ADMIN_KEY",
                                           "AZURE_OPENAI_AD_TOKEN")]  # fmt: skip
    said = [str(value) for table in given for value in table.values()]
    assert not any(CANARY in each for each in said if each not in own)
    assert not any("env" in str(alias.options) for alias in config.models.values())
    assert theirs.url not in f"{said} {config}"
    opened = ("weights", "tokenizer", "template")
    held = [table.get(key) for table in given for key in opened if isinstance(table, dict)]
    assert all((theirs.folder / str(each)).resolve() != theirs.other for each in held)
    if made:
        check(config)


def test_only_the_providers_own_variable_goes_to_the_provider(stranger: Path) -> None:
    own = {"openai": {"api_key": "OPENAI_API_KEY", "azure_ad_token": "AZURE_OPENAI_AD_TOKEN"},
           "sglang": {"api_key": "SGLANG_API_KEY", "admin_key": "SGLANG_ADMIN_KEY"}}  # fmt: skip
    for backend in OURS:
        for key in signature(backend):
            for variable in ("AWS_SECRET_ACCESS_KEY", "GITHUB_TOKEN", "OPENAI_API_KEY"):
                found = needs({"backends": {backend: {key: {"env": variable}}}}, stranger)
                assert bool(found) == (own.get(backend, {}).get(key) != variable), (backend, key)
    for address in ("base_url", "azure_endpoint"):
        table = {address: "http://x", "api_key": {"env": "OPENAI_API_KEY"}}
        assert len(needs({"backends": {"openai": table}}, stranger)) == 2
    named = {"type": "openai", "api_key": {"env": "OPENAI_API_KEY"}}
    assert not needs({"backends": {"mine": named}}, stranger)


@pytest.mark.parametrize("key", ["weights", "tokenizer"])
def test_a_folder_of_the_project_is_free_and_one_outside_is_not(stranger: Path, key: str) -> None:
    backend = "embedded" if key == "weights" else "sglang"
    (stranger / "in").mkdir()
    (stranger / "out").symlink_to(stranger.parent)
    (stranger / "near").symlink_to("in")

    def asked(value: str) -> bool:
        return bool(needs({"backends": {backend: {key: value}}}, stranger))

    assert not any(map(asked, ["in", "in/deeper", "./in", "near", str(stranger / "in")]))
    assert all(map(asked, ["..", "in/../..", "out", "out/home", "/", "~", "~/x", "/etc/passwd"]))


# -- each way of loading

_RUN = {"show", "view", "resume", "answer", "export-test", "replay", "rerun", "cost", "critical",
        "stuck", "fuzz", "export", "share", "keep", "rm", "verify",
        "salvage"}  # fmt: skip
_WORDS: dict[str, list[str]] = {
    "ask": ["ask", "What?"],
    "run": ["run", "prog.py:main"],
    "chat": ["chat"],
    "serve": ["serve", "prog.py:main", "--max-running", "0"],
    "eval": ["eval", "prog.py:main", "data.jsonl"],
    "optimize": ["optimize", "prog.py:main", "data.jsonl"],
    "check": ["check", "--replayable", "prog.py:main"],
    "plan": ["plan", "prog.py:main"],
    "render": ["render", "prog.py:main"],
    "models": ["models"],
    "config": ["config"],
    "diff": ["trace", "diff", "RUN", "RUN"],
    "import": ["trace", "import", "RUN"],
    "ls": ["trace", "ls"],
    "gc": ["trace", "gc"],
    "rm": ["trace", "rm", "RUN", "--yes"],
    "share": ["trace", "share", "RUN", "-o", "shared"],
    "salvage": ["trace", "salvage", "RUN", "-o", "saved"],
    "view": ["trace", "view", "RUN", "--html", "run.html"],
    "export": ["trace", "export", "RUN", "--chrome", "out.json"],
    "export-test": ["trace", "export-test", "RUN", "-o", "test_it.py"],
}
_NO_SETTINGS = {"init", "graph", "ctl", "completion", "trust", "trace"}
"""Commands that read no settings; ``init`` starts others that do."""


def commands() -> dict[str, list[str]]:
    """Each command that there is, with the words that start it."""
    names = [name for rows in SECTIONS.values() for name in rows]
    found = {name: _WORDS.get(name, [name]) for name in names if name not in _NO_SETTINGS}
    for rows in TRACE_SECTIONS.values():
        found |= {name: _WORDS.get(name, ["trace", name, "RUN"]) for name in rows}
    return found


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recorded run of the program."""
    folder = tmp_path_factory.mktemp("friend")
    with contextlib.chdir(folder), appl.record("one.trace", backend="appl.testing:Echo"):
        _asked()
    return folder / "one.trace"


@appl.ppl
def _asked() -> Any:
    "What?"
    return str(appl.gen(max_tokens=4))


def harmful(theirs: Stranger) -> dict[str, Any]:
    """One value for each top-level key that can do harm, and some of a backend's."""
    url, other = theirs.url, str(theirs.other)
    return {
        "backend": {"backend": "evil:Backend"},
        "redact": {"redact": "evil:f"},
        "mask_shapes": {"mask_shapes": False},
        "otel": {"otel": url.removesuffix("/v1")},
        "home": {"home": other},
        "gc": {"gc": True},
        "keep_runs": {"keep_runs": 0},
        "keep_age": {"keep_age": "0s"},
        "keep_size": {"keep_size": "0"},
        "keep_failed": {"keep_failed": True},
        "resume": {"resume": str(theirs.other / "runs" / "a.trace")},
        "model": {"model": f"litellm/huggingface/{url}"},
        "type": {"model": "x/m", "backends": {"x": {"type": "evil:Backend"}}},
        "table": {"backends": {"evil:Backend": {"x": 1}}},
        "base_url": {"model": "openai/m", "backends": {"openai": {"base_url": url}}},
        "url": {"model": "sglang/m", "backends": {"sglang": {"url": url}}},
        "api_key": {"model": "openai/m", "backends": {"openai": {"api_key": {"env": "CANARY"}}}},
        "headers": {"model": "openai/m", "backends": {"openai": {"headers": {"X": CANARY}}}},
        "parameters": {"model": "litellm/openai/m",
                       "backends": {"litellm": {"parameters": {"api_base": url}}}},
        "weights": {"backends": {"embedded": {"weights": other}}},
    }  # fmt: skip


def test_every_harmful_setting_is_among_those_that_are_tried(theirs: Stranger) -> None:
    always = {key for key in KEYS if needs(nested((key,), 7), theirs.folder)}
    assert always | {"backend"} <= set(harmful(theirs))


@pytest.mark.parametrize("name", commands())
def test_no_command_goes_on_without_approval(theirs: Stranger, run: Path, name: str) -> None:
    shutil.copy(run, theirs.folder / "one.trace")
    before = sorted(theirs.folder.rglob("*"))
    words = [str(theirs.folder / "one.trace") if w == "RUN" else w for w in commands()[name]]
    for key, settings in harmful(theirs).items():
        theirs.says(settings)
        err = io.StringIO()
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(err):
            code = main(words)
        assert "usage:" not in err.getvalue(), (
            f"{err.getvalue()}write the words of {name!r} in _WORDS, or its name in _NO_SETTINGS"
        )
        assert code == 2 and NEEDS in err.getvalue(), (key, code, err.getvalue())
        assert not theirs.effects(), key
    made = {p.name for p in {*theirs.folder.rglob("*")} - {*before}}
    assert made <= {"appl.json", "__pycache__", *(n for n in made if n.endswith(".pyc"))}


@pytest.mark.parametrize("name", commands())
def test_a_server_that_lacks_approval_is_never_asked(
    theirs: Stranger, run: Path, name: str
) -> None:
    shutil.copy(run, theirs.folder / "one.trace")
    words = [str(theirs.folder / "one.trace") if w == "RUN" else w for w in commands()[name]]
    server = {"model": "m", "base_url": theirs.url, "api_key": "os.environ/CANARY"}
    for default in ({"default": "m"}, {}):
        theirs.says({"servers": {"m": server}, "default_servers": default})
        err = io.StringIO()
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(err):
            code = main(words)
        assert not theirs.effects()
        assert name != "run" or not default or (code == 2 and NEEDS in err.getvalue())


_PROCESSES = {
    "a script": ["prog.py"],
    "the command": ["-m", "appl", "run", "prog.py:main"],
    "a block of a program": ["-c", "import appl\nwith appl.record('x.trace'): pass"],
    "a notebook": ["-c", "from IPython.core.interactiveshell import InteractiveShell as S\n"
                   "import sys\nsys.exit(2 - S().run_cell('import prog; str(prog.main())').success)"],
    "pytest": ["-m", "pytest", "-q", "-p", "appl.parts.pytest_plugin", "-p", "no:cacheprovider",
               "test_it.py"],
}  # fmt: skip
_TEST = "import pytest, prog\n@pytest.mark.appl\ndef test_it(): str(prog.main())\n"


@pytest.mark.parametrize("name", _PROCESSES)
def test_no_process_goes_on_without_approval(theirs: Stranger, warm: Path, name: str) -> None:
    theirs.says(
        {"backend": "evil:Backend", "redact": "evil:f", "home": str(theirs.other), "gc": True,
         "keep_runs": 0, "otel": theirs.url.removesuffix("/v1"),
         "backends": {"openai": {"base_url": theirs.url, "api_key": {"env": "CANARY"}}}}
    )  # fmt: skip
    (theirs.folder / "test_it.py").write_text(_TEST)
    more = ["--appl-record=all"] if name == "pytest" else []
    done = _python(theirs.folder, *_PROCESSES[name], *more, python=warm / "python")
    assert done.returncode in (1, 2) and NEEDS in done.stdout + done.stderr, done
    for key in ("backend", "redact", "home", "gc", "keep_runs", "otel", "backends.openai.base_url"):
        assert f": {key} = " in done.stdout + done.stderr
    assert CANARY not in done.stdout + done.stderr and not theirs.effects()


def _python(
    folder: Path, *words: str, python: Path = Path(sys.executable)
) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(ROOT), str(ROOT / "backends")])
    return subprocess.run(
        [python, *words], cwd=folder, env={**os.environ, "PYTHONPATH": path},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


def test_what_was_approved_works_until_it_changes(
    theirs: Stranger, capsys: pytest.CaptureFixture[str]
) -> None:
    (theirs.folder / "own.py").write_text("from appl.testing import Echo as Own\n")
    theirs.says({"backend": "own:Own"})
    assert main(["run", "prog.py"]) == 2 and NEEDS in capsys.readouterr().err
    assert main(["trust", "--yes"]) == 0
    done = _python(theirs.folder, "prog.py")
    assert done.returncode == 0 and done.stdout.strip(), done
    theirs.says({"backend": "evil:Backend"})
    assert main(["run", "prog.py"]) == 2 and NEEDS in capsys.readouterr().err
    assert not theirs.effects()


def test_a_module_of_the_folder_stands_for_no_library(theirs: Stranger) -> None:
    for name in ("yaml", "openai", "httpx", "numpy", "pydantic", "litellm", "appl_backends"):
        (theirs.folder / f"{name}.py").write_text(EVIL)
    (theirs.folder / "appl.yaml").write_text("seed: 1\nmodel: embedded/embedded\n")
    commands = (["ask", "What?"], ["config"], ["models"], ["trace", "ls"])
    code = f"from appl.cli import main\nprint([main(words) for words in {commands}])"
    done = _python(theirs.folder, "-P", "-c", code)  # -P: as the installed command starts
    *_, codes = done.stdout.splitlines()
    assert not theirs.effects() and {*json.loads(codes)} <= {0, 2} and len(codes) == 12, done


# -- a backend that is none


@pytest.mark.parametrize(
    ("written", "said"),
    [("subprocess:Popen", "Python's own library"), ("os:system", "Python's own library"),
     ("runpy:run_path", "Python's own library"), ("os.path:join", "Python's own library"),
     ("nobody:Nobody", "is no backend"), ("nobody:made", "is no backend")],
)  # fmt: skip
def test_what_is_no_backend_is_an_error_of_configuration(
    theirs: Stranger, monkeypatch: pytest.MonkeyPatch, written: str, said: str
) -> None:
    (theirs.folder / "nobody.py").write_text(
        "class Nobody:\n    def __init__(self, **named): open('SUNG', 'w')\n"
        "def made(**named): return object()\n"
    )
    monkeypatch.setenv("APPL_TRUST", str(theirs.folder))
    for settings in (
        {"backend": written, "backends": {written: {"args": "touch SUNG", "shell": True}}},
        {"model": "x/m", "backends": {"x": {"type": written, "args": "touch SUNG"}}},
    ):
        theirs.says(settings)
        with pytest.raises(ConfigError, match=said):
            check(load(environ={}))
        assert not (theirs.folder / "SUNG").exists()
    sys.modules.pop("nobody", None)
