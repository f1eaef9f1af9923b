"""The compiler: from a decorated ``def`` to a call graph and to code over the runtime's hooks."""

from appl.compiler.ir import CallCounts, Graph, Hooks, is_compiled
from appl.compiler.names import program_of
from appl.compiler.passes import (
    CompilerOptions,
    Translated,
    compile_graph,
    graph_of,
    rebuild,
    translate,
)
from appl.compiler.refusals import require_function

__all__ = [
    "CallCounts",
    "CompilerOptions",
    "Graph",
    "Hooks",
    "Translated",
    "compile_graph",
    "graph_of",
    "is_compiled",
    "program_of",
    "rebuild",
    "require_function",
    "translate",
]
