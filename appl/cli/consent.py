"""The question to the user before a command goes on.

Invariant: without a terminal nothing is asked, and nothing is done without consent.
"""

from __future__ import annotations

import sys

from appl.cli.commands import Options
from appl.cli.target import UsageError
from appl.cli.terminal import say


def require_user(options: Options, what: str) -> None:
    """Raise ``UsageError`` if *what* needs consent and nobody can be asked."""
    if not options.yes and (options.json or not sys.stdin.isatty()):
        raise UsageError(f"there is no terminal to ask whether to {what}; give --yes to do it")


def user_agrees(options: Options, question: str) -> bool:
    """True if the user agrees to *question*; with ``--yes`` nobody is asked."""
    if options.yes:
        return True
    say(f"appl: {question} [y/N] ")
    return sys.stdin.readline().strip().casefold() in ("y", "yes")
