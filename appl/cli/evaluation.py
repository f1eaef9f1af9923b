"""``appl eval``: a program on cases, with scores, as one recorded run.

Invariant: stdout holds the table, or with ``--json`` one JSON document and nothing else.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import cast

import click

from appl.cli import evaluation_program, parameters
from appl.cli.arguments import bind
from appl.cli.commands import Options, appl_command, argument, option, switch
from appl.cli.display import Display, display
from appl.cli.exits import FAILED, OK
from appl.cli.overrides import SETTINGS, budget, new_trace, settings, settings_of
from appl.cli.program_call import call
from appl.cli.run_options import options, trace_file
from appl.cli.target import Target, UsageError, load, parse
from appl.cli.terminal import as_json, out, say, say_next, term_safe, to_stderr
from appl.config import load as load_config
from appl.errors import TraceError
from appl.parts.evaluation.report import Evaluation
from appl.session.blocks import settled
from appl.session.entry import Entry
from appl.session.isolation import RECORDED
from appl.session.ownership import is_own
from appl.session.process import hosted, process_session
from appl.session.rerunning import rerun_session
from appl.session.session import Session, make_session
from appl.tracing.format.keys import first_record
from appl.tracing.reading.runs import paths
from appl.tracing.reading.trace import Trace
from appl.tracing.replaying.ancestry import with_ancestors
from appl.tracing.replaying.rerunner import Rerunner

_AT_LEAST = "SCORE=MEAN"


@appl_command(
    "eval",
    example="appl eval program.py:answer cases.jsonl --score exact\n"
    "appl eval program.py:answer cases.csv --score program.py:judge --samples 3\n"
    "appl eval program.py:answer cases.jsonl --score exact --against program.py:older",
    codes="0 it ran; 1 a mean is below --at-least, nothing was scored, or with --fail-fast a case "
    "failed; 2 wrong usage, data or source; 130 interrupted",
)
@parameters.target
@argument("data", metavar="DATA", help="the cases: a .jsonl, .json or .csv file")
@option(
    "--score",
    multiple=True,
    metavar="NAME|FILE:FUNCTION",
    help="exact, contains, regex, json, choice, or a function of answer and target; may be "
    "repeated; without it, exact",
)
@option(
    "--samples",
    type=click.IntRange(min=1),
    default=1,
    metavar="N",
    help="answer each case so often",
)
@option(
    "--against",
    metavar="RUN|FILE:FUNCTION",
    help="compare case by case with a recorded evaluation, or with another function, run beside it",
)
@option("--limit", type=click.IntRange(min=1), metavar="N", help="only the first N cases")
@option(
    "--at-least",
    multiple=True,
    metavar="MEAN|SCORE=MEAN",
    help="exit with 1 if a mean is lower, where a failure counts 0; may be repeated",
)
@switch("--fail-fast", help="end with the first case that fails")
@switch("--fresh", help="ask everything, also what an earlier evaluation of the program answers")
@settings((*SETTINGS, "home", "privacy"))
@trace_file
@switch("--no-trace", help="do not record the run")
@budget
@parameters.as_json
@parameters.quiet
def command(given: Options) -> int:
    """Run a function on cases, score its answers, and print means with 95% intervals.

    A case is a line of JSON, or a row of CSV, with `input`, and perhaps `target` and `id`. An input
    with the names of parameters is passed by name, anything else as the one argument. A call that
    the last evaluation of the same function answered is not paid again, also if that was broken
    off: after an edit only what differs is asked, and failures. Failed cases are counted and shown.
    """
    limits = _limits(given.at_least, given.score or ("exact",))
    words = _words(given)
    entry = Target(evaluation_program.PLACE, evaluation_program.FUNCTION).entry(words)
    shower = display(quiet=given.quiet or given.json)
    rerunner = None if given.fresh else _earlier(entry, given)
    found, current = _performed(entry, rerunner, shower, given)
    _print(found, current, given)
    if rerunner is not None and rerunner.answered and not (given.quiet or given.json):
        reused, asked = len(rerunner.answered), len(rerunner.asked)
        say(
            f"appl: {rerunner.trace.path.stem} answered {reused} calls, {asked} were asked; "
            "--fresh asks all"
        )
    return _code(found, limits)


def _words(given: Options) -> list[str]:
    """The command line of the program, for the record."""
    words = [f"--program={parse(given.target).written}", f"--data={given.data}"]
    words += [f"--score={each}" for each in given.score or ("exact",)]
    words += [f"--samples={given.samples}"] if given.samples != 1 else []
    words += [f"--against={given.against}"] if given.against else []
    words += [f"--limit={given.limit}"] if given.limit is not None else []
    return words + (["--fail-fast"] if given.fail_fast else [])


def _limits(words: tuple[str, ...], scores: tuple[str, ...]) -> dict[str | None, float]:
    """The least mean of each score in *words*; under ``None`` that of all *scores*."""
    found: dict[str | None, float] = {}
    names = [score.rpartition(":")[2] for score in scores]
    for word in words:
        name, _, number = word.rpartition("=")
        if name and name not in names:
            raise UsageError(f"--at-least: there is no score {name!r} ({', '.join(names)})")
        try:
            found[name or None] = float(number)
        except ValueError:
            raise UsageError(f"--at-least takes a mean, or {_AT_LEAST}; got {word!r}") from None
    return found


def _earlier(entry: Entry, given: Options) -> Rerunner | None:
    """Answers from the newest evaluation of the same function in this folder, if there is one."""
    wanted = entry.as_data()
    config = load_config({"home": given.home} if given.home else None)
    for path in reversed(paths(config.home)):
        if evaluation_program.FUNCTION not in path.stem:
            continue
        try:
            head = first_record(path)
            recorded = head.get("entry") if head is not None else None
            if not isinstance(recorded, Mapping) or not _is_same(recorded, wanted):
                continue
            trace = Trace.open(path, home=config.home)
        except (TraceError, OSError):
            continue
        if trace.state != "running" and is_own(path):
            return Rerunner(with_ancestors(trace, config.home))
    return None


def _is_same(recorded: Mapping[str, object], wanted: Mapping[str, object]) -> bool:
    """True if both evaluate the same function."""
    same = all(recorded.get(name) == wanted[name] for name in ("file", "function", "directory"))
    then, now = recorded.get("argv"), wanted["argv"]
    return same and list(then or ())[:1] == list(now or ())[:1]  # type: ignore[call-overload]


def _performed(
    entry: Entry, rerunner: Rerunner | None, shower: Display, given: Options
) -> tuple[Evaluation, Session]:
    """The evaluation, and the session in which it was made."""
    overrides = settings_of(given) | {
        name: getattr(given, name) for name in ("home", "privacy") if getattr(given, name)
    }
    if given.no_trace or given.trace_file:
        overrides["trace"] = not given.no_trace
    path = new_trace(given)

    def opener() -> Session:
        if rerunner is None:
            config = load_config(overrides)
            return make_session(
                config, entry=entry, instruments=[shower], path=path, say=shower.tell
            )
        return rerun_session(
            rerunner,
            overrides,
            entry=entry,
            path=path,
            instruments=[shower],
            say=shower.tell,
            present=RECORDED,
        )

    with hosted(opener), shower, to_stderr(given.json):
        current = process_session()
        given.session, given.counts = current, shower.counts
        with settled(current.run.outside.world):
            quiet = given.quiet or given.json
            found = _evaluation(current, list(entry.argv), progress=False if quiet else None)
        current.close()
    return found, current


def _evaluation(current: Session, words: list[str], progress: bool | None) -> Evaluation:
    function = load(Target(evaluation_program.PLACE, evaluation_program.FUNCTION))
    values, _ = bind(function, words, options(), "appl eval")
    return cast(Evaluation, call(current.run, function, {**values, "progress": progress}))


def _show(found: Evaluation) -> None:
    """Print the table of *found* on a terminal."""
    from rich.console import Console  # only a terminal needs it
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for number, head in enumerate(found.head()):
        name = Text(term_safe(head))
        table.add_column(name, justify="right" if number else "left", no_wrap=True)
    for row in found.rows():
        table.add_row(*(Text(term_safe(cell)) for cell in row))
    out(term_safe(found.title()))
    Console().print(table)
    for line in found.notes():
        out(term_safe(line))


def _print(found: Evaluation, current: Session, given: Options) -> None:
    where = str(current.path) if current.path else None
    if given.json:
        out(as_json({**found.as_data(), "trace": where}))
        return
    if sys.stdout.isatty():
        _show(found)
    else:
        out(term_safe(str(found)))
    if not given.quiet:
        say_next(current.failures_line())


def _code(found: Evaluation, limits: Mapping[str | None, float]) -> int:
    """The exit code, with a line about each mean that is too low."""
    scores = found.scores
    code = OK
    for name, score in scores.items():
        least = limits.get(name, limits.get(None))
        mean = score.with_failures or 0.0
        if least is not None and mean < least:
            say(f"appl: {name} is {mean:.3f}, below --at-least {least:g}")
            code = FAILED
    if all(score.mean is None for score in scores.values()):
        code = FAILED
    return code
