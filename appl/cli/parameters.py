"""Options and arguments that several commands share."""

from __future__ import annotations

from appl.cli.commands import argument, option, several, switch

as_json = switch("--json", help="print one JSON document and no more")
yes = switch("--yes", "-y", help="do it without asking")
trust = switch("--trust", help="also a run that is not your own")
quiet = switch("--quiet", help="show no progress and no totals")
salvage = switch("--salvage", help="show what is before the damage")

TARGET = "file.py:function"
target = argument("target", metavar=TARGET, help="the program; without a function, main")
target_with_arguments = several(target, argument("arguments", nargs=-1, metavar="--name value"))

RUN = "a path, the beginning of a run's name, or last"
"""The meaning of RUN, for help texts."""
LAST = "without it, the last run"
run = argument("run", required=False, default="last", metavar="RUN", help=f"{RUN}; {LAST}")
runs = argument("runs", nargs=-1, required=True, metavar="RUN", help=RUN)
recorded_program = several(
    run,
    argument(
        "script_arguments", nargs=-1, metavar="-- ARGUMENT",
        help="what a script is started with",
    ),
)  # fmt: skip
another_program = option(
    "--program", metavar=TARGET, help="run this instead of the recorded program"
)
