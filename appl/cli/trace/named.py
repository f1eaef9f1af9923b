"""What RUN means on a command line, and how commands take it.

Invariant: only reads.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from appl.config import load
from appl.errors import NotATrace
from appl.tracing import resolve
from appl.tracing.format.block import MAGIC
from appl.tracing.format.store import regular_file

RUN = "a path, the beginning of a run's name, or last"
"""What RUN means, for the help texts of commands."""

LAST = "without it, the last run"
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


def takes_run(parser: argparse.ArgumentParser) -> None:
    """Have a command take RUN, which is the last one unless it is given."""
    parser.add_argument("run", nargs="?", default="last", metavar="RUN", help=f"{RUN}; {LAST}")


def takes_program(parser: argparse.ArgumentParser) -> None:
    """Have a command that runs the program of a run take RUN, and the arguments of a script."""
    takes_run(parser)
    parser.add_argument(
        "script_arguments", nargs="*", metavar="-- ARGUMENT", help="what a script is started with"
    )


def takes_another_program(parser: argparse.ArgumentParser) -> None:
    """Add ``--program``, for a program that is to be run in place of the recorded one."""
    parser.add_argument(
        "--program", metavar="file.py:function", help="run this instead of the recorded program"
    )
