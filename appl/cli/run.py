"""``appl run``: run a function of a file as a program, record it, and print its value.

Invariant: stdout holds the program's output and its value, or with ``--json`` one JSON document and
nothing else. Everything that ``appl`` itself reports goes to stderr.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from appl.cli.arguments import ProgramCommand, bind, help_text, merged, wants_help
from appl.cli.commands import Options, appl_command
from appl.cli.display import Display, display
from appl.cli.overrides import budget_of, new_trace
from appl.cli.program_call import ProgramEnd, ValuePrinter, call
from appl.cli.run_options import SETTINGS, options, run_options
from appl.cli.target import Target, load, parse
from appl.cli.terminal import out, print_value, say, say_next, to_stderr
from appl.config import load as load_config
from appl.runtime.concurrency.typed_input import replace_input
from appl.session.entry import Entry, changed_files
from appl.session.interrupted_run import broken_off
from appl.session.process import hosted, process_session
from appl.session.session import Session, make_session, settled, shown

if TYPE_CHECKING:
    from appl.tracing.replaying.resumer import Resumer


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
    example="appl run program.py\nappl run --model openai/gpt-5-mini program.py:ask --topic rain",
)
@run_options
def command(command_options: Options) -> None:
    """Run a function of a file as a program, and print what it returns.

    Its parameters are given as --name value; `appl run file.py:function --help` lists them. Options
    may stand before or after the program. After the program, a parameter wins over an option of the
    same name; write the option before the program then.
    """
    plan_options = merged(command_options, command_options.late)
    command_options.json = plan_options.json
    plan = Invocation(parse(command_options.target), list(command_options.arguments), plan_options)
    if wants_help(plan.argv):
        out(help_text(load(plan.target, to_call=True), options(), plan.prog))
    else:
        perform(plan, command_options)


def perform(plan: Invocation, command_options: Options, shower: Display | None = None) -> None:
    """Run the program of *plan*, and print its value; *command_options* stand before it."""
    quiet = plan.given.quiet or plan.given.json
    shower = shower or display(quiet=quiet, answers=plan.given.stream)
    replace_input()
    ending = ProgramEnd()
    with hosted(lambda: _session(plan, shower)):
        with to_stderr(plan.given.json):
            function = load(plan.target, to_call=True)
        values, late = bind(function, plan.argv, options(), plan.prog)
        plan.given = merged(command_options, late)
        command_options.json = plan.given.json
        with shower, to_stderr(plan.given.json):
            current = process_session()
            command_options.session, command_options.counts = current, shower.counts
            speaker = ValuePrinter(None if plan.given.json else shower)
            with settled(current.run.outside.world):
                value = call(current.run, function, values, speaker, ending)
            current.close()
    report(value, current, shower, plan.given)
    ending.leave()


def _session(plan: Invocation, shower: Display) -> Session:
    options = plan.given
    overrides = {name: getattr(options, name) for name in SETTINGS}
    overrides["batch"] = options.batch_within or (True if options.batch else None)
    overrides["trace"] = False if options.no_trace else True if options.trace_file else None
    entry, path = plan.target.entry(plan.argv), new_trace(options)
    overrides |= budget_of(options)
    config = load_config(overrides)
    broken = None
    if config.trace and config.resume and path is None and not options.fresh:
        broken = broken_off(entry, config, shower.tell)
    if broken is not None:
        from appl.tracing.replaying.resumer import Resumer  # most commands begin a run

        changed = changed_files(broken.header)
        if changed:  # it waits, and what it has asked is not asked twice
            names = ", ".join(shown(Path(name)) for name in changed)
            shower.tell(f"appl: changed since then: {names}; what differs is asked anew")
        session = _resumed(Resumer(broken, edited=bool(changed)), overrides, entry, shower)
    else:
        instruments = [shower]
        session = make_session(
            config, entry=entry, instruments=instruments, path=path, say=shower.tell
        )
    leave_batches(session, options)
    return session


def leave_batches(session: Session, options: Options) -> None:
    """Have the run end as waiting when a batch is away for long, unless it is to wait for it."""
    if session.gathering is not None and not options.wait:
        session.gathering.leave()


def _resumed(
    resumer: Resumer, overrides: dict[str, object], entry: Entry, shower: Display
) -> Session:
    from appl.session.resume import resume_session  # most commands begin a run

    session = resume_session(resumer, overrides, entry=entry, instruments=[shower], say=shower.tell)
    path = shown(resumer.trace.path)
    shower.tell(f"appl: going on with {path}, where {there(resumer)}; --fresh starts anew")
    return session


def there(resumer: Resumer) -> str:
    """The number of recorded calls, of all calls of the run."""
    every = len(resumer.trace.calls) + len(resumer.trace.tools)
    return f"{len(resumer.unasked())} of {every} calls are there"


def report(value: object, session: Session, shower: Display, options: Options) -> None:
    """Print the value and the totals of the run."""
    if not options.json and (inspect.isfunction(value) or inspect.ismethod(value)):
        say(f"appl: the program returned the function {value.__name__}; write {value.__name__}()")
    where = str(session.path) if session.path else None
    print_value(options.json, value, {**shower.counts.as_data(), "trace": where})
    if not (options.json or options.quiet) and shower.counts.started:
        say(f"appl: {shower.counts.line()}; {shower.counts.seconds():.1f} s")
        say_next(session.failures_line())
        say_next(session.next_line())
