"""The call graph of a prompt function, of a plain one, or of one in a file that is not imported."""

from __future__ import annotations

import ast
import linecache
from collections.abc import Mapping

from appl.compiler.bindings import survey
from appl.compiler.callee import Callees, static_names
from appl.compiler.graph import build
from appl.compiler.hooks import program_of
from appl.compiler.ir import Graph
from appl.compiler.names import FunctionNames, outer_names, ppl_decorator
from appl.compiler.passes import Kind, kind_of
from appl.compiler.refusals import require_function
from appl.compiler.source import FunctionSource, find, parse, peers
from appl.errors import SourceUnavailable, nearest


def graph_of_source(
    function: FunctionSource, outer: Mapping[str, object], kind: str, either_docstring: bool = False
) -> Graph:
    """The call graph of a ``def`` that sees the names *outer*."""
    names = FunctionNames(survey(function.node), outer)
    prompted = [
        peer.node.name for peer in peers(function) if ppl_decorator(peer.node, names) is not None
    ]
    methods, programs = (prompted, ()) if function.owner else ((), prompted)
    return build(function, Callees(names, programs, methods), kind, either_docstring)


def compile_graph(f: object) -> Graph:
    """The call graph of a prompt function, or of a plain function as if it were one."""
    program = program_of(f)
    if program is not None:
        graph: Graph = program.translated.graph
        return graph
    function = require_function(f)
    return graph_of_source(find(function), outer_names(function), kind_of(function))


def graph_of(target: object) -> Graph:
    """The call graph of a function, or of ``"file.py:name"`` without importing the file."""
    if not isinstance(target, str):
        return compile_graph(target)
    file, _, path = target.rpartition(":")
    lines = linecache.getlines(file)
    if not lines:
        raise SourceUnavailable(f"{file or path}: there is no such file, or nothing in it")
    module = parse(file, lines)
    match = next(
        (function for function in module.functions.values() if function.path == path), None
    )
    if match is None:
        paths = [function.path for function in module.functions.values()]
        raise SourceUnavailable(f"no function {path} in {file}{nearest(path, paths)}")
    is_async = isinstance(match.node, ast.AsyncFunctionDef)
    if survey(match.node).yields:
        kind: Kind = "asyncgen" if is_async else "generator"
    else:
        kind = "async" if is_async else "sync"
    return graph_of_source(match, static_names(module), kind)
