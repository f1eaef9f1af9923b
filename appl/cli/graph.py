"""``appl graph``: the call graph of a prompt function, before it runs."""

from __future__ import annotations

from appl.cli import parameters
from appl.cli.commands import Options, WordChoice, appl_command, option, switch
from appl.cli.target import Target, UsageError, load, parse
from appl.cli.terminal import print_found
from appl.compiler.ir import Graph

FORMATS = ("text", "mermaid", "dot", "json")


@appl_command("graph", example="appl graph program.py:main --format mermaid")
@parameters.target
@option("--format", type=WordChoice(FORMATS), default="text", help="the form of the output")
@switch("--json", help="the same as --format json")
def command(options: Options) -> None:
    """Print the call graph of a function.

    Prints what a @ppl function does: parameters, prompt text, generations, calls, waits and
    returns, each with its source line. The function is not run.
    """
    graph = graph_of(parse(options.target))
    form = "json" if options.json else options.format
    lines = [] if form == "json" else [getattr(graph, form)().rstrip("\n")]
    print_found(form == "json", graph.as_dict(), lines)


def graph_of(target: Target) -> Graph:
    """The graph of the function that *target* names; imports its module."""
    program = getattr(load(target), "__appl__", None)
    if program is None:
        raise UsageError(f"{target.function} is not a @ppl function, so it has no graph")
    graph: Graph = program.translated.graph
    return graph
