"""``appl optimize``: better texts for the prompts of a program, as a diff of its source.

Invariant: stdout holds the table and the diff, or with ``--json`` one JSON document and nothing
else; no file is changed without ``--write``.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from appl.cli import parameters
from appl.cli.arguments import bind
from appl.cli.commands import Options, appl_command, argument, option, switch
from appl.cli.data_runs import earlier, performed
from appl.cli.display import display
from appl.cli.exits import FAILED, OK
from appl.cli.overrides import SETTINGS, budget, budget_of, settings, settings_of
from appl.cli.program_call import call
from appl.cli.run_options import options, trace_file
from appl.cli.target import Target, UsageError, load, parse, unused_path, write_error
from appl.cli.terminal import as_json, out, say, say_next, term_safe
from appl.errors import InvalidOption
from appl.session.session import Session

if TYPE_CHECKING:
    from appl.parts.optimization.result import Optimization

_PLACE, _FUNCTION = "appl.cli.optimization_program", "optimization"


@appl_command(
    "optimize",
    example="appl optimize program.py:answer cases.jsonl --score exact --budget tokens=50000\n"
    "appl optimize program.py:answer cases.jsonl --score program.py:judge --proposer openai/gpt-5\n"
    "appl optimize program.py:answer cases.jsonl --score exact --budget cost=2 --write",
    codes="0 better texts were found; 1 none, or the data held out speaks against them; 2 wrong "
    "usage, data or source; 130 interrupted",
)
@parameters.target
@argument("data", metavar="DATA", help="the cases: a .jsonl, .json or .csv file")
@option(
    "--score",
    multiple=True,
    metavar="NAME|FILE:FUNCTION",
    help="as for `appl eval`; the first one is raised, others are shown",
)
@option(
    "--held-out",
    metavar="DATA",
    help="cases for the measurement, which nobody learns from; without it, a third of DATA",
)
@option(
    "--proposals",
    type=click.IntRange(min=1),
    default=20,
    metavar="N",
    help="end after so many proposals",
)
@option(
    "--proposer",
    metavar="MODEL|FILE:FUNCTION",
    help="who proposes texts: a model, by default that of the program, or a function",
)
@option(
    "--samples",
    type=click.IntRange(min=1),
    default=1,
    metavar="N",
    help="answer each case so often",
)
@option(
    "--batch",
    type=click.IntRange(min=1),
    default=4,
    metavar="N",
    help="make a proposal from so many cases, and try it on them first",
)
@switch("--write", help="apply the diff to the source, if the data held out does not speak against")
@option("--patch", metavar="FILE", help="write the diff into this file")
@switch("--fresh", help="ask everything, also what an earlier run of the command has asked")
@settings((*SETTINGS, "home", "privacy"))
@trace_file
@switch("--no-trace", help="do not record the run")
@budget
@parameters.as_json
@parameters.quiet
def command(given: Options) -> int:
    """Look for better texts in the prompts of a function, and print them as a diff.

    A model reads cases that failed and proposes a new text for one statement of a prompt; a text is
    kept if it raises the score. A candidate asks only the calls that its text changes. The budget
    holds for all calls together, those of the proposer too, and for the command when it is typed
    again: it goes on where it was broken off, and pays nothing twice.
    """
    patch = unused_path(Path(given.patch)) if given.patch else None
    words = _words(given)
    entry = Target(_PLACE, _FUNCTION).entry(words)
    shower = display(quiet=given.quiet or given.json)
    rerunner = None if given.fresh else earlier(entry, given.home)
    others = {name: value for name, value in settings_of(given).items() if name != "budget"}

    def optimized(current: Session) -> Optimization:
        function = load(Target(_PLACE, _FUNCTION))
        values, _ = bind(function, list(entry.argv), options(), "appl optimize")
        values["progress"] = False if given.quiet or given.json else None
        return cast("Optimization", call(current.run, function, values))

    found, current = performed(entry, rerunner, shower, given, others, optimized)
    if patch is not None and found.diff:
        try:
            patch.write_text(found.diff, "utf-8")
        except OSError as error:
            raise write_error(patch, error) from None
    _print(found, current, given)
    return _end(found, given)


def _words(given: Options) -> list[str]:
    """The command line of the program, for the record."""
    words = [f"--program={parse(given.target).written}", f"--data={given.data}"]
    words += [f"--score={each}" for each in given.score or ("exact",)]
    limits = cast("dict[str, str]", budget_of(given).get("budget", {}))
    written = ",".join(f"{name}={amount}" for name, amount in limits.items())
    words += [f"--limits={written}"] if written else []
    words += [f"--held-out={given.held_out}"] if given.held_out else []
    words += [f"--proposer={given.proposer}"] if given.proposer else []
    for name, usual in (("proposals", 20), ("samples", 1), ("batch", 4)):
        number = getattr(given, name)
        words += [f"--{name}={number}"] if number != usual else []
    return words


def _print(found: Optimization, current: Session, given: Options) -> None:
    where = str(current.path) if current.path else None
    if given.json:
        out(as_json({**found.as_data(), "trace": where}))
        return
    if sys.stdout.isatty():
        from appl.cli.evaluation import show_table

        _out(found.head())
        show_table(found.shown)
        _out(found.notes())
    else:
        _out(found.lines())
    if found.diff:
        out("")
        out(term_safe(found.diff), end="")
    if not given.quiet:
        say_next(current.failures_line())


def _out(lines: Iterable[str]) -> None:
    for line in lines:
        out(term_safe(line))


def _end(found: Optimization, given: Options) -> int:
    """Apply the diff, if that is wanted; the exit code."""
    if not found.is_better:
        if given.write:
            say("appl: nothing was written")
        return FAILED
    if given.write:
        try:
            names = found.write()
        except (InvalidOption, OSError) as error:
            raise UsageError(str(error)) from None
        say(f"appl: wrote {', '.join(names)}")
    elif not (given.quiet or given.json):
        say("appl: the source is as it was; --write applies the diff")
    return OK
