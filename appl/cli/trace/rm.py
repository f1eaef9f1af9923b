"""``appl trace rm`` and ``appl trace shred``: recorded runs go, for good.

Invariant: a run that is being written or read stays, and so does every file that is no trace.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from appl.cli.failure import guarded
from appl.cli.terminal import as_json, say
from appl.cli.terminal import out as print_out
from appl.cli.trace.named import RUN
from appl.cli.trace.several import command_of, confirmed, counted, run_paths, with_yes
from appl.config import load
from appl.tracing.format import keys
from appl.tracing.keeping import index, removing


def add(commands: Any) -> None:
    """Add both commands to those of ``appl trace``."""
    rm = command_of(
        commands,
        "rm",
        "remove recorded runs",
        description="Remove recorded runs, and with a private one its key. It is asked first, "
        "unless --yes is given.",
    )
    shred = command_of(
        commands,
        "shred",
        "overwrite recorded runs and their keys, and remove them",
        description="Overwrite recorded runs with random bytes and remove them; the keys of "
        "private ones go first, and with a key the recorded answers. Says what overwriting cannot "
        "promise on this file system.",
    )
    for parser, command in ((rm, _rm), (shred, _shred)):
        parser.add_argument("runs", nargs="+", metavar="RUN", help=RUN)
        with_yes(parser)
        parser.set_defaults(command=command)


def _rm(given: argparse.Namespace) -> int:
    return _each(given, "remove", _removed)


def _shred(given: argparse.Namespace) -> int:
    return _each(given, "shred", _shredded)


def _removed(path: Path) -> list[str]:
    home = load().home
    key = keys.identity(path)
    removing.remove(path)
    if key is not None:
        keys.forget(home, key)
    return []


def _shredded(path: Path) -> list[str]:
    home = load().home
    key = keys.identity(path)
    told = removing.shred(path)
    if key is not None:
        keys.forget(home, key)
    return told


def _each(given: argparse.Namespace, what: str, act: Callable[[Path], list[str]]) -> int:
    done: list[Path] = []
    told: dict[str, None] = {}
    with guarded(given.json) as failure:
        paths = run_paths(given.runs)
        if not confirmed(given, what, paths):
            say("appl: nothing was done")
            return failure.code
        for path in paths:
            told.update(dict.fromkeys(act(path)))
            done.append(path)
        index.rows(load().home)  # which forgets their names too
        if given.json:
            print_out(as_json({"done": [str(path) for path in done], "notes": list(told)}))
    if done and not given.json:
        past = "removed" if what == "remove" else "shredded"
        say(f"appl: {past} {counted(len(done), 'run')}")
        for note in told:
            say(f"  not promised: {note}")
    return failure.code
