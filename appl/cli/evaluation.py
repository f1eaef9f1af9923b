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
from appl.cli.data_runs import earlier, performed
from appl.cli.display import display
from appl.cli.exits import FAILED, OK
from appl.cli.overrides import SETTINGS, budget, settings, settings_of
from appl.cli.program_call import call
from appl.cli.run_options import options, trace_file
from appl.cli.target import Target, UsageError, load, parse
from appl.cli.terminal import as_json, out, say, say_next, term_safe
from appl.parts.evaluation.report import Evaluation
from appl.session.session import Session

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
def command(options: Options) -> int:
    """Run a function on cases, score its answers, and print means with 95% intervals.

    A case is a line of JSON, or a row of CSV, with `input`, and perhaps `target` and `id`. An input
    with the names of parameters is passed by name, anything else as the one argument. A call that
    the last evaluation of the same function answered is not paid again, also if that was broken
    off: after an edit only what differs is asked, and failures. Failed cases are counted and shown.
    """
    limits = _limits(options.at_least, options.score or ("exact",))
    words = _words(options)
    entry = Target(evaluation_program.PLACE, evaluation_program.FUNCTION).entry(words)
    quiet = options.quiet or options.json
    shower = display(quiet=quiet)
    rerunner = None if options.fresh else earlier(entry, options.home)
    result, current = performed(
        entry,
        rerunner,
        shower,
        options,
        settings_of(options),
        lambda run: _evaluation(run, list(entry.argv), progress=False if quiet else None),
    )
    _print(result, current, options)
    if rerunner is not None and rerunner.answered and not quiet:
        reused, asked_count = len(rerunner.answered), len(rerunner.asked)
        say(
            f"appl: {rerunner.trace.path.stem} answered {reused} calls, {asked_count} were asked; "
            "--fresh asks all"
        )
    return _code(result, limits)


def _words(options: Options) -> list[str]:
    """The command line of the program, for the record."""
    words = [f"--program={parse(options.target).written}", f"--data={options.data}"]
    words += [f"--score={score}" for score in options.score or ("exact",)]
    words += [f"--samples={options.samples}"] if options.samples != 1 else []
    words += [f"--against={options.against}"] if options.against else []
    words += [f"--limit={options.limit}"] if options.limit is not None else []
    return words + (["--fail-fast"] if options.fail_fast else [])


def _limits(words: tuple[str, ...], scores: tuple[str, ...]) -> dict[str | None, float]:
    """The least mean of each score in *words*; under ``None`` that of all *scores*."""
    least_means: dict[str | None, float] = {}
    names = [score.rpartition(":")[2] for score in scores]
    for word in words:
        name, _, number = word.rpartition("=")
        if name and name not in names:
            raise UsageError(f"--at-least: there is no score {name!r} ({', '.join(names)})")
        try:
            least_means[name or None] = float(number)
        except ValueError:
            raise UsageError(f"--at-least takes a mean, or {_AT_LEAST}; got {word!r}") from None
    return least_means


def _evaluation(current: Session, words: list[str], progress: bool | None) -> Evaluation:
    function = load(Target(evaluation_program.PLACE, evaluation_program.FUNCTION))
    values, _ = bind(function, words, options(), "appl eval")
    return cast(Evaluation, call(current.run, function, {**values, "progress": progress}))


def show_table(found: Evaluation) -> None:
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
    Console().print(table)


def _print(result: Evaluation, current: Session, options: Options) -> None:
    where = str(current.path) if current.path else None
    if options.json:
        out(as_json({**result.as_data(), "trace": where}))
        return
    if sys.stdout.isatty():
        out(term_safe(result.title()))
        show_table(result)
        for line in result.notes():
            out(term_safe(line))
    else:
        out(term_safe(str(result)))
    if not options.quiet:
        say_next(current.failures_line())


def _code(result: Evaluation, limits: Mapping[str | None, float]) -> int:
    """The exit code, with a line about each mean that is too low."""
    scores = result.scores
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
