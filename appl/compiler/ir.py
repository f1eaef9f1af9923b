"""The call graph of a prompt function: its nodes, its regions, and its counts of calls.

Invariant: a ``Graph`` that left this package has passed ``verify``.
"""

from __future__ import annotations

import html
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import NamedTuple

from appl.compiler import graph_formats


@dataclass(frozen=True, slots=True)
class Op:
    """A kind of node; ``future``: its value may come later; ``adds``: it adds to the prompt."""

    name: str
    meaning: str
    future: bool = False
    reads: bool = False  # the prompt as it stands
    adds: bool = False
    needs_input: bool = False


OPS = {
    op.name: op
    for op in (
        Op("param", "a value that the caller passes"),
        Op("text", "constant text is appended to the prompt", adds=True),
        Op("say", "text with values in it, or a value, is appended to the prompt", adds=True),
        Op("gen", "the prompt is sent to a model", future=True, reads=True),
        Op("select", "a model chooses among options", future=True, reads=True),
        Op("call", "a function runs beside the program", future=True, reads=True),
        Op("map", "a function runs for each of many items", future=True, reads=True),
        Op("program", "another prompt function is called", future=True, reads=True, adds=True),
        Op("unknown call", "a function that may ask a model, as far as is known", reads=True),
        Op("prompt", "the prompt becomes a value", reads=True),
        Op("wait", "the program stops until the value is there", needs_input=True),
        Op("yield", "a value is handed to the consumer of the generator"),
        Op("return", "the program ends with a value"),
    )
}

REGION_KINDS = ("body", "loop", "branch", "try", "except", "finally", "with", "function")


@dataclass(frozen=True, slots=True)
class GraphRegion:
    """A part of the source that runs under a condition of its own; region 0 is the whole body.

    ``escapes``: it is a loop that a ``break``, ``return`` or ``raise`` inside may end early.
    """

    id: int
    kind: str
    label: str
    line: int
    parent: int | None
    escapes: bool = False


@dataclass(frozen=True, slots=True)
class Node:
    """One thing that the program does.

    ``inputs`` are the nodes whose values it uses. ``prompt`` are the nodes that were the last to
    add to the prompt that it reads or adds to; several where branches join. Of what is added,
    ``parts`` are the constant texts, with ``None`` for a value between them (empty: not known), and
    ``role`` is who says it. ``end`` are the line and column where the source of it ends.
    ``callee`` is the function that a call starts, as it is written, ``over`` the items of a map,
    ``ctx`` the mode of a prompt function, where it is known.
    """

    id: int
    op: str
    label: str
    line: int
    column: int
    inputs: tuple[int, ...]
    prompt: tuple[int, ...]
    region: int
    parts: tuple[str | None, ...] = ()
    role: str = ""
    end: tuple[int, int] = (0, 0)
    callee: str = ""
    over: str = ""
    ctx: str = ""


class CallBounds(NamedTuple):
    """The least and the most calls of something; ``most`` is ``None`` if nobody knows."""

    least: int
    most: int | None

    @property
    def in_words(self) -> str:
        """The same for reading: ``exactly 6 calls``, ``at least 1 call``, ``1 to 24 calls``."""
        least, most = self
        noun = "call" if least == 1 and most in (1, None) else "calls"
        if most is None:
            return f"at least {least} {noun}"
        return f"exactly {least} {noun}" if least == most else f"{least} to {most} calls"


_UNKNOWN = CallBounds(0, None)


@dataclass(frozen=True, slots=True)
class CallCounts:
    """The calls that an activation makes on its own prompt: each has those before it before it.

    ``after`` are those that come after a call in a line of the function. ``models`` are the models
    that are asked, as they are written.
    """

    total: CallBounds = _UNKNOWN
    after: Mapping[int, CallBounds] = field(default_factory=dict, hash=False)
    models: frozenset[str] = frozenset()

    def remaining(self, calls: int, line: int | None) -> CallBounds:
        """The calls to come after the latest of *calls*, which stands in *line*, if known."""
        least, most = self.after.get(line or 0, _UNKNOWN)
        least = max(least, self.total.least - calls)
        if self.total.most is not None:
            rest = max(0, self.total.most - calls)
            most = rest if most is None else min(rest, most)
        return CallBounds(least if most is None else min(least, most), most)


@dataclass(frozen=True, slots=True)
class Graph:
    """The call graph of a prompt function, made before it runs.

    ``rebound`` are the parameters that the body binds again. ``calls`` are the calls that an
    activation makes on its own prompt. ``texts`` are the present texts of names that it sees from
    outside and puts into the prompt, by the code that stands there.
    """

    name: str
    file: str
    line: int
    last_line: int
    kind: str
    regions: tuple[GraphRegion, ...]
    nodes: tuple[Node, ...]
    rebound: tuple[str, ...] = ()
    calls: CallCounts = field(default_factory=CallCounts)
    texts: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)

    def text(self) -> str:
        """The graph for reading in a terminal."""
        return graph_formats.text(self)

    def mermaid(self) -> str:
        """The graph as a Mermaid flowchart."""
        return graph_formats.mermaid(self)

    def dot(self) -> str:
        """The graph in the language of Graphviz."""
        return graph_formats.dot(self)

    def as_dict(self) -> dict[str, object]:
        """The graph as plain dictionaries and lists, for JSON."""
        return {name: value for name, value in asdict(self).items() if name != "texts"}

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        """The notebook's display: a drawing where it can draw Mermaid, else the text."""
        plain = self.text()
        return {
            "text/plain": plain,
            "text/html": f"<pre>{html.escape(plain)}</pre>",
            "text/markdown": f"```mermaid\n{self.mermaid()}```\n",
        }

    def within(self, region: int) -> tuple[GraphRegion, ...]:
        """The regions around, from the whole body to *region* itself."""
        path: list[GraphRegion] = []
        at: int | None = region
        while at is not None:
            path.insert(0, self.regions[at])
            at = self.regions[at].parent
        return tuple(path)


class InvalidGraph(AssertionError):
    """A pass of the compiler has a bug; it is never the user's fault."""


def verify(graph: Graph) -> Graph:
    """*graph* itself, if it keeps the rules of this module."""
    for index, region in enumerate(graph.regions):
        _require(region.id == index, f"region {region.id} at place {index}")
        _require(region.kind in REGION_KINDS, f"region of unknown kind {region.kind}")
        _require((region.parent is None) == (index == 0), f"region {index} hangs in the air")
        _require(region.parent is None or region.parent < index, f"region {index} precedes")
    for index, node in enumerate(graph.nodes):
        _require(node.id == index, f"node {node.id} at place {index}")
        name = f"%{node.id} {node.op}"
        _require(node.op in OPS, f"{name}: unknown op")
        op = OPS[node.op]
        _require(graph.line <= node.line <= graph.last_line, f"{name}: line {node.line} is outside")
        _require(0 <= node.region < len(graph.regions), f"{name}: no region {node.region}")
        _require(bool(node.inputs) or not op.needs_input, f"{name}: needs an input")
        on_prompt = op.reads or op.adds
        _require(on_prompt or not node.prompt, f"{name}: has nothing to do with the prompt")
        _require(op.name != "param" or node.region == 0, f"{name}: belongs to the whole body")
        around = {region.id for region in graph.within(node.region)}
        for other in node.inputs + node.prompt:
            _require(0 <= other < len(graph.nodes), f"{name}: no node {other}")
            if other >= node.id:  # its value comes back in a loop, or in a function called again
                shared = (r for r in graph.within(graph.nodes[other].region) if r.id in around)
                comes_back = any(region.kind in ("loop", "function") for region in shared)
                _require(comes_back, f"{name}: %{other} comes later")
        for other in node.prompt:
            _require(OPS[graph.nodes[other].op].adds, f"{name}: %{other} adds nothing to a prompt")
    return graph


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise InvalidGraph(message)
