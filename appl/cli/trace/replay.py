"""``appl trace replay``: run the recorded program again, answered from its trace.

Invariant: no backend is made, so nothing can be asked live. A difference is an error that says what
differs and where.
"""

from __future__ import annotations

from appl.cli import parameters
from appl.cli.commands import Options, appl_command
from appl.cli.display import PlainDisplay
from appl.cli.terminal import counted, print_value, say, to_stderr
from appl.cli.trace.recorded_program import note_changes, opened
from appl.session.replaying import checked, replay_session
from appl.tracing import Replayer, Trace


@appl_command("replay", example="appl trace replay last")
@parameters.recorded_program
@parameters.another_program
@parameters.as_json
def command(options: Options) -> None:
    """Run a recorded program again, answered from its trace.

    Every call is answered from the trace; a call that the trace does not answer is an error. The
    arguments of a script are not recorded; give them after --.
    """
    trace, program = opened(options)
    note_changes(trace, "the recording")
    shower = PlainDisplay(quiet=True)
    replayer = Replayer(trace)
    with to_stderr(options.json), checked(replayer):
        value = program.run(lambda: replay_session(replayer, instruments=[shower]))
    _report(value, trace, shower, options.json)
    program.ending.leave()


def _report(value: object, trace: Trace, shower: PlainDisplay, as_document: bool) -> None:
    replayed = shower.counts.started
    run = {"replayed": replayed, "live": 0, "tokens_paid": 0, "trace": str(trace.path)}
    print_value(as_document, value, run)
    if not as_document:
        say(f"appl: replayed {counted(replayed, 'call')}, 0 live, 0 tokens paid")
