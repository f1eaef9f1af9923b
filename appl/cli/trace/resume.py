"""``appl trace resume``: continue a run that was broken off.

Invariant: recorded answers are not asked for again; new ones are added to the same trace.
"""

from __future__ import annotations

from appl.cli import parameters
from appl.cli.commands import Options, appl_command, option, switch
from appl.cli.display import display
from appl.cli.overrides import pairs, settings_of, with_settings
from appl.cli.run import leave_batches, there
from appl.cli.run_options import wait
from appl.cli.terminal import print_value, say, to_stderr
from appl.cli.trace import recorded_program
from appl.session.resume import resume_session
from appl.session.session import Session, settled, shown
from appl.tracing.replaying.resumer import Resumer
from appl.tracing.replaying.tally import Tally


@appl_command("resume", example="appl trace resume last --budget cost=2")
@parameters.recorded_program
@switch("--edited", help="the program was changed: ask what differs")
@option(
    "--rerun",
    multiple=True,
    metavar="CALL",
    help="run this tool call, or send this batch, again, which is in doubt; may be repeated",
)
@option(
    "--assume",
    multiple=True,
    metavar="CALL=TEXT",
    help="take TEXT for the result of a tool call, or the id of a batch, in doubt; may be repeated",
)
@switch("--due", help="go on with every run that waits for something that has come, and no other")
@with_settings
@wait
@parameters.as_json
@parameters.quiet
def command(options: Options) -> int | None:
    """Continue a run that was broken off, or that waits.

    The program runs again, answered from its trace as far as that goes; then the rest is asked, and
    recorded in the same trace. This is for runs that crashed, were interrupted, or stopped at a
    budget or an outage. The settings are the recorded ones; keys, limits and budgets are the
    present ones. The arguments of a script are not recorded; give them after --.
    With --due no RUN is named: each run whose time or answer has come goes on in a process of its
    own, for a timer such as cron.
    """
    if options.due:
        from appl.cli.trace import due  # one in a hundred resumes needs it

        return due.resume_due(options)
    overrides = settings_of(options)
    trace, program = recorded_program.opened(options)
    assume = pairs(options.assume, "--assume", "CALL=TEXT")
    resumer = Resumer(trace, edited=options.edited, rerun=options.rerun, assume=assume)
    shower = display(quiet=options.quiet or options.json)

    def opener() -> Session:
        options.session = resume_session(resumer, overrides, instruments=[shower], say=shower.tell)
        options.counts = shower.counts
        leave_batches(options.session, options)
        shower.tell(f"appl: going on with {shown(resumer.trace.path)}: {there(resumer)}")
        return options.session

    with shower, to_stderr(options.json), settled(resumer):
        value = program.run(opener, answered_by="")
    assert options.session is not None and options.session.tally is not None
    _report(value, resumer, options.session.tally, options)
    program.ending.leave()
    return None


def _report(value: object, resumer: Resumer, tally: Tally, options: Options) -> None:
    unasked = [call.address for call in resumer.unasked()]
    data = {**tally.as_data(), "unasked": unasked, "trace": str(resumer.trace.path)}
    print_value(options.json, value, data)
    if options.quiet or options.json:
        return
    say(f"appl: {tally.line()}")
    if unasked:
        some = ", ".join(unasked[:3]) + (", …" if len(unasked) > 3 else "")
        say(f"appl: recorded, and not asked for any more: {len(unasked)} calls ({some})")
