"""Services that are built on the runtime, and that the runtime or a session uses.

Invariant: this imports nothing. ``appl`` says where each service is; its first use loads it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Protocol


class Sessions(Protocol):
    """Opens runs with the settings of the user."""

    def process_run(self) -> object:
        """The run of the process, opened when it is first asked for."""

    def hosted_run(self) -> object | None:
        """The run that everything in the process belongs to, if a command or test hosts one."""

    def open_run(self) -> object | None:
        """The run of the process, if it is open."""

    def linked(
        self, outer: Any, path: Path | None, redact: Any, overrides: dict[str, object]
    ) -> object:
        """A session of its own inside of the run *outer*, as a context manager."""

    def record(self, *, own: bool = False, **overrides: object) -> Any:
        """A session around a program, as a context manager; also for ``async with``.

        With *own* it is no part of a run around it. *overrides* are settings.
        """


class Engines(Protocol):
    """Works on the items of a map in other processes."""

    def engine_of(self, engine: object) -> object:
        """The engine that ``map(engine=…)`` means. Raises ``InvalidOption``."""

    def mapped(
        self,
        f: Callable[..., object],
        items: Iterable[tuple[object, ...]],
        size: int | None,
        engine: object,
        *,
        concurrency: int | None,
        collect: bool,
        progress: bool | None,
    ) -> object:
        """The results of *f* for all *items*."""


is_command = False
"""True if the process is that of a command, and runs no program but that of the command."""

sessions: Callable[[], Sessions]
"""Where runs are opened."""

engines: Callable[[], Engines]
"""Where maps in other processes are made."""

conversations: Callable[[], Any]
"""Where conversations are kept, as ``appl.conversations``."""

answer_file: Callable[[Path], object]
"""Opens a file in which the answers of equal calls are kept."""

answer_printer: Callable[[], Any]
"""Makes an instrument that prints answers on stderr while they are generated."""

waits: Callable[[], Any]
"""The module of what runs wait for outside of their processes."""
