"""What RUN means on a command line, and how commands take it.

Invariant: only reads.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from appl.config import load
from appl.tracing import resolve


def run_path(name: str) -> Path:
    """The trace that RUN means, in the configured home. Raises ``NotATrace``."""
    return resolve(name, load().home)


def takes_run(parser: argparse.ArgumentParser) -> None:
    """Have a command take RUN, which is the last one unless it is given."""
    parser.add_argument("run", nargs="?", default="last", metavar="RUN")


def takes_program(parser: argparse.ArgumentParser) -> None:
    """Have a command that runs the program of a run take RUN, and the arguments of a script."""
    takes_run(parser)
    parser.add_argument("script_arguments", nargs="*", metavar="-- ARGUMENT")


def takes_another_program(parser: argparse.ArgumentParser) -> None:
    """Add ``--program``, for a program that is to be run in place of the recorded one."""
    parser.add_argument(
        "--program", metavar="file.py:function", help="run this instead of the recorded program"
    )
