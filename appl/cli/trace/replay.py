"""``appl trace replay``: the recorded program once more, answered from its trace.

Invariant: no backend is made, so that nothing can be asked live; what differs is an error that says
what and where.
"""

from __future__ import annotations

import argparse
import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from appl import session as sessions
from appl.cli import arguments
from appl.cli.display import Plain
from appl.cli.failure import guarded
from appl.cli.run import call, options, to_stderr
from appl.cli.target import Target, UsageError, load, parse
from appl.cli.terminal import as_json, out, say, show
from appl.cli.trace.named import run_path
from appl.config import load as load_config
from appl.session import Session, program_digests
from appl.tracing import Replayer, Trace


def add(commands: Any) -> None:
    """Add the command to those of ``appl trace``."""
    parser = commands.add_parser(
        "replay",
        help="run a recorded program again, answered from its trace",
        description="Run a recorded program again with its recorded arguments. Every call is "
        "answered from the trace; a call that the trace does not answer is an error. The arguments "
        "of a script are not recorded; give them after --.",
    )
    parser.add_argument("run", nargs="?", default="last", metavar="RUN")
    parser.add_argument("script_arguments", nargs="*", metavar="-- ARGUMENT")
    parser.add_argument(
        "--program", metavar="file.py:function", help="run this instead of the recorded program"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document and no more")
    parser.set_defaults(command=command)


def command(given: argparse.Namespace) -> int:
    """Replay the run; the exit code."""
    with guarded(given.json) as failure:
        trace = Trace.open(run_path(given.run), home=load_config().home)
        entry = _entry(trace, given.program)
        _note_changes(trace)
        shower = Plain(quiet=True)
        replayer = Replayer(trace)
        with to_stderr(given.json), sessions.checked(replayer):
            value = _again(entry, given.script_arguments, replayer, shower)
        _report(value, trace, shower, given.json)
    return failure.code


def _entry(trace: Trace, program: str | None) -> dict[str, Any]:
    """What to run. What a stranger's trace names is run only if it lies below this folder."""
    recorded = trace.header.get("entry")
    entry = recorded if isinstance(recorded, dict) else {}
    if program is not None:
        target = parse(program)
        return {**entry, "kind": "cli", "file": target.place, "function": target.function}
    file = entry.get("file")
    if not isinstance(file, str):
        raise UsageError(f"{trace.path.name} does not say which file it is of; give --program")
    own = trace.path.resolve().parent == (load_config().home / "runs").resolve()
    if own or Path(file).resolve().is_relative_to(Path.cwd()):
        return entry
    raise UsageError(
        f"{trace.path.name} is not among your runs, and names the program {file}; "
        "if that is to be run, give it as --program file.py:function"
    )


def _again(entry: dict[str, Any], words: list[str], replayer: Replayer, shower: Plain) -> Any:
    def opener() -> Session:
        return sessions.replay_session(replayer, instruments=[shower])

    with sessions.hosted(opener):
        return _program(entry, words, replayer)()


def _program(entry: dict[str, Any], words: list[str], replayer: Replayer) -> Callable[[], Any]:
    """What to do to run the recorded program."""
    kind, file = entry.get("kind"), entry.get("file")
    if kind == "cli" and isinstance(file, str):
        return lambda: _function(Target(file, str(entry.get("function"))), entry)
    if kind == "script" and isinstance(file, str):
        return lambda: _script(file, words, entry)
    what = "a `with appl.record():` block" if kind == "api" else "code without a file"
    raise UsageError(
        f"{replayer.trace.path.name} records {what}, which cannot be started from here; "
        f"run its program inside `with appl.session.replayed({str(replayer.trace.path)!r}):`"
    )


def _function(target: Target, entry: dict[str, Any]) -> Any:
    argv = [str(word) for word in entry.get("argv") or ()]
    function = load(target)
    values, _ = arguments.bind(function, argv, options(), f"appl run {target.written}")
    return call(sessions.process_run(), function, values)


def _script(file: str, words: list[str], entry: dict[str, Any]) -> None:
    """Run the file as ``python file.py`` does; its prints are the output."""
    if entry.get("argc") and not words:
        raise UsageError(
            f"{file} was run with {entry['argc']} arguments, which are not recorded; "
            "give them after --"
        )
    if not Path(file).is_file():
        raise UsageError(f"the recorded program {file} is not there any more")
    before = sys.argv
    sys.argv = [file, *words]
    sys.path.insert(0, str(Path(file).parent))
    try:
        runpy.run_path(file, run_name="__main__")
    finally:
        sys.argv = before


def _note_changes(trace: Trace) -> None:
    """Say which files of the program are not what they were; that is no error by itself."""
    recorded = trace.header.get("programs")
    entry = trace.header.get("entry")
    file = entry.get("file") if isinstance(entry, dict) else None
    if not isinstance(recorded, dict) or not isinstance(file, str):
        return
    now = program_digests(sessions.Entry("cli", file))
    changed = [name for name, digest in recorded.items() if now.get(name, digest) != digest]
    if changed:
        names = ", ".join(sessions.shown(Path(name)) for name in changed)
        say(f"appl: changed since the recording: {names}")


def _report(value: Any, trace: Trace, shower: Plain, as_document: bool) -> None:
    replayed = shower.counts.started
    if as_document:
        run = {"replayed": replayed, "live": 0, "tokens_paid": 0, "trace": str(trace.path)}
        out(as_json({"value": value, "run": run}))
        return
    text = show(value)
    if text:
        out(text)
    calls = "1 call" if replayed == 1 else f"{replayed} calls"
    say(f"appl: replayed {calls}, 0 live, 0 tokens paid")
