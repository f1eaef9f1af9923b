"""``appl trace import``: a trace from somewhere else, to be read and compared.

Invariant: the whole trace is checked before it is kept, and nothing in it is started.
"""

from __future__ import annotations

from pathlib import Path

from appl.cli import parameters
from appl.cli.commands import Options, appl_command, argument, switch
from appl.cli.terminal import as_json, out, say
from appl.cli.trace.run_names import need_trace
from appl.config import load
from appl.session.ownership import new_owner
from appl.tracing.keeping.run_import import take_in


@appl_command("import", example="appl trace import colleague.trace")
@argument("files", nargs=-1, required=True, metavar="FILE", help="a trace")
@switch("--trust", help="sign it as a run of your own")
@switch("--salvage", help="take what is before the damage")
@parameters.as_json
def command(options: Options) -> None:
    """Import a trace from somewhere else.

    The trace is checked and copied into the folder `imported`, where it can be shown, compared and
    exported. Commands that run a program because of it ask for --trust.
    """
    home, owner = load().home, new_owner() if options.trust else None
    for file in options.files:
        need_trace(Path(file))
    imported = [
        take_in(Path(file), home, owner=owner, salvage=options.salvage) for file in options.files
    ]
    if options.json:
        out(as_json({"imported": [str(path) for path in imported], "trusted": options.trust}))
    for path in imported if not options.json else ():
        say(f"appl: imported as {path.stem}")
