"""Options and arguments that several commands share."""

from __future__ import annotations

from collections.abc import Callable

from appl.cli.commands import SCRIPT_ARGUMENTS, argument, combined, option, switch


def late(name: str) -> Callable[..., object]:
    """The completion *name*, whose module is imported when a shell asks."""

    def complete(*arguments: object) -> object:
        from appl.cli import words

        return getattr(words, name)(*arguments)

    return complete


as_json = switch("--json", help="print one JSON document and no more")
yes = switch("--yes", "-y", help="do it without asking")
quiet = switch("--quiet", help="show no progress and no totals")
salvage = switch("--salvage", help="show what is before the damage")

TARGET = "file.py:function"
target = argument(
    "target",
    metavar=TARGET,
    help="the program; without a function, main",
    shell_complete=late("targets"),
)
target_with_arguments = combined(target, argument("arguments", nargs=-1, metavar="--name value"))

RUN = "a path, the beginning of a run's name, or last"
"""The meaning of RUN, for help texts."""
LAST = "without it, the last run"
RUNS = late("runs")
"""The completion of RUN."""
run = argument(
    "run",
    required=False,
    default="last",
    metavar="RUN",
    help=f"{RUN}; {LAST}",
    shell_complete=RUNS,
)
runs = argument("runs", nargs=-1, required=True, metavar="RUN", help=RUN, shell_complete=RUNS)
recorded_program = combined(
    switch("--trust", help="use it although it is not one of your own runs"),
    run,
    argument(
        SCRIPT_ARGUMENTS,
        nargs=-1,
        metavar="-- ARGUMENT",
        help="what a script is started with",
    ),
)
another_program = option(
    "--program", metavar=TARGET, help="run this instead of the recorded program"
)
