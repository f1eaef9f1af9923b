"""``appl run``: run a function of a file as a program, record it, and print its value.

Invariant: stdout holds the program's output and its value, or with ``--json`` one JSON document and
nothing else. Everything that ``appl`` itself reports goes to stderr.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from appl.cli import parameters
from appl.cli.arguments import bind, help_text, peek, wants_help
from appl.cli.commands import Options, ProgramCommand, appl_command, option, options_of, switch
from appl.cli.display import Display, display
from appl.cli.failure import Failure, guarded
from appl.cli.overrides import budget, budget_of, settings
from appl.cli.target import Target, UsageError, load, parse
from appl.cli.terminal import TermSafe, as_json, out, say, say_next, show
from appl.config import load as load_config
from appl.runtime.answers.stream import TextStream
from appl.runtime.resolve import aresolve, resolve
from appl.runtime.run import Run
from appl.session.blocks import settled
from appl.session.entry import Entry
from appl.session.interrupted_run import broken_off
from appl.session.process import hosted, process_session
from appl.session.resume import resume_session
from appl.session.session import Session, make_session, shown
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


@dataclass(slots=True)
class Invocation:
    """A program to run: its target, the words after it, and the options known so far."""

    target: Target
    argv: list[str]
    given: Options

    @property
    def prog(self) -> str:
        """The command as it is written, for help texts."""
        return f"appl run {self.target.written}"


@appl_command(
    "run",
    cls=ProgramCommand,
    context_settings={"allow_interspersed_args": False},
    example="appl run program.py\nappl run --model openai/gpt-5-mini program.py:ask --topic rain",
)
@parameters.target_with_arguments
@settings(_SETTINGS)
@option("--trace", "trace_file", metavar="FILE", help="record into this file")
@switch("--no-trace", help="do not record the run")
@switch("--fresh", help="do not go on with an earlier run that was broken off")
@budget
@parameters.as_json
@switch("--stream", help="show on stderr what the models say, as they say it")
@parameters.quiet
def command(given: Options) -> int:
    """Run a function of a file as a program, and print what it returns.

    Its parameters are given as --name value; `appl run file.py:function --help` lists them. Options
    may stand before or after the program. After the program, a parameter wins over an option of the
    same name; write the option before the program then.
    """
    words = list(given.arguments)
    peeked = peek(words, options(), f"appl run {given.target}")
    with guarded(given.json or peeked.json) as failure:
        plan = Invocation(parse(given.target), words, merged(given, peeked))
        if wants_help(words):
            out(help_text(load(plan.target, to_call=True), options(), plan.prog))
            return failure.code
        perform(plan, given, failure)
    return failure.code


def options() -> list[click.Option]:
    """The options of ``appl run``, which may stand before or after the program."""
    return options_of(command)


def merged(early: Options, late: Options) -> Options:
    """The options before the target, overridden by those after it."""
    later = {key: value for key, value in vars(late).items() if value not in (None, False, ())}
    return Options(**{**vars(early), **later})


def perform(
    plan: Invocation, given: Options, failure: Failure, shower: Display | None = None
) -> None:
    """Run the program of *plan*, and print its value; *given* are the options before it."""
    quiet = plan.given.quiet or plan.given.json
    shower = shower or display(quiet=quiet, answers=plan.given.stream)
    with hosted(lambda: _session(plan, shower)):
        with to_stderr(plan.given.json):
            function = load(plan.target, to_call=True)
        values, late = bind(function, plan.argv, options(), plan.prog)
        plan.given = merged(given, late)
        failure.json = plan.given.json
        with shower, to_stderr(plan.given.json):
            current = process_session()
            failure.session, failure.counts = current, shower.counts
            speaker = ValuePrinter(None if plan.given.json else shower)
            with settled(current.run.outside.world):
                value = call(current.run, function, values, speaker)
            current.close()
    report(value, current, shower, plan.given)


def _session(plan: Invocation, shower: Display) -> Session:
    given = plan.given
    overrides = {name: getattr(given, name) for name in _SETTINGS}
    overrides["trace"] = False if given.no_trace else True if given.trace_file else None
    path = Path(given.trace_file) if given.trace_file else None
    entry = entry_of(plan.target, plan.argv)
    if path is not None and path.exists():
        raise UsageError(f"{path} exists already; a run is recorded into a new file")
    overrides |= budget_of(given)
    config = load_config(overrides)
    broken = None
    if config.trace and config.resume and path is None and not given.fresh:
        broken = broken_off(entry, config, shower.tell)
    if broken is not None:
        return _resumed(Resumer(broken), overrides, entry, shower)
    return make_session(config, entry=entry, instruments=[shower], path=path, say=shower.tell)


def _resumed(
    resumer: Resumer, overrides: dict[str, object], entry: Entry, shower: Display
) -> Session:
    session = resume_session(resumer, overrides, entry=entry, instruments=[shower], say=shower.tell)
    there, every = len(resumer.unasked()), len(resumer.trace.calls) + len(resumer.trace.tools)
    shower.tell(
        f"appl: going on with {shown(resumer.trace.path)}, where {there} of {every} calls "
        "are there; --fresh starts anew"
    )
    return session


def entry_of(target: Target, argv: list[str]) -> Entry:
    """The entry of the program, for its trace."""
    place = str(Path(target.place).resolve()) if target.is_file else target.place
    return Entry("cli", place, target.function, tuple(argv))


@contextlib.contextmanager
def to_stderr(wanted: bool) -> Iterator[None]:
    """Send the program's prints to stderr if stdout is reserved for a document."""
    with contextlib.redirect_stdout(sys.stderr) if wanted else contextlib.nullcontext():
        yield


class ValuePrinter:
    """Collects a program's streamed value; with a *shower*, prints it as it comes.

    The value is then ``None``, as nothing is left to print, otherwise the whole text. The value of
    a typed answer's stream is its last object.
    """

    def __init__(self, shower: Display | None = None) -> None:
        self._shower, self._safe = shower, TermSafe()
        self._texts: list[str] = []
        self._value: Any = None

    def add(self, piece: object) -> None:
        """Add one piece."""
        if not isinstance(piece, str):
            self._value = piece
            return
        if self._shower is not None:
            if not self._texts:
                self._shower.clear()
            out(self._safe.feed(piece), end="")
        self._texts.append(piece)

    def close(self) -> None:
        """End the stream, complete or not."""
        if self._shower is not None and self._texts:
            out(self._safe.close())

    def value(self) -> Any:
        """The value that is not printed yet."""
        return self._value if self._shower is not None or not self._texts else "".join(self._texts)


def call(
    run: Run,
    function: Callable[..., Any],
    values: dict[str, Any],
    speaker: ValuePrinter | None = None,
) -> Any:
    """Run *function* in *run*, wait for everything it started, and return its finished value.

    If it returns a stream, *speaker* reads it.
    """
    speaker = speaker or ValuePrinter()
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
    run: Run, function: Callable[..., Any], values: dict[str, Any], speaker: ValuePrinter
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


def report(value: object, session: Session, shower: Display, given: Options) -> None:
    """Print the value and the totals of the run."""
    if given.json:
        where = str(session.path) if session.path else None
        out(as_json({"value": value, "run": {**shower.counts.as_data(), "trace": where}}))
        return
    if inspect.isfunction(value) or inspect.ismethod(value):
        say(f"appl: the program returned the function {value.__name__}; write {value.__name__}()")
    shown = show(value)
    if shown:
        out(shown)
    if not given.quiet and shower.counts.started:
        say(f"appl: {shower.counts.line()}; {shower.counts.seconds():.1f} s")
        say_next(session.next_line())
