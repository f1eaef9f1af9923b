"""``appl trace rm`` and ``appl trace shred``: remove recorded runs for good.

Invariant: a run that is being written or read stays, and so does every file that is no trace.
"""

from __future__ import annotations

from pathlib import Path

from appl.cli import parameters
from appl.cli.commands import Options, appl_command
from appl.cli.consent import require_user, user_agrees
from appl.cli.terminal import as_json, counted, out, say, term_safe
from appl.cli.trace.run_names import run_paths
from appl.config import load
from appl.tracing.keeping import index, side_files


@appl_command("rm", example="appl trace rm 20260131T1200")
@parameters.runs
@parameters.yes
@parameters.as_json
def rm(given: Options) -> None:
    """Remove recorded runs.

    The key of a private run is removed with it. You are asked first, unless --yes is given.
    """
    _remove_all(given, "remove", "removed")


@appl_command("shred", example="appl trace shred last --yes")
@parameters.runs
@parameters.yes
@parameters.as_json
def shred(given: Options) -> None:
    """Overwrite recorded runs and their keys, and remove them.

    The keys of private runs go first, and with a key the recorded answers. Reports what overwriting
    cannot promise on this file system.
    """
    _remove_all(given, "shred", "shredded")


def _confirmed(given: Options, what: str, paths: list[Path]) -> bool:
    """True if the user wants *what* done to *paths*, which are listed first.

    Raises ``UsageError`` if nobody can be asked.
    """
    require_user(given, what)
    for path in paths if not given.yes else ():
        say(f"  {term_safe(path.name)}")
    return user_agrees(given, f"{what} {counted(len(paths), 'run')}?")


def _remove_all(given: Options, what: str, past: str) -> None:
    home, done = load().home, list[Path]()
    notes: dict[str, None] = {}
    paths = run_paths(given.runs)
    if not _confirmed(given, what, paths):
        say("appl: nothing was done")
        return
    try:
        for path in paths:
            found = side_files.remove(path, home, overwrite=what == "shred")
            notes.update(dict.fromkeys(found))
            done.append(path)
    finally:
        if done and not given.json:
            say(f"appl: {past} {counted(len(done), 'run')}")
            for note in notes:
                say(f"  not promised: {note}")
    index.rows(home)  # which forgets their names too
    if given.json:
        out(as_json({"done": [str(path) for path in done], "notes": list(notes)}))
