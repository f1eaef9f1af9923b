"""``appl init``: a folder with a first program, a test made from its run, and the settings.

Invariant: no existing file is changed, and no provider is asked: the embedded model answers the run
that makes the test.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

from appl.base.extras import EXTRAS, absent, pytest_missing
from appl.cli import parameters
from appl.cli.commands import Options, appl_command, argument
from appl.cli.ruff_settings import CHANGING, settings_for
from appl.cli.target import UsageError, path_exists, write_error
from appl.cli.terminal import as_json, out, say
from appl.config import Config
from appl.session.naming import PROVIDERS, Provider, key_source

PROGRAM = '''\
"""A first prompt program: `appl run hello.py` runs it, `pytest` tests it for nothing."""

from appl import gen, ppl


@ppl
def ask(question: str):
    "Facts: Mira Holt is a baker from Tarn. Olaf Brand is a pilot."
    f"Question: {question} Answer with the name only."
    return gen()


def main(question: str = "Who is a baker?"):
    return ask(question)
'''
_IGNORED = ".appl/\n__pycache__/\n.pytest_cache/\n.venv/\n.env\n"
_EMBEDDED = """\
# Every setting: `appl config`. Models that can be named here, and their keys: `appl models`.
backend = "embedded" # a small test model that comes with appl; it can do little
# model = "openai/gpt-5-mini" # then remove the line above, and set OPENAI_API_KEY
"""
_NAMED = """\
# Every setting: `appl config`. Models that can be named here, and their keys: `appl models`.
model = "{model}" # asked with the key in {key}
"""
_RUFF = f"""\
# The first text of a prompt stands where a docstring would. Fixes of these rules would change it.
lint.ignore = {json.dumps([*CHANGING])}
lint.unfixable = {json.dumps([*CHANGING])} # also where one of them is named on the command line
"""
_TAPE = "tapes/test_hello/test_hello.jsonl"
_MADE = ("appl.toml", "hello.py", "test_hello.py", _TAPE)


@appl_command("init", example="appl init\nappl init my-agent")
@argument(
    "folder", required=False, default=".", metavar="DIR", help="the folder; this one if left out"
)
@parameters.as_json
def command(options: Options) -> None:
    """Write a first program, a test made from its run, and the settings.

    Writes appl.toml, hello.py, test_hello.py with the tape that answers it, .gitignore, and a
    ruff.toml (where ruff has no settings) that keeps ruff from changing prompts.
    Existing files stay unchanged. With a provider's key in the environment, appl.toml names a model
    of that provider, otherwise the embedded one. The test is answered from a run of the embedded
    model, so no provider is asked.
    """
    folder = Path(options.folder)
    provider = _provider()
    for name in _MADE:
        if os.path.lexists(folder / name):
            raise UsageError(
                f"{folder / name} exists already, and nothing was written; choose another folder, "
                "as in `appl init my-agent`"
            )
    texts = {"hello.py": PROGRAM, ".gitignore": _IGNORED}
    if settings_for(folder.resolve()) is None:
        texts["ruff.toml"] = _RUFF
    written = _write(folder, texts)
    _appl(folder, "run", "hello.py", "--model", "embedded/embedded", "--temperature", "0")
    _appl(folder, "trace", "export-test", "last", "-o", "test_hello.py")
    written += _write(folder, {"appl.toml": _settings(provider)})
    if options.json:
        files = [str(folder / name) for name in (*written, *_MADE[2:])]
        model, commands = _model(provider), _next(folder, provider)
        out(as_json({"files": files, "model": model, "next": commands}))
    else:
        _tell(folder, provider)


def _provider() -> Provider | None:
    """The first provider whose key is in the environment."""
    nothing = Config()
    return next((provider for provider in PROVIDERS if key_source(provider, nothing)), None)


def _model(provider: Provider | None) -> str:
    if provider is None:
        return "embedded"
    return f"{provider.backend}/{provider.prefix}{provider.example}"


def _settings(provider: Provider | None) -> str:
    if provider is None:
        return _EMBEDDED
    return _NAMED.format(model=_model(provider), key=key_source(provider, Config()))


def _write(folder: Path, texts: dict[str, str]) -> list[str]:
    """Write new files, except a ``.gitignore`` that exists; return their names."""
    written = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            if name == ".gitignore" and os.path.lexists(folder / name):
                continue
            with (folder / name).open("x", encoding="utf-8") as file:
                file.write(text)
            written.append(name)
    except FileExistsError as error:
        raise path_exists(error.filename) from None
    except OSError as error:
        raise write_error(error.filename or folder, error) from None
    return written


def _appl(folder: Path, *words: str) -> None:
    chosen = ("APPL_MODEL", "APPL_BACKEND", "APPL_HOME", "APPL_TRACE", "APPL_PRIVACY")
    environment = {name: value for name, value in os.environ.items() if name not in chosen}
    command = [sys.executable, "-m", "appl", *words]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, check=False)
    if done.returncode:
        problem = done.stderr.decode("utf-8", "replace").strip()
        raise UsageError(f"`appl {shlex.join(words)}` failed in {folder}: {problem}")


def _next(folder: Path, provider: Provider | None) -> list[str]:
    """The commands to type now."""
    lines = [] if folder.resolve() == Path.cwd() else [f"cd {shlex.quote(str(folder))}"]
    if provider is not None and provider.backend in EXTRAS and absent(provider.backend):
        lines.append(f"pip install 'appl[{provider.backend}]'")
    lines += ["appl run hello.py --question 'Who is a pilot?'", "appl trace show"]
    return [*lines, *filter(None, [pytest_missing()]), "pytest"]


def _tell(folder: Path, provider: Provider | None) -> None:
    say(f"appl: wrote appl.toml, hello.py, test_hello.py and {_TAPE} in {folder.resolve()}")
    if provider is None:
        say(
            "appl: no provider's key is in the environment, so appl.toml chooses the embedded "
            "model, a small test model; `appl models` shows which key to set"
        )
    else:
        key = key_source(provider, Config())
        say(
            f"appl: appl.toml names {_model(provider)}, as {key} is set; the test is answered by a "
            "run of the embedded model, and `pytest --appl-record=all` asks yours"
        )
    say("next:")
    for line in _next(folder, provider):
        say(f"  {line}")
