"""``appl trace import``: a trace from somewhere else, to be read and compared.

Invariant: it is checked whole before it is kept, and nothing is started because of it.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from appl.cli.failure import guarded
from appl.cli.terminal import as_json, out, say
from appl.cli.trace.named import need_trace
from appl.cli.trace.several import command_of
from appl.config import load
from appl.tracing.keeping.importing import take_in


def add(commands: Any) -> None:
    """Add the command to those of ``appl trace``."""
    parser = command_of(
        commands,
        "import",
        "take in a trace from somewhere else",
        description="Check a trace from somewhere else and copy it into the folder `imported`, "
        "where it can be shown, compared and exported. What resumes or runs again because of it "
        "asks for --trust.",
    )
    parser.add_argument("files", nargs="+", metavar="FILE")
    parser.add_argument(
        "--trust", action="store_true", help="take it for a run of your own from now on"
    )
    parser.add_argument("--salvage", action="store_true", help="take what is before a damage")
    parser.set_defaults(command=command)


def command(given: argparse.Namespace) -> int:
    """Import the files; the exit code."""
    with guarded(given.json) as failure:
        home = load().home
        for file in given.files:
            need_trace(Path(file))
        made = [
            take_in(Path(file), home, trust=given.trust, salvage=given.salvage)
            for file in given.files
        ]
        if given.json:
            out(as_json({"imported": [str(path) for path in made], "trusted": given.trust}))
        for path in made if not given.json else ():
            say(f"appl: imported as {path.stem}")
    return failure.code
