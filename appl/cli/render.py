"""``appl render``: the prompts of a program before any call is made.

Invariant: no model is asked and nothing is recorded; what the program prints goes to stderr.
"""

from __future__ import annotations

import argparse
from typing import Any

from appl import session as sessions
from appl.cli import arguments
from appl.cli.failure import guarded
from appl.cli.run import entry_of, merged, to_stderr
from appl.cli.target import HELP, Target, load, parse
from appl.cli.terminal import as_json, out, say, term_safe
from appl.config import KEYS
from appl.config import load as load_config
from appl.runtime.prompts.rendering import Rendering
from appl.runtime.rehearsal import Rehearsal

_SETTINGS = ("model", "backend", "temperature", "max_tokens", "seed")


def options() -> argparse.ArgumentParser:
    """What ``appl render`` takes besides the function's own parameters."""
    parser = argparse.ArgumentParser(add_help=False)
    group = parser.add_argument_group("options of appl render")
    for name in _SETTINGS:
        flag = "--" + name.replace("_", "-")
        group.add_argument(flag, dest=name, metavar="X", help=KEYS[name].help)
    group.add_argument("--json", action="store_true", help="print one JSON document and no more")
    return parser


def add(commands: Any) -> None:
    """Add the command to the parser of ``appl``."""
    parser = commands.add_parser(
        "render",
        help="print the prompts of a function before any call",
        usage="appl render [-h] [options] file.py:function [--name value …] [options]",
        description="Run a function until it needs an answer, and print the exact prompt of every "
        "call that it has come to; ‹/f.0/gen.0› stands where the text of that answer will stand. "
        "No model is asked and nothing is recorded. Parameters are given as for appl run.",
        parents=[options()],
    )
    parser.add_argument("target", metavar="file.py:function", help=HELP)
    words = parser.add_argument("arguments", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    words.required = False
    parser.set_defaults(command=command)


def command(given: argparse.Namespace) -> int:
    """Print the prompts; the exit code."""
    peeked, _ = options().parse_known_args(given.arguments)
    with guarded(given.json or peeked.json) as failure:
        target, prog = parse(given.target), f"appl render {given.target}"
        if {"--help", "-h"} & set(given.arguments):
            arguments.bind(load(target, to_call=True), ["--help"], options(), prog)
        told = merged(given, peeked)
        with to_stderr(True):
            rendering = rendered(target, given.arguments, told, prog)
        out(as_json(rendering.as_data(), indent=2) if told.json else term_safe(str(rendering)))
    return failure.code


def rendered(target: Target, words: list[str], given: argparse.Namespace, prog: str) -> Rendering:
    """The rendering of the function that *target* names, with its parameters from *words*."""
    settings = {name: getattr(given, name) for name in _SETTINGS}
    config = load_config({**settings, "trace": False})
    session = sessions.make_session(config, entry=entry_of(target, words), say=say)
    rehearsal = session.run = Rehearsal(session.run)
    with rehearsal.as_far_as_it_goes(), sessions.hosted(lambda: session):
        function = load(target, to_call=True)
        values, _ = arguments.bind(function, words, options(), prog)
        rehearsal.perform(function, (), values)
    return rehearsal.rendering()
