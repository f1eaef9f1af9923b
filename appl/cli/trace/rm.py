"""``appl trace rm``: removes recorded runs.

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
def rm(options: Options) -> None:
    """Remove recorded runs.

    The key of a private run is removed with it. You are asked first, unless --yes is given.
    """
    home, done = load().home, list[Path]()
    paths = run_paths(options.runs)
    require_user(options, "remove")
    for path in paths if not options.yes else ():
        say(f"  {term_safe(path.name)}")
    if not user_agrees(options, f"remove {counted(len(paths), 'run')}?"):
        say("appl: nothing was done")
        return
    try:
        for path in paths:
            side_files.remove(path, home)
            done.append(path)
    finally:
        if done and not options.json:
            say(f"appl: removed {counted(len(done), 'run')}")
    index.rows(home)  # which forgets their names too
    if options.json:
        out(as_json({"done": [str(path) for path in done]}))
