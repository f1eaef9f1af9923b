"""``appl run``: a function of a file, run as a program; recorded, shown, and its value printed.

Invariant: stdout holds what the program prints and its value, or with ``--json`` one JSON document
and nothing else; all that ``appl`` itself says goes to stderr.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import inspect
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from appl import session as sessions
from appl.cli import arguments
from appl.cli.display import Display, display
from appl.cli.failure import Failure, guarded
from appl.cli.overrides import BUDGET_HELP, budget_of
from appl.cli.target import HELP, Target, UsageError, load, parse
from appl.cli.terminal import TermSafe, as_json, out, say, show
from appl.config import KEYS
from appl.config import load as load_config
from appl.runtime.answers.stream import TextStream
from appl.runtime.resolve import aresolve, resolve
from appl.runtime.run import Run
from appl.session import Entry, Session
from appl.tracing.replaying.resumer import Resumer

_SETTINGS = (
    "model",
    "backend",
    "temperature",
    "max_tokens",
    "seed",
    "concurrency",
    "home",
    "privacy",
)


def options() -> argparse.ArgumentParser:
    """What ``appl run`` takes besides the function's own parameters, before or after the target."""
    parser = argparse.ArgumentParser(add_help=False)
    group = parser.add_argument_group("options of appl run")
    for name in _SETTINGS:
        flag = "--" + name.replace("_", "-")
        group.add_argument(flag, dest=name, metavar="X", help=KEYS[name].help)
    group.add_argument("--trace", metavar="FILE", dest="trace_file", help="record into this file")
    group.add_argument("--no-trace", action="store_true", help="do not record the run")
    group.add_argument(
        "--fresh", action="store_true", help="do not go on with an earlier run that was broken off"
    )
    group.add_argument("--budget", action="append", metavar="LIMIT=AMOUNT", help=BUDGET_HELP)
    group.add_argument("--json", action="store_true", help="print one JSON document and no more")
    group.add_argument(
        "--stream", action="store_true", help="show on stderr what the models say, as they say it"
    )
    group.add_argument("--quiet", action="store_true", help="show no progress and no totals")
    return parser


def add(commands: Any) -> None:
    """Add the command to the parser of ``appl``."""
    parser = commands.add_parser(
        "run",
        help="run a function as a program",
        usage="appl run [-h] [options] file.py:function [--name value …] [options]",
        description="Run a function of a file, and print what it returns. Its parameters are given "
        "as --name value; `appl run file.py:function --help` lists them. A parameter with the name "
        "of an option wins after the function; write the option before it then.",
        parents=[options()],
    )
    parser.add_argument("target", metavar="file.py:function", help=HELP)
    words = parser.add_argument("arguments", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    words.required = False
    parser.set_defaults(command=command)


@dataclass(slots=True)
class Plan:
    """What is to be run: a target, the words after it, and the options as far as they are known."""

    target: Target
    argv: list[str]
    given: argparse.Namespace

    @property
    def prog(self) -> str:
        """How the command is written, for help texts."""
        return f"appl run {self.target.written}"


def command(given: argparse.Namespace) -> int:
    """Run the program; the exit code."""
    peeked, _ = options().parse_known_args(given.arguments)
    with guarded(given.json or peeked.json) as failure:
        plan = Plan(parse(given.target), given.arguments, merged(given, peeked))
        if {"--help", "-h"} & set(given.arguments):
            arguments.bind(load(plan.target, to_call=True), ["--help"], options(), plan.prog)
        _run(plan, given, failure)
    return failure.code


def merged(early: argparse.Namespace, late: argparse.Namespace) -> argparse.Namespace:
    """The options before the target, and over them those after it."""
    told = {key: value for key, value in vars(late).items() if value not in (None, False)}
    return argparse.Namespace(**{**vars(early), **told})


def _run(plan: Plan, given: argparse.Namespace, failure: Failure) -> None:
    quiet = plan.given.quiet or plan.given.json
    shower = display(quiet=quiet, answers=plan.given.stream)
    with sessions.hosted(lambda: _session(plan, shower)):
        with to_stderr(plan.given.json):
            function = load(plan.target, to_call=True)
        values, late = arguments.bind(function, plan.argv, options(), plan.prog)
        plan.given = merged(given, late)
        failure.json = plan.given.json
        with shower, to_stderr(plan.given.json):
            current = sessions.process_session()
            failure.session, failure.counts = current, shower.counts
            speaker = Speaker(None if plan.given.json else shower)
            with sessions.settled(current.recalled):
                value = call(current.run, function, values, speaker)
            current.close()
    report(value, current, shower, plan.given)


def _session(plan: Plan, shower: Display) -> Session:
    given = plan.given
    told = {name: getattr(given, name) for name in _SETTINGS}
    told["trace"] = False if given.no_trace else True if given.trace_file else None
    path = Path(given.trace_file) if given.trace_file else None
    entry = entry_of(plan.target, plan.argv)
    if path is not None and path.exists():
        raise UsageError(f"{path} exists already; a run is recorded into a new file")
    told |= budget_of(given)
    config = load_config(told)
    broken = None
    if config.trace and config.resume and path is None and not given.fresh:
        broken = sessions.broken_off(entry, config)
    if broken is not None:
        return _resumed(Resumer(broken), told, entry, shower)
    return sessions.make_session(
        config, entry=entry, instruments=[shower], path=path, say=shower.tell
    )


def _resumed(resumer: Resumer, told: dict[str, Any], entry: Entry, shower: Display) -> Session:
    session = sessions.resume_session(
        resumer, told, entry=entry, instruments=[shower], say=shower.tell
    )
    there, every = len(resumer.unasked()), len(resumer.trace.calls) + len(resumer.trace.tools)
    shower.tell(
        f"appl: going on with {sessions.shown(resumer.trace.path)}, where {there} of {every} calls "
        "are there; --fresh starts anew"
    )
    return session


def entry_of(target: Target, argv: list[str]) -> Entry:
    """How this program was started, for its trace."""
    place = str(Path(target.place).resolve()) if target.is_file else target.place
    return Entry("cli", place, target.function, tuple(argv))


@contextlib.contextmanager
def to_stderr(wanted: bool) -> Iterator[None]:
    """Where a document is to stand alone on stdout, what a program prints goes to stderr."""
    with contextlib.redirect_stdout(sys.stderr) if wanted else contextlib.nullcontext():
        yield


class Speaker:
    """Takes what a program streams as its value; where there is a *shower*, prints it as it comes.

    The value is then ``None``, as nothing is left to be printed; else it is the whole text. Of the
    stream of a typed answer it is the last object.
    """

    def __init__(self, shower: Display | None = None) -> None:
        self._shower, self._safe = shower, TermSafe()
        self._texts: list[str] = []
        self._value: Any = None

    def add(self, piece: Any) -> None:
        """Take one piece."""
        if not isinstance(piece, str):
            self._value = piece
            return
        if self._shower is not None:
            if not self._texts:
                self._shower.clear()
            out(self._safe.feed(piece), end="")
        self._texts.append(piece)

    def close(self) -> None:
        """The stream has ended, well or not."""
        if self._shower is not None and self._texts:
            out(self._safe.close())

    def value(self) -> Any:
        """What is left to be shown."""
        return self._value if self._shower is not None or not self._texts else "".join(self._texts)


def call(
    run: Run, function: Callable[..., Any], values: dict[str, Any], speaker: Speaker | None = None
) -> Any:
    """The finished value of *function* in *run*; all that it started has ended.

    A stream that it returns is read by *speaker*.
    """
    speaker = speaker or Speaker()
    inner = inspect.unwrap(function)
    if inspect.iscoroutinefunction(inner) or inspect.isasyncgenfunction(inner):
        return asyncio.run(_acall(run, function, values, speaker))
    with run:
        value = function(**values)
        if isinstance(value, TextStream):
            with contextlib.closing(speaker):
                for piece in value:
                    speaker.add(piece)
            return speaker.value()
        if inspect.iscoroutine(value) or inspect.isasyncgen(value):
            raise UsageError(f"{function.__name__} returns a coroutine but is not an `async def`")
        return resolve(list(value) if inspect.isgenerator(value) else value)


async def _acall(
    run: Run, function: Callable[..., Any], values: dict[str, Any], speaker: Speaker
) -> Any:
    async with run:
        value = function(**values)
        if inspect.isasyncgen(value):
            return await aresolve([item async for item in value])
        value = await value
        if isinstance(value, TextStream):
            with contextlib.closing(speaker):
                async for piece in value:
                    speaker.add(piece)
            return speaker.value()
        return await aresolve(value)


def report(value: Any, session: Session, shower: Display, given: argparse.Namespace) -> None:
    """Print the value, and what the run was."""
    if given.json:
        where = str(session.path) if session.path else None
        out(as_json({"value": value, "run": {**shower.counts.as_data(), "trace": where}}))
        return
    shown = show(value)
    if shown:
        out(shown)
    if not given.quiet and shower.counts.started:
        say(f"appl: {shower.counts.line()}; {shower.counts.seconds():.1f} s")
