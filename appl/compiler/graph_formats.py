"""Formats of a graph: text, a Mermaid flowchart, the language of Graphviz.

Invariant: all three show every node and every edge, data edges solid and prompt edges dashed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from appl.compiler.ir import Graph, GraphRegion, Node

_SHAPES = {"gen": ("([", "])"), "select": ("([", "])"), "wait": ("{{", "}}"), "param": ("[/", "/]")}


def text(graph: Graph) -> str:
    """One node a line, indented by region: ``%id op label (inputs) after prompt``."""
    parameters = [node.label for node in graph.nodes if node.op == "param"]
    head = f"{graph.kind} {graph.name}({', '.join(parameters)})"
    calls = f", {graph.calls.total.in_words} on its own prompt" * bool(graph.calls.models)
    lines = [f"{head}{calls}  {graph.file}:{graph.line}"]

    def enter(region: GraphRegion, depth: int) -> None:
        lines.append("  " * depth + f"{region.kind} {region.label}".rstrip() + f"  :{region.line}")

    def show(node: Node, depth: int) -> None:
        lines.append("  " * (depth + 1) + _line(node))

    _walk(graph, enter, show, lambda _: None)
    return "\n".join(lines) + "\n"


def mermaid(graph: Graph) -> str:
    """A flowchart that Mermaid draws, regions as subgraphs."""
    lines = ["flowchart TD"]

    def enter(region: GraphRegion, depth: int) -> None:
        label = _mermaid_text(f"{region.kind} {region.label}".rstrip())
        lines.append("  " * depth + f'subgraph r{region.id}["{label}"]')

    def show(node: Node, depth: int) -> None:
        opening, closing = _SHAPES.get(node.op, ("[", "]"))
        label = _mermaid_text(f"{node.op} {node.label}".rstrip())
        lines.append("  " * (depth + 1) + f'n{node.id}{opening}"{label}"{closing}')

    _walk(graph, enter, show, lambda depth: lines.append("  " * depth + "end"))
    for node in graph.nodes:
        lines += [f"  n{other} --> n{node.id}" for other in node.inputs]
        lines += [f"  n{other} -.-> n{node.id}" for other in node.prompt]
    return "\n".join(lines) + "\n"


def dot(graph: Graph) -> str:
    """A digraph that Graphviz draws, regions as clusters."""
    lines = [f"digraph {_dot_text(graph.name)} {{", "  node [shape=box];"]

    def enter(region: GraphRegion, depth: int) -> None:
        label = _dot_text(f"{region.kind} {region.label}".rstrip())
        lines.append("  " * depth + f"subgraph cluster_{region.id} {{ label={label};")

    def show(node: Node, depth: int) -> None:
        label = _dot_text(f"{node.op} {node.label}".rstrip())
        lines.append("  " * (depth + 1) + f"n{node.id} [label={label}];")

    _walk(graph, enter, show, lambda depth: lines.append("  " * depth + "}"))
    for node in graph.nodes:
        lines += [f"  n{other} -> n{node.id};" for other in node.inputs]
        lines += [f"  n{other} -> n{node.id} [style=dashed];" for other in node.prompt]
    return "\n".join([*lines, "}"]) + "\n"


def _walk(
    graph: Graph,
    enter: Callable[[GraphRegion, int], None],
    show: Callable[[Node, int], None],
    leave: Callable[[int], None],
) -> None:
    """Calls *show* for the nodes in program order, *enter* and *leave* for the regions between."""
    inside: list[GraphRegion] = [graph.regions[0]]
    for node in graph.nodes:
        around = list(graph.within(node.region))
        common = sum(1 for a, b in zip(inside, around, strict=False) if a is b)
        for depth in range(len(inside) - 1, common - 1, -1):
            leave(depth)
        for depth in range(common, len(around)):
            enter(around[depth], depth)
        show(node, len(around) - 1)
        inside = around
    for depth in range(len(inside) - 1, 0, -1):
        leave(depth)


def _line(node: Node) -> str:
    inputs = f" ({_refs(node.inputs)})" if node.inputs else ""
    prompt = f" after {_refs(node.prompt)}" if node.prompt else ""
    label = f" {node.label}" if node.label else ""
    return f"%{node.id} {node.op}{label}{inputs}{prompt}  :{node.line}"


def _refs(ids: Iterable[int]) -> str:
    return ", ".join(f"%{number}" for number in ids)


def _mermaid_text(label: str) -> str:
    for char, entity in (("&", "#amp;"), ('"', "#quot;"), ("<", "#lt;"), (">", "#gt;")):
        label = label.replace(char, entity)
    return label.replace("`", "#96;").replace("\n", " ")


def _dot_text(label: str) -> str:
    escaped = label.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")
    return f'"{escaped}"'
