"""``appl trace replay``: run the recorded program again, answered from its trace.

Invariant: no backend is made, so nothing can be asked live. A difference is an error that says what
differs and where.
"""

from __future__ import annotations

from pathlib import Path

from appl.cli import parameters
from appl.cli.commands import Options, appl_command
from appl.cli.display import PlainDisplay
from appl.cli.failure import guarded
from appl.cli.terminal import as_json, out, say, show, to_stderr
from appl.cli.trace.recorded_program import opened
from appl.session.entry import Entry, program_digests
from appl.session.replaying import checked, replay_session
from appl.session.session import shown
from appl.tracing import Replayer, Trace


@appl_command("replay", example="appl trace replay last")
@parameters.recorded_program
@parameters.another_program
@parameters.as_json
def command(given: Options) -> int:
    """Run a recorded program again, answered from its trace.

    Every call is answered from the trace; a call that the trace does not answer is an error. The
    arguments of a script are not recorded; give them after --.
    """
    with guarded(given.json) as failure:
        trace, program = opened(given)
        _note_changes(trace)
        shower = PlainDisplay(quiet=True)
        replayer = Replayer(trace)
        with to_stderr(given.json), checked(replayer):
            value = program.run(lambda: replay_session(replayer, instruments=[shower]))
        _report(value, trace, shower, given.json)
    return failure.code


def _note_changes(trace: Trace) -> None:
    """Report files of the program that changed, which is no error by itself."""
    recorded = trace.header.get("programs")
    entry = trace.header.get("entry")
    file = entry.get("file") if isinstance(entry, dict) else None
    if not isinstance(recorded, dict) or not isinstance(file, str):
        return
    now = program_digests(Entry("cli", file))
    changed = [name for name, digest in recorded.items() if now.get(name, digest) != digest]
    if changed:
        names = ", ".join(shown(Path(name)) for name in changed)
        say(f"appl: changed since the recording: {names}")


def _report(value: object, trace: Trace, shower: PlainDisplay, as_document: bool) -> None:
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
