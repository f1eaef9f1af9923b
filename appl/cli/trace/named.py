"""The trace that a RUN on a command line means.

Invariant: only reads.
"""

from __future__ import annotations

from pathlib import Path

from appl.config import load
from appl.errors import NotATrace
from appl.tracing import resolve
from appl.tracing.format.block import MAGIC
from appl.tracing.format.store import regular_file

_BEGINS = MAGIC[:-1]
"""Of every version of the format."""


def run_path(name: str) -> Path:
    """The trace that RUN means, in the configured home. Raises ``NotATrace``."""
    path = resolve(name, load().home)
    need_trace(path)
    return path


def need_trace(path: Path) -> None:
    """Raises ``NotATrace``, with its name, for a file that begins like no trace and no tape."""
    with regular_file(path) as file:
        begins = file.read(len(_BEGINS))
    if begins[:1] != b"{" and not _BEGINS.startswith(begins):
        raise NotATrace(f"{path} is not a trace: it does not begin with {MAGIC.decode()}")
