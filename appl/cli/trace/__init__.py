"""``appl trace``: all commands for recorded runs, one module per command."""

from __future__ import annotations

from appl.cli.commands import LazyGroup, Options, appl_command, need_command

_PACKAGE = "appl.cli.trace"
SECTIONS = {
    "Everyone needs": {
        "ls": (f"{_PACKAGE}.ls", "list the recorded runs, newest first"),
        "show": (f"{_PACKAGE}.show", "show a run, or one of its calls with its prompt"),
        "view": (f"{_PACKAGE}.view", "show a run in the browser, or write it as one HTML file"),
        "resume": (f"{_PACKAGE}.resume", "go on with a run that was broken off"),
        "answer": (f"{_PACKAGE}.answer", "answer the questions of a run that waits for people"),
        "export-test": (f"{_PACKAGE}.export_test", "write a test that a recorded run answers"),
    },
    "Run again": {
        "replay": (f"{_PACKAGE}.replay", "run the program again, answered from its trace"),
        "rerun": (f"{_PACKAGE}.rerun", "run an edited program, and ask only what differs"),
    },
    "Explain": {
        "cost": (f"{_PACKAGE}.cost", "what a run cost, by model, function or source line"),
        "critical": (f"{_PACKAGE}.critical", "the critical path, and waits without a need"),
        "batches": (f"{_PACKAGE}.batches", "the batches of a run at their providers; cancel them"),
        "stuck": (f"{_PACKAGE}.stuck", "what a running program waits for"),
    },
    "Compare": {
        "diff": (f"{_PACKAGE}.diff", "what differs between two runs, first causes first"),
    },
    "Test": {
        "fuzz": (f"{_PACKAGE}.fuzz", "try other orders of answers, and faults, for nothing"),
    },
    "Share": {
        "export": (f"{_PACKAGE}.export", "write or send a run in the form of other tools"),
        "share": (f"{_PACKAGE}.share", "write one redacted file for a stranger"),
        "import": (f"{_PACKAGE}.importing", "take in a trace from somewhere else"),
    },
    "Keep": {
        "keep": (f"{_PACKAGE}.gc:keep", "mark runs so that gc leaves them"),
        "gc": (f"{_PACKAGE}.gc:gc", "remove runs beyond an age, a number or a size"),
        "rm": (f"{_PACKAGE}.rm:rm", "remove runs"),
        "verify": (f"{_PACKAGE}.verify:verify_command", "check every block, reference and digest"),
        "salvage": (f"{_PACKAGE}.verify:salvage_command", "copy what is before the damage"),
    },
}
REMOVED = {
    "bisect": "write `git bisect run appl trace replay RUN`, which fails where a prompt differs",
    "shred": "`appl trace rm` removes a run with its key; without it the answers of a private run "
    "(`--privacy redacted`) are lost wherever copies lie",
    "what-if": "`appl trace critical` shows what the time of a run depends on",
}
"""Commands of earlier versions, with what to do instead."""


@appl_command(
    "trace", cls=LazyGroup, sections=SECTIONS, removed=REMOVED, example="appl trace show last"
)
def command(_: Options) -> int | None:
    """Look at recorded runs, run them again, explain, compare, test, share and keep them.

    RUN is a path, the beginning of a run's name, or last; most commands take the last run by
    default.
    """
    return need_command()
