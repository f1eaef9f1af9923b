"""The traces that RUN names on a command line.

Invariant: traces are only read.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from appl.config import load
from appl.errors import NotATrace
from appl.tracing import resolve
from appl.tracing.format.block import MAGIC
from appl.tracing.format.store import regular_file

_BEGINS = MAGIC[:-1]
"""The first bytes of every version of the format."""


def run_path(name: str) -> Path:
    """The trace that RUN names, in the configured home. Raises ``NotATrace``."""
    path = resolve(name, load().home)
    need_trace(path)
    return path


def run_paths(names: Iterable[str]) -> list[Path]:
    """The traces with these names, each once. Raises ``NotATrace``."""
    home = load().home
    return list(dict.fromkeys(resolve(name, home) for name in names))


def need_trace(path: Path) -> None:
    """Raise ``NotATrace``, with the file's name, unless it begins like a trace or a tape."""
    with regular_file(path) as file:
        begins = file.read(len(_BEGINS))
    if begins[:1] != b"{" and not _BEGINS.startswith(begins):
        raise NotATrace(f"{path} is not a trace: it does not begin with {MAGIC.decode()}")
