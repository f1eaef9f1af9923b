"""The prefix plan: which call sites share which beginning of their prompts, and what that saves.

The prompts of all call sites form a prefix tree (as the radix tree of SGLang, arXiv 2312.07104,
section 3, does for prompts that exist already). A part of the tree that many calls go through is
computed once for each of its variants, so sharing saves its size times (calls - variants).

Invariant: nothing is run; a number that the source and the given arguments do not fix is unknown
(``None``), never guessed.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from appl.compiler.ir import OPS, Graph, Node
from appl.compiler.rounds import rounds_over
from appl.compiler.trees import expression_tree

Size = Callable[[str], int]
Find = Callable[[str], "tuple[Graph, str] | None"]
"""The graph and the context mode of the prompt function of that (dotted) name."""

_DEPTH = 12
_SITES = 500


@dataclass(frozen=True, slots=True)
class Factor:
    """The repetitions of a region: ``count`` where it is known; ``key`` tells regions apart."""

    key: tuple[object, ...]
    written: str
    count: int | None


@dataclass(frozen=True, slots=True)
class PromptPiece:
    """A part of a prompt: constant ``text``, or the value of ``label`` (``text`` is ``None``).

    ``loops`` are the repetitions in which it is made; ``key`` is the same for the same piece.
    """

    key: tuple[object, ...]
    label: str
    text: str | None
    role: str
    line: int
    loops: tuple[Factor, ...]


@dataclass(frozen=True, slots=True)
class CallSite:
    """A place in the program where a model is called."""

    path: str
    label: str
    file: str
    line: int
    loops: tuple[Factor, ...]
    pieces: tuple[PromptPiece, ...]
    certain: bool
    grows: bool

    @property
    def calls(self) -> int | None:
        """The number of calls that the site makes (at most, when it is not ``certain``)."""
        return product(self.loops)


@dataclass(slots=True)
class Prefix:
    """A node of the prefix tree: one piece, after those above it."""

    piece: PromptPiece | None
    variants: tuple[Factor, ...]
    sites: list[CallSite] = field(default_factory=list)
    ends: list[CallSite] = field(default_factory=list)
    children: dict[object, Prefix] = field(default_factory=dict)

    def calls(self) -> int | None:
        """The number of calls that go through here; ``None`` if it is not known."""
        counts = [site.calls for site in self.sites]
        return None if any(count is None for count in counts) else sum(c or 0 for c in counts)


@dataclass(frozen=True, slots=True)
class PrefixPlan:
    """The call sites of a program and the tree of their prompts' prefixes."""

    graph: Graph
    sites: tuple[CallSite, ...]
    root: Prefix
    unknown: tuple[str, ...]
    """Functions that could not be followed and may ask a model, and recursion."""


def product(loops: tuple[Factor, ...]) -> int | None:
    """The number of rounds that *loops* make together; ``None`` if it is not known."""
    counts = [factor.count for factor in loops]
    if any(count is None for count in counts):
        return 0 if 0 in counts else None
    return math.prod(count for count in counts if count is not None)


def make_plan(
    graph: Graph, find: Find, arguments: Mapping[str, object] | None = None
) -> PrefixPlan:
    """The plan of the program *graph*; *find* gives the graphs of the functions it calls.

    *arguments* are values of parameters: they fix the number of rounds of loops over them, and the
    size of what they say.
    """
    walker = _Walker(find)
    names = [node.label for node in graph.nodes if _is_parameter(graph, node.label)]
    values = {name: value for name, value in (arguments or {}).items() if name in names}
    passed = {name: name for name in names}
    walker.enter(_Activation(graph, graph.name, (), (), values, True, passed=passed))
    return PrefixPlan(graph, tuple(walker.sites), _tree(walker.sites), tuple(walker.unknown))


@dataclass(frozen=True, slots=True)
class _Activation:
    """A call path into a function, with its repetitions and the prompt before it.

    ``known`` are values of parameters, ``passed`` those that are parameters of the first function,
    handed on unchanged.
    """

    graph: Graph
    path: str
    loops: tuple[Factor, ...]
    before: tuple[PromptPiece, ...]
    known: Mapping[str, object]
    certain: bool
    grows: bool = False
    inside: tuple[tuple[str, int], ...] = ()
    passed: Mapping[str, str] = field(default_factory=dict)


class _Walker:
    def __init__(self, find: Find) -> None:
        self.find = find
        self.sites: list[CallSite] = []
        self.unknown: dict[str, None] = {}

    def enter(self, here: _Activation) -> None:
        for node in here.graph.nodes:
            if len(self.sites) >= _SITES:
                self.unknown[f"more than {_SITES} call sites"] = None
                return
            if node.op in ("gen", "select"):
                pieces, grows = self._prompt(here, node)
                loops, certain = self._loops(here, node)
                self.sites.append(
                    CallSite(
                        here.path,
                        node.label,
                        here.graph.file,
                        node.line,
                        loops,
                        pieces,
                        certain and here.certain,
                        grows or here.grows,
                    )
                )
            elif node.op == "unknown call":
                self.unknown[f"{node.callee} (line {node.line})"] = None
            elif node.callee and OPS[node.op].future:
                self._call(here, node)

    def _call(self, here: _Activation, node: Node) -> None:
        callee = self.find(node.callee)
        if callee is None:
            if node.op != "call":  # a plain function beside the program asks no model
                self.unknown[f"{node.callee} (line {node.line})"] = None
            return
        graph, ctx = callee
        where = f"{graph.file}:{graph.line}"
        around = {f"{here.graph.file}:{here.graph.line}", *(name for name, _ in here.inside)}
        if where in around or len(here.inside) >= _DEPTH:
            self.unknown[f"{node.callee} (line {node.line}) calls itself"] = None
            return
        loops, certain = self._loops(here, node)
        if node.over:
            loops += (_rounds((here.inside, node.id, "map"), node.over, here.known),)
        before, grows = self._prompt(here, node) if ctx != "new" else ((), False)
        inside = (*here.inside, (f"{here.graph.file}:{here.graph.line}", node.id))
        values, passed = _handed_on(here, node, graph)
        self.enter(
            _Activation(
                graph,
                f"{here.path}/{graph.name}",
                loops,
                before,
                values,
                certain and here.certain,
                grows or here.grows,
                inside,
                passed,
            )
        )

    def _loops(self, here: _Activation, node: Node) -> tuple[tuple[Factor, ...], bool]:
        """The repetitions around *node*, and whether it is sure to be reached."""
        loops, certain = list(here.loops), True
        for region in here.graph.within(node.region):
            if region.kind == "loop":
                key = (here.inside, region.id)
                loops.append(_rounds(key, region.label, here.known))
                certain = certain and not region.escapes
            elif region.kind in ("branch", "except", "function"):
                certain = False
        return tuple(loops), certain

    def _prompt(self, here: _Activation, node: Node) -> tuple[tuple[PromptPiece, ...], bool]:
        """The pieces in front of *node*, and whether a loop makes its prompt longer each round."""
        chain: list[Node] = []
        grows, at = False, node
        while True:
            earlier = [number for number in at.prompt if number < at.id]
            grows = grows or len(earlier) < len(at.prompt)
            if not earlier:
                break
            if len(earlier) > 1:
                chain += _shared_part(here.graph, earlier)
                break
            at = here.graph.nodes[earlier[0]]
            chain.append(at)
        chain.reverse()
        pieces = [*here.before, *(piece for part in chain for piece in self._pieces(here, part))]
        front = [piece for piece in pieces if piece.role == "system"]
        return (*front, *(piece for piece in pieces if piece.role != "system")), grows

    def _pieces(self, here: _Activation, node: Node) -> Iterator[PromptPiece]:
        loops, _ = self._loops(here, node)
        parts = node.parts if node.op in ("text", "say") and node.parts else (None,)
        values = iter(_values(node))
        for index, text in enumerate(parts):
            label = next(values, node.label) if text is None else ""
            if text is None:
                value = here.known.get(label, here.graph.texts.get(label))
                text = value if isinstance(value, str) else None
            if text is not None:
                yield PromptPiece(("text", text), label, text, node.role, node.line, loops)
            elif label in here.passed:  # the same wherever it is handed on to
                key: tuple[object, ...] = ("parameter", here.passed[label])
                yield PromptPiece(key, label, None, node.role, node.line, ())
            else:
                yield PromptPiece(
                    (here.inside, node.id, index), label, None, node.role, node.line, loops
                )


def _handed_on(
    here: _Activation, node: Node, graph: Graph
) -> tuple[dict[str, object], dict[str, str]]:
    """The known values among the arguments of a call, and the parameters passed on in it."""
    values: dict[str, object] = {}
    passed: dict[str, str] = {}
    for name, value in _arguments(node, graph):
        if isinstance(value, ast.Constant):
            values[name] = value.value
        elif isinstance(value, ast.Name) and _is_parameter(here.graph, value.id):
            if value.id in here.known:
                values[name] = here.known[value.id]
            if value.id in here.passed:
                passed[name] = here.passed[value.id]
    return values, passed


def _arguments(node: Node, graph: Graph) -> Iterator[tuple[str, ast.expr]]:
    """The arguments of a call by parameter, as far as the call shows it."""
    try:
        call = expression_tree(node.label)
    except SyntaxError:  # a label that was cut
        return
    if node.op != "program" or not isinstance(call, ast.Call):
        return
    names = [parameter.label for parameter in graph.nodes if parameter.op == "param"]
    if isinstance(call.func, ast.Attribute) and names[:1] in (["self"], ["cls"]):
        names = names[1:]
    if not any(isinstance(argument, ast.Starred) for argument in call.args):
        yield from zip(names, call.args, strict=False)
    for keyword in call.keywords:
        if keyword.arg in names:
            yield keyword.arg, keyword.value


def _is_parameter(graph: Graph, name: str) -> bool:
    """True if *name* is a parameter that is not bound again."""
    return name not in graph.rebound and any(
        node.op == "param" and node.label == name for node in graph.nodes
    )


def _shared_part(graph: Graph, tips: list[int]) -> list[Node]:
    """The prompt before joining branches: a stand-in for what differs, then the shared nodes.

    Newest first, as the caller collects them.
    """
    ways = []
    for tip in tips:  # back from each tip, as long as there is only one way
        way = [tip]
        while len(earlier := [n for n in graph.nodes[way[-1]].prompt if n < way[-1]]) == 1:
            way += earlier
        ways.append(way)
    common = [number for number in ways[0] if all(number in way for way in ways[1:])]
    stand_in = graph.nodes[tips[-1]]
    unknown = Node(
        -1 - tips[-1],
        "say",
        f"one of {len(tips)} branches",
        stand_in.line,
        stand_in.column,
        (),
        (),
        0,
        (),
        stand_in.role,
    )
    return [unknown, *(graph.nodes[number] for number in common)]


def _values(node: Node) -> list[str]:
    """The expressions in the holes of a piece, as they are written."""
    if not node.parts or None not in node.parts:
        return []
    holes, depth, start = [], 0, 0
    for index, char in enumerate(node.label):
        if char == "{":
            depth += 1
            start = index + 1 if depth == 1 else start
        elif char == "}" and depth:
            depth -= 1
            if depth == 0:
                holes.append(node.label[start:index])
    return holes


def _rounds(key: tuple[object, ...], written: str, values: Mapping[str, object]) -> Factor:
    """The rounds of a loop, as far as its source and the known values tell."""
    if written.startswith("while "):
        return Factor(key, f"rounds of `{written}`", None)
    iterated = written.rpartition(" in ")[2]
    try:
        node = expression_tree(iterated)
    except SyntaxError:  # a label that was cut
        return Factor(key, f"rounds of `{written}`", None)
    count = rounds_over(node, values)
    return Factor(key, f"len({iterated})" if count is None else str(count), count)


def _tree(sites: list[CallSite]) -> Prefix:
    root = Prefix(None, ())
    for site in sites:
        at = root
        varies: tuple[Factor, ...] = ()
        root.sites.append(site)
        for piece in site.pieces:
            if piece.text is None:
                varies = tuple(dict.fromkeys((*varies, *piece.loops)))
            child = at.children.get((piece.role, *piece.key))
            if child is None:
                child = at.children[(piece.role, *piece.key)] = Prefix(piece, varies)
            child.sites.append(site)
            at = child
        at.ends.append(site)
    return root


@dataclass(frozen=True, slots=True)
class PlanTotals:
    """The size of all prompts and of the part to be computed, in the unit of the size given.

    Only pieces whose size and number are known are counted; ``complete`` says whether that is all.
    """

    calls: int | None
    sent: int
    computed: int
    complete: bool


def totals(plan: PrefixPlan, size: Size) -> PlanTotals:
    """Count the constant text of all calls of *plan*, with and without sharing."""
    sent = computed = 0
    complete = not plan.unknown
    todo = list(plan.root.children.values())
    while todo:
        prefix = todo.pop()
        todo += prefix.children.values()
        calls, variants = prefix.calls(), product(prefix.variants)
        assert prefix.piece is not None
        if prefix.piece.text is None or calls is None or variants is None:
            complete = False
            continue
        tokens = size(prefix.piece.text)
        sent += tokens * calls
        computed += tokens * min(variants, calls)
    grows = any(site.grows or not site.certain for site in plan.sites)
    calls = None if plan.unknown else plan.root.calls()
    return PlanTotals(calls, sent, computed, complete and not grows)


@dataclass(slots=True)
class PromptBill:
    """The tokens of prompts of one function, by how a provider with a cache charges them.

    ``calls`` is ``None`` if their number is not known. Without a cache all ``tokens`` have the
    plain price; with one, ``written`` are written into it once and ``read`` again by others.
    """

    calls: int | None = 0
    read: int = 0
    written: int = 0
    plain: int = 0

    @property
    def tokens(self) -> int:
        """All tokens of the prompts."""
        return self.read + self.written + self.plain


def bills(plan: PrefixPlan, size: Size, least: int) -> dict[str, PromptBill]:
    """The bills of the functions that ask a model, by their paths, as far as sizes are known.

    A beginning of fewer than *least* tokens is not kept by the cache. What several calls share is
    written by the first of them.
    """
    prompt_bills: dict[str, PromptBill] = {}
    for site in plan.sites:
        bill = prompt_bills.setdefault(site.path, PromptBill())
        bill.calls = None if bill.calls is None or site.calls is None else bill.calls + site.calls
    before: dict[int, int] = {id(plan.root): 0}
    order = [(child, plan.root) for child in plan.root.children.values()]
    for prefix, parent in order:  # which grows by those below
        before[id(prefix)] = before[id(parent)] + _size_of(prefix, size)
        order += [(child, prefix) for child in prefix.children.values()]
    reach: dict[int, int] = {}
    for prefix, _ in reversed(order):  # the longest beginning that is shared from here on
        further = [reach[id(child)] for child in prefix.children.values()]
        own = before[id(prefix)] if _is_shared(prefix) else 0
        reach[id(prefix)] = max([own, *further])
    for prefix, _ in order:  # if it is cached, each variant is written once
        tokens = _size_of(prefix, size)
        is_cached = _is_shared(prefix) and reach[id(prefix)] >= least
        writes = min(product(prefix.variants) or 0, prefix.calls() or 0) if is_cached else 0
        for site in prefix.sites:
            bill, calls = prompt_bills[site.path], site.calls or 0
            own = min(writes, calls)
            writes -= own
            if is_cached:
                bill.written += own * tokens
                bill.read += (calls - own) * tokens
            else:
                bill.plain += calls * tokens
    return prompt_bills


def _size_of(prefix: Prefix, size: Size) -> int:
    assert prefix.piece is not None
    return 0 if prefix.piece.text is None else size(prefix.piece.text)


def _is_shared(prefix: Prefix) -> bool:
    calls, variants = prefix.calls(), product(prefix.variants)
    return calls is not None and variants is not None and calls > variants
