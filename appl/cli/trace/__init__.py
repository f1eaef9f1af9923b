"""``appl trace``: everything that is done with recorded runs, one module a command."""

from __future__ import annotations

from typing import Any

from appl.cli.failure import missing
from appl.cli.trace import (
    bisect,
    cost,
    critical,
    diff,
    export,
    export_test,
    fuzz,
    gc,
    importing,
    ls,
    replay,
    rerun,
    resume,
    rm,
    share,
    show,
    stuck,
    verify,
    view,
    whatif,
)

_COMMANDS = (
    ls, show, critical, whatif, cost, stuck, view, replay, resume, rerun, export, export_test,
    fuzz, bisect, diff, verify, importing, share, rm, gc,
)  # fmt: skip


def add(commands: Any) -> None:
    """Add the command, with its own commands, to the parser of ``appl``."""
    parser = commands.add_parser(
        "trace",
        help="work with recorded runs: list, show, replay, …",
        description="Work with recorded runs. Where a command takes RUN, that is a path, the "
        "beginning of a run's name, or last; most take the last run when it is left out.",
    )
    parser.set_defaults(command=missing(parser))
    own = parser.add_subparsers(title="commands", metavar="COMMAND")
    for each in _COMMANDS:
        each.add(own)
