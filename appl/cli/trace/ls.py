"""``appl trace ls``: which runs are recorded.

Invariant: only reads; what cannot be read is listed with its error.
"""

from __future__ import annotations

import argparse
from typing import Any

from appl.cli.failure import guarded
from appl.cli.terminal import as_json, columns, one_line, out, say
from appl.config import load
from appl.tracing import RunSummary, list_runs

_WIDTH = 60


def add(commands: Any) -> None:
    """Add the command to those of ``appl trace``."""
    parser = commands.add_parser("ls", help="list the recorded runs, newest first")
    parser.add_argument(
        "-n", type=int, default=20, metavar="N", help="at most N runs (default: 20)"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document and no more")
    parser.set_defaults(command=command)


def command(given: argparse.Namespace) -> int:
    """List the runs; the exit code."""
    with guarded(given.json) as failure:
        home = load().home
        runs = list_runs(home, max(given.n, 0))
        if given.json:
            out(as_json([run.as_data() for run in runs], indent=2))
        elif not runs:
            say(f"appl: no run is recorded in {home / 'runs'}")
        else:
            head = ("RUN", "STATE", "CALLS", "TOKENS", "SECONDS")
            out("\n".join(columns([head, *(_row(run) for run in runs)])))
    return failure.code


def _row(run: RunSummary) -> tuple[str, ...]:
    if run.error:
        return run.name, "unreadable", "-", "-", one_line(run.error, _WIDTH)
    totals = run.totals
    state = run.reason if run.state == "finished" else run.state
    calls = str(totals.get("calls", "-"))
    return run.name, state or "-", calls, _tokens(totals), f"{run.seconds:.1f}"


def _tokens(totals: dict[str, Any]) -> str:
    tokens = totals.get("tokens")
    if not isinstance(tokens, dict):
        return "-"
    return f"{tokens.get('prompt_tokens', 0)}+{tokens.get('completion_tokens', 0)}"
