"""``appl graph``: the call graph of a prompt function, before it runs."""

from __future__ import annotations

from appl.cli import parameters
from appl.cli.commands import Options, WordChoice, appl_command, option, switch
from appl.cli.failure import guarded
from appl.cli.target import Target, UsageError, load, parse
from appl.cli.terminal import as_json, out, term_safe
from appl.compiler.ir import Graph

FORMATS = ("text", "mermaid", "dot", "json")


@appl_command("graph", example="appl graph program.py:main --format mermaid")
@parameters.target
@option("--format", type=WordChoice(FORMATS), default="text", help="the form of the output")
@switch("--json", help="the same as --format json")
def command(given: Options) -> int:
    """Print the call graph of a function.

    Prints what a @ppl function does: parameters, prompt text, generations, calls, waits and
    returns, each with its source line. The function is not run.
    """
    with guarded(given.json) as failure:
        graph = graph_of(parse(given.target))
        form = "json" if given.json else given.format
        if form == "json":
            out(as_json(graph.as_dict(), indent=2))
        else:
            out(term_safe(getattr(graph, form)()).rstrip("\n"))
    return failure.code


def graph_of(target: Target) -> Graph:
    """The graph of the function that *target* names; imports its module."""
    program = getattr(load(target), "__appl__", None)
    if program is None:
        raise UsageError(f"{target.function} is not a @ppl function, so it has no graph")
    graph: Graph = program.translated.graph
    return graph
