"""``appl trace export-test``: a recorded run as a test that passes, and its tape.

Invariant: the program of the test ran before, answered from the same trace, and the test holds no
secret of the environment. Existing files stay unchanged.
"""

from __future__ import annotations

import ast
import contextlib
import inspect
import os
import pprint
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from appl.base.extras import pytest_missing
from appl.cli import parameters
from appl.cli.commands import Options, appl_command, option, switch
from appl.cli.display import PlainDisplay
from appl.cli.target import UsageError
from appl.cli.terminal import report_done, to_stderr
from appl.cli.trace.recorded_program import RecordedProgram, opened
from appl.session.replaying import checked, replay_session
from appl.session.session import shown
from appl.tracing import Replayer, Trace, tape
from appl.tracing.recording.secret import Masker

_WIDTH = 92


@appl_command("export-test", example="appl trace export-test last -o tests/test_agent.py")
@parameters.recorded_program
@option("-o", "--output", metavar="FILE", help="default: test_<program>.py in this folder")
@parameters.another_program
@switch("--force", help="write over what is there")
@parameters.as_json
def command(options: Options) -> None:
    """Write a test that a recorded run answers.

    The pytest test runs the recorded program with its recorded arguments; the tape that answers it
    is written beside it, in tapes/. The program is run once, answered from the trace, to get its
    value. The arguments of a script are not recorded; give them after --.
    """
    trace, program = opened(options)
    if trace.header.get("privacy", "full") != "full":
        raise UsageError(
            f"{trace.path.name} is a private run, and a tape is plain text; record one that may be "
            "read, with --privacy full"
        )
    word = Path(program.file).stem if program.function in ("main", "None") else program.function
    test = "test_" + re.sub(r"\W+", "_", word)
    file = Path(options.output or f"{test}.py")
    path = tape.beside(file, test)
    _check(file, path, options.force)
    replayer = Replayer(trace)
    with (
        _noted(trace),
        to_stderr(options.json or program.kind == "script"),
        checked(replayer),
    ):
        value = program.run(
            lambda: replay_session(replayer, instruments=[PlainDisplay(quiet=True)])
        )
    text = "\n".join(_lines(program, test, file, trace, value)) + "\n"
    tape.save(trace, path)
    file.write_text(text, "utf-8")
    data = {"test": str(file), "tape": str(path), "calls": len(trace.calls)}
    done = f"wrote {shown(file)} and {shown(path)}; run it with `pytest {shown(file)}`"
    if first := pytest_missing():
        done += f", after `{first}`"
    if failed := trace.failure_counts().words():
        done += f"; it passes as long as the same fail: {', '.join(failed)}"
    report_done(options.json, data, done)


@contextlib.contextmanager
def _noted(trace: Trace) -> Iterator[None]:
    """Add to a failure of the program the note that no test is written."""
    try:
        yield
    except Exception as error:
        error.add_note(
            f"appl: no test is written of {trace.path.stem}: the program does not run to its end "
            "when it is answered from there"
        )
        raise


def _check(file: Path, path: Path, force: bool) -> None:
    if not file.name.endswith(".py"):
        raise UsageError(f"a test is written to a Python file, got {file}")
    for target in (file, path):
        if target.exists() and not force:
            raise UsageError(f"{target} is there already; give -o another name, or --force")


def _lines(
    program: RecordedProgram, test: str, file: Path, trace: Trace, value: object
) -> Iterator[str]:
    """The source of the test."""
    function, arguments = program.bound() if program.kind == "cli" else (None, {})
    wrong = [name for name, argument in arguments.items() if not _is_literal(argument)]
    if wrong:
        raise UsageError(
            f"the argument {wrong[0]!r} of {program.function} is {arguments[wrong[0]]!r:.80}, "
            "which cannot be written as a literal: write the test by hand, with @pytest.mark.appl"
        )
    inner = inspect.unwrap(function) if function is not None else None
    waits = inspect.iscoroutinefunction(inner) or inspect.isasyncgenfunction(inner)
    failed = trace.failure_counts().words()
    about = f" ({', '.join(failed)})" if failed else ""
    yield f'"""Made by `appl trace export-test` of the run {trace.path.stem}{about}."""'
    yield ""
    yield from _imports(program, file)
    yield ""
    yield ""
    yield "@pytest.mark.appl"
    if waits:
        yield "@pytest.mark.asyncio"
    yield f"{'async ' if waits else ''}def {test}({'appl_run' if function else ''}):"
    if function is None:
        whole = f"runpy.run_path({_path(program, file)}, run_name='__main__')"
    else:
        written = ", ".join(f"{name}={argument!r}" for name, argument in arguments.items())
        called = f"{program.function}({written})"
        whole = f"await appl_run.avalue({called})" if waits else f"appl_run.value({called})"
    if (exits := program.ending.exit) is not None:
        yield "    with pytest.raises(SystemExit) as end:"
        yield f"        {whole}"
        if not _secrets(exits.code) and _is_literal(exits.code):
            yield f"    assert end.value.code == {exits.code!r}"
        return
    if function is None:
        yield f"    {whole}"
        return
    plain = _plain(value)
    secrets = _secrets(plain)
    if secrets:
        yield f"    {whole}  # its value is not compared: it holds {', '.join(secrets)}"
        return
    if plain is None:
        yield f"    {whole}"
        return
    yield f"    value = {whole}"
    expected = pprint.pformat(plain, width=_WIDTH, sort_dicts=False).splitlines()
    if len(expected) == 1:
        yield f"    assert value == {expected[0]}"
    else:
        yield "    assert value == ("
        yield from (f"        {line}" for line in expected)
        yield "    )"


def _imports(program: RecordedProgram, file: Path) -> Iterator[str]:
    """The lines that import the program's function."""
    top = program.function.partition(".")[0]
    if program.kind == "script":
        yield from ("import runpy", *(["import sys"] if program.words else []))
        yield from ("from pathlib import Path", "", "import pytest")
        if program.words:
            yield from ("", f"sys.argv[1:] = {list(program.words)!r}")
        return
    if not program.target.is_file:
        yield from ("import pytest", "", f"from {program.file} import {top}")
        return
    source = Path(program.file).resolve()
    if not source.stem.isidentifier():
        raise UsageError(f"{source.name} cannot be imported by its name; write the test by hand")
    if source.parent == file.resolve().parent:
        yield from ("import pytest", f"from {source.stem} import {top}")
        return
    yield from ("import sys", "from pathlib import Path", "", "import pytest", "")
    folder = os.path.relpath(source.parent, file.resolve().parent)
    yield f"sys.path.insert(0, str(Path(__file__).parent / {folder!r}))"
    yield f"from {source.stem} import {top}  # noqa: E402"


def _path(program: RecordedProgram, file: Path) -> str:
    where = os.path.relpath(Path(program.file).resolve(), file.resolve().parent)
    return f"str(Path(__file__).parent / {where!r})"


def _plain(value: object) -> object:
    """*value* as a literal to compare with; ``None`` if it has none."""
    if isinstance(value, str):
        value = str(value)
    return value if value is not None and _is_literal(value) else None


def _secrets(value: object) -> list[str]:
    """The names of the secrets in *value*."""
    masker, names = Masker(), list[str]()
    for text in _texts(value):
        masker.text(text, names)
    return sorted(set(names))


def _texts(value: object) -> Iterator[str]:
    """Every text in a literal."""
    if isinstance(value, bytes):
        yield value.decode("latin-1")
    elif isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from _texts([*value, *value.values()])
    elif isinstance(value, Iterable):
        for part in value:
            yield from _texts(part)


def _is_literal(value: object) -> bool:
    try:
        return bool(ast.literal_eval(repr(value)) == value)
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        return False
