"""The selection of runs for commands that change them, and the user's consent.

Invariant: nothing is done without consent.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from appl.cli.commands import Options
from appl.cli.consent import require_user, user_agrees
from appl.cli.terminal import counted, say, term_safe
from appl.config import load
from appl.tracing import resolve


def run_paths(names: Iterable[str]) -> list[Path]:
    """The traces with these names, each once. Raises ``NotATrace``."""
    home = load().home
    return list(dict.fromkeys(resolve(name, home) for name in names))


def confirmed(given: Options, what: str, paths: list[Path]) -> bool:
    """True if the user wants *what* done to *paths*, which are listed first.

    Raises ``UsageError`` if nobody can be asked.
    """
    require_user(given, what)
    for path in paths if not given.yes else ():
        say(f"  {term_safe(path.name)}")
    return user_agrees(given, f"{what} {counted(len(paths), 'run')}?")
