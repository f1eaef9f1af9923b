"""The command ``appl``: one parser, one function a command, exit codes that mean something."""

from __future__ import annotations

import argparse
import contextlib
import sys

from appl.cli import check, ctl, graph, plan, render, run, serve, settings, trace
from appl.cli.exits import DESCRIPTION
from appl.cli.failure import interrupted_stream, missing
from appl.cli.terminal import out
from appl.session import version

__all__ = ["main", "parser"]


class _Version(argparse.Action):
    """Looks the version up only when it is asked for."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        out(f"appl {version()}")
        parser.exit(0)


def parser() -> argparse.ArgumentParser:
    """The parser of the whole command line."""
    top = argparse.ArgumentParser(
        prog="appl",
        description="Run, record and replay prompt programs.",
        epilog=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action=_Version, nargs=0, help="print the version and exit")
    top.set_defaults(command=missing(top))
    commands = top.add_subparsers(title="commands", metavar="COMMAND")
    run.add(commands)
    graph.add(commands)
    plan.add(commands)
    render.add(commands)
    check.add(commands)
    trace.add(commands)
    ctl.add(commands)
    serve.add(commands)
    settings.add(commands)
    return top


def main(argv: list[str] | None = None) -> int:
    """The entry point of the command; returns the exit code."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, ValueError):
            stream.reconfigure(errors="replace")  # type: ignore[union-attr]
    given = parser().parse_args(argv)
    try:
        code: int = given.command(given)
    except BrokenPipeError:
        return interrupted_stream()
    return code
