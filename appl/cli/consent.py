"""The question whether to go on.

Invariant: without a terminal nothing is asked, and then nothing is done that was not confirmed.
"""

from __future__ import annotations

import sys

from appl.cli.commands import Options
from appl.cli.target import UsageError
from appl.cli.terminal import say


def need_somebody(given: Options, what: str) -> None:
    """Raises ``UsageError`` if nobody can be asked whether to do *what*, and it has to be."""
    if not given.yes and (given.json or not sys.stdin.isatty()):
        raise UsageError(f"nobody can be asked here whether to {what}; give --yes")


def agreed(given: Options, question: str) -> bool:
    """The answer of the user to *question*; with ``--yes`` it is not asked."""
    if given.yes:
        return True
    say(f"appl: {question} [y/N] ")
    return sys.stdin.readline().strip().casefold() in ("y", "yes")
