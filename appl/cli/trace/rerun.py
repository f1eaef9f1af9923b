"""``appl trace rerun``: run a program again after an edit, and ask only what differs.

Invariant: the earlier run is only read. The new one is a run of its own, with its answers old and
new.
"""

from __future__ import annotations

from collections.abc import Callable

from appl.cli import parameters
from appl.cli.arguments import json_or_text
from appl.cli.commands import Options, appl_command, option, switch
from appl.cli.display import display
from appl.cli.overrides import new_trace, pairs, settings_of, with_settings
from appl.cli.run_options import trace_file
from appl.cli.target import UsageError
from appl.cli.terminal import as_json, one_line, out, print_value, say, say_next, to_stderr
from appl.cli.trace import recorded_program
from appl.errors import InvalidOption
from appl.session.process import abandon_threads
from appl.session.rerunning import foreseen, imported_anew, prediction_session, rerun_session
from appl.session.session import Session, settled
from appl.tracing.explaining.rerun_report import RerunReport
from appl.tracing.replaying.predictor import BrokenOff, Predictor
from appl.tracing.replaying.rerunner import Rerunner

_WIDTH = 200


@appl_command(
    "rerun",
    example="appl trace rerun last --anew failed\n"
    "appl trace rerun last --set '*.temperature=0' --dry-run",
)
@parameters.recorded_program
@parameters.another_program
@switch("--edited", help="say nothing about files that were changed")
@option(
    "--pin",
    multiple=True,
    metavar="CALL=TEXT",
    help="answer this call with TEXT; may be repeated",
)
@option(
    "--set",
    "sets",
    multiple=True,
    metavar="CALL.OPTION=VALUE",
    help="ask with another option, or another model; may be repeated",
)
@option(
    "--anew",
    multiple=True,
    metavar="CALL",
    help="ask this call whatever was recorded, or all that 'failed'; may be repeated",
)
@switch("--keep-failures", help="calls that failed then fail again, unasked")
@switch("--dry-run", help="only say which calls would be asked, and their cost")
@trace_file
@with_settings
@parameters.as_json
@parameters.quiet
def command(command_options: Options) -> None:
    """Run an edited program again, and ask only what differs.

    A call with the same content as a recorded one gets the recorded answer: first of its place,
    then of its frame, then of the whole run. The others are asked. The run gets a trace of its own.
    CALL is an address as `appl trace show` prints it, or a pattern with * and ?. The word failed
    after --anew stands for failed calls, answers that their type refused, and the calls of items
    that raised (of map and as_completed, and functions started by call); in such items, failed
    tools run again too. The arguments of a script are not recorded; give them after --.
    """
    trace, program = recorded_program.opened(command_options)
    if not command_options.edited and not command_options.json:
        recorded_program.note_changes(trace, trace.path.stem)
    sets = pairs(command_options.sets, "--set", "CALL.OPTION=VALUE")
    options = {
        "pins": pairs(command_options.pin, "--pin", "CALL=TEXT"),
        "sets": {key: json_or_text(text) for key, text in sets.items()},
        "anew": command_options.anew,
        "keep_failures": command_options.keep_failures,
    }
    if command_options.dry_run:
        _predict(
            lambda number: Predictor(trace, rehearsal=number, **options), program, command_options
        )
    else:
        _rerun(Rerunner(trace, **options), program, command_options)
        program.ending.leave()


def _predict(
    predictor: Callable[[int], Predictor],
    program: recorded_program.RecordedProgram,
    options: Options,
) -> None:
    def performed(number: int) -> tuple[Predictor, BaseException | None]:
        attempt = predictor(number)
        error = _performed(attempt, program, options)
        if isinstance(error, InvalidOption) and options.sets:
            raise UsageError(str(error)) from None  # what was to be set, and no guess, is wrong
        if number == 0:
            _check_used(attempt)
        return attempt, error

    with to_stderr(True):
        prediction = foreseen(performed)
    if options.json:
        out(as_json(prediction.as_data()))
    else:
        out("\n".join(one_line(line, _WIDTH) for line in prediction.lines()))
    abandon_threads()


def _performed(
    predictor: Predictor, program: recorded_program.RecordedProgram, options: Options
) -> BaseException | None:
    """Run the program; return what has ended it, as a guess may not suit it."""
    try:
        with imported_anew():
            program.run(lambda: prediction_session(predictor, settings_of(options)))
    except (Exception, BrokenOff) as stopped:
        return stopped
    return None


def _rerun(rerunner: Rerunner, program: recorded_program.RecordedProgram, options: Options) -> None:
    shower = display(quiet=options.quiet or options.json)
    path = new_trace(options)
    report = RerunReport(rerunner)

    def opener() -> Session:
        options.session = rerun_session(
            rerunner,
            settings_of(options),
            entry=program.entry,
            path=path,
            instruments=[shower, report.tally],
            say=shower.tell,
        )
        options.counts = shower.counts
        return options.session

    with shower, to_stderr(options.json), settled(rerunner):
        value = program.run(opener, answered_by="")
    assert options.session is not None
    report.path = options.session.path
    _check_used(rerunner)
    where = str(report.path) if report.path else None
    data = {**report.as_data(), "trace": where, "parent": str(rerunner.trace.path)}
    print_value(options.json, value, data)
    for line in () if options.quiet or options.json else report.lines():
        say(f"appl: {one_line(line, _WIDTH)}")
    if not (options.quiet or options.json):
        say_next(options.session.failures_line())


def _check_used(rerunner: Rerunner) -> None:
    unused = rerunner.unused()
    if unused:
        say(f"appl: no call was {', '.join(unused)}; `appl trace show` lists them")
    if rerunner.nothing_failed():
        say(f"appl: nothing failed in {rerunner.trace.path.stem}, so --anew failed asks nothing")
