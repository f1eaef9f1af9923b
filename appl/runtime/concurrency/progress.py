"""The progress display of ``map``: a bar on a terminal, nothing elsewhere.

Invariant: the terminal library is loaded only when a bar is shown.
"""

from __future__ import annotations

import sys
from typing import Any

from appl.runtime.concurrency.promise import Promise


class Progress:
    """Counts what is done; this one shows nothing."""

    def __enter__(self) -> None: ...

    def __exit__(self, *error: object) -> None: ...

    def step(self, pending: Promise) -> None:
        """One more is done; called on any thread."""


class Bar(Progress):
    """A bar of ``rich`` on stderr, below what the program writes."""

    def __init__(self, name: str, total: int | None) -> None:
        # Only a live display needs these. It is drawn by the terminal's own thread: ``rich`` only
        # says how it looks.
        from rich.console import Console
        from rich.markup import escape
        from rich.progress import Progress

        from appl.base.status_line import terminal

        self._bar: Any = Progress(console=Console(stderr=True), auto_refresh=False)
        self._terminal: Any = terminal
        self._task = self._bar.add_task(escape(name), total=total)

    def shown(self) -> object:
        """The bar as it is now."""
        return self._bar.get_renderable()

    def __enter__(self) -> None:
        self._terminal.show(self)

    def __exit__(self, *error: object) -> None:
        self._terminal.hide(self)

    def step(self, pending: Promise) -> None:
        self._bar.advance(self._task)


def progress_for(name: str, total: int | None, wanted: bool | None) -> Progress:
    """A bar if *wanted*, or by default on a terminal for more than one item, or unknown many."""
    if wanted is None:
        wanted = (total is None or total > 1) and sys.stderr.isatty()
    return Bar(name, total) if wanted else Progress()
