"""The command ``appl``: one table of commands, each imported when it is invoked."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from typing import Any

import click

from appl.base import services
from appl.base.packages import version
from appl.cli import exits
from appl.cli.commands import LazyGroup, Options, appl_command, need_command, usage_lines
from appl.cli.terminal import out, say

__all__ = ["app", "main"]

SECTIONS = {
    "Everyone needs": {
        "init": ("appl.cli.init", "write a first program, its test and its settings"),
        "ask": ("appl.cli.ask:ask", "ask a model one question"),
        "run": ("appl.cli.run", "run a function of a file as a program"),
        "trace": ("appl.cli.trace", "list and show recorded runs, run them again, test, share, …"),
        "models": ("appl.cli.models", "the models that can be named, and what they cost"),
    },
    "Write": {
        "check": ("appl.cli.check", "look for mistakes and lost parallelism"),
        "graph": ("appl.cli.graph", "the call graph of a function"),
        "plan": ("appl.cli.plan", "prompts that share a prefix, and the number of calls"),
        "render": ("appl.cli.render", "the prompts of a function before any call"),
    },
    "Run": {
        "chat": ("appl.cli.ask:chat", "talk with a model in the terminal"),
        "eval": ("appl.cli.evaluation", "score a function on many cases, and compare two"),
        "optimize": ("appl.cli.optimization", "find better texts for the prompts of a function"),
        "ctl": ("appl.cli.ctl", "look at live runs; pause, resume, cancel, set limits"),
        "serve": ("appl.cli.serve", "put functions, the embedded model, or SGLang behind HTTP"),
    },
    "Set up": {
        "config": ("appl.cli.settings", "show each setting and where it comes from"),
        "trust": ("appl.cli.trust", "approve the settings of a folder"),
        "completion": ("appl.cli.completion", "have the shell complete commands and names"),
    },
}


def _print_version(context: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted and not context.resilient_parsing:
        out(f"appl {version()}")
        context.exit()


@appl_command("appl", cls=LazyGroup, sections=SECTIONS, codes=exits.DESCRIPTION)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="print the version and exit",
)
def app(_: Options) -> int | None:
    """Run, record and replay prompt programs."""
    return need_command()


def main(argv: list[str] | None = None) -> int:
    """Run the command ``appl`` and return its exit code."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, ValueError):
            stream.reconfigure(errors="replace")  # type: ignore[union-attr]
    services.is_command = argv is None
    try:
        if (instruction := os.environ.get("_APPL_COMPLETE")) is not None:
            from appl.cli import completion  # only the Tab key of a shell needs it

            return int(completion.complete(app, instruction))
        code = invoked(sys.argv[1:] if argv is None else argv)
    except BrokenPipeError:  # the reader of stdout went away
        with contextlib.suppress(Exception):
            sys.stdout.close()
        return exits.FAILED
    if argv is None:
        # Everything is done, so Ctrl-C ends the process at once. Python would go on with the
        # functions of ``atexit``, and report that one of them was broken off.
        others = [thread for thread in threading.enumerate() if not thread.daemon][1:]
        if not others and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
    return code


def invoked(words: list[str]) -> int:
    """Run the command in *words* and return its exit code."""
    try:
        with app.make_context("appl", list(words)) as context:
            code: Any = app.invoke(context)
    except click.exceptions.Exit as done:
        return done.exit_code
    except click.UsageError as error:
        say("\n".join(usage_lines(error)))
        return exits.USAGE
    return int(code)
