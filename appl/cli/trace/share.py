"""``appl trace share``: one redacted file of a run, for a stranger.

Invariant: texts are in it only where that was asked for.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from appl.cli.failure import guarded
from appl.cli.target import UsageError
from appl.cli.terminal import as_json, out, say
from appl.cli.trace.named import run_path, takes_run
from appl.cli.trace.several import bytes_shown, command_of, counted
from appl.config import load
from appl.session.redacting import function_named
from appl.tracing.keeping.sharing import share


def add(commands: Any) -> None:
    """Add the command to those of ``appl trace``."""
    parser = command_of(
        commands,
        "share",
        "write one redacted file for a stranger",
        description="Write a trace that can be given away: calls, times, tokens, costs, models and "
        "names of functions, without any text, path, host or argument. With --content, prompts and "
        "answers too, without known secrets and what looks like a key.",
    )
    takes_run(parser)
    parser.add_argument("-o", "--out", metavar="FILE", help="default: RUN.shared.trace, here")
    parser.add_argument("--content", action="store_true", help="leave prompts and answers in")
    parser.add_argument(
        "--redact", metavar="module:function", help="what each text passes; default: the setting"
    )
    parser.set_defaults(command=command)


def command(given: argparse.Namespace) -> int:
    """Write the file; the exit code."""
    with guarded(given.json) as failure:
        source = run_path(given.run)
        target = Path(given.out) if given.out else Path(f"{source.stem}.shared.trace")
        if target.exists():
            raise UsageError(f"{target} exists already; give another name as --out FILE")
        named = given.redact or load().redact
        hook = function_named(named) if named and given.content else None
        calls = share(source, target, content=given.content, redact=hook)
        size = target.stat().st_size
        if given.json:
            facts = {"calls": calls, "size": size, "content": given.content}
            out(as_json({"file": str(target), **facts}))
        else:
            texts = "with prompts and answers" if given.content else "without any text"
            say(f"appl: {target}: {counted(calls, 'call')}, {bytes_shown(size)}, {texts}")
    return failure.code
