"""``appl graph``: what a prompt function does, before it runs."""

from __future__ import annotations

import argparse
from typing import Any

from appl.cli.failure import guarded
from appl.cli.target import HELP, Target, UsageError, load, parse
from appl.cli.terminal import as_json, out, term_safe
from appl.compiler.ir import Graph

FORMATS = ("text", "mermaid", "dot", "json")


def add(commands: Any) -> None:
    """Add the command to the parser of ``appl``."""
    parser = commands.add_parser(
        "graph",
        help="print the call graph of a function",
        description="Print what a @ppl function does: parameters, prompt text, generations, "
        "calls, waits and returns, each with its source line. The function is not run.",
    )
    parser.add_argument("target", metavar="file.py:function", help=HELP)
    parser.add_argument("--format", choices=FORMATS, default="text", help="default: text")
    parser.add_argument("--json", action="store_true", help="the same as --format json")
    parser.set_defaults(command=command)


def command(given: argparse.Namespace) -> int:
    """Print the graph; the exit code."""
    with guarded(given.json) as failure:
        graph = graph_of(parse(given.target))
        form = "json" if given.json else given.format
        if form == "json":
            out(as_json(graph.as_dict(), indent=2))
        else:
            out(term_safe(getattr(graph, form)()).rstrip("\n"))
    return failure.code


def graph_of(target: Target) -> Graph:
    """The graph of the function that *target* names; its module is imported."""
    program = getattr(load(target), "__appl__", None)
    if program is None:
        raise UsageError(f"{target.function} is not a @ppl function, so it has no graph")
    graph: Graph = program.translated.graph
    return graph
