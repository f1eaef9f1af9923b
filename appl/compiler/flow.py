"""The state that is carried along while a graph is built: values, the prompt, nodes so far.

Invariant: visiting the same source again, as loops need it, finds the same node again.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from appl.compiler.ir import OPS, Graph, GraphRegion, Node
from appl.compiler.nodes import Placed


@dataclass(frozen=True, slots=True)
class Provenance:
    """The nodes that an expression may come from.

    ``direct``: it may be one of them itself, and not only hold it.
    """

    ids: frozenset[int] = frozenset()
    direct: bool = True

    def __or__(self, other: Provenance) -> Provenance:
        return Provenance(self.ids | other.ids, self.direct or other.direct)

    def held(self) -> Provenance:
        """The value of a container that holds this one: never a future itself."""
        return Provenance(self.ids, False)


NOTHING = Provenance(direct=False)


@dataclass(slots=True)
class FlowState:
    """The state at one point of the program; ``dead``: the point is never reached."""

    names: dict[str, Provenance] = field(default_factory=dict)
    prompt: frozenset[int] = frozenset()
    waited: frozenset[int] = frozenset()
    dead: bool = False

    def copy(self) -> FlowState:
        """An independent copy."""
        return FlowState(dict(self.names), self.prompt, self.waited, self.dead)

    def joined(self, other: FlowState) -> FlowState:
        """The state behind a point where two paths meet; a dead path adds nothing."""
        if self.dead or other.dead:
            return other if self.dead else self
        names = {
            name: self.names.get(name, NOTHING) | other.names.get(name, NOTHING)
            for name in self.names | other.names
        }
        return FlowState(names, self.prompt | other.prompt, self.waited & other.waited)

    def finish(self, ids: frozenset[int], by: int) -> None:
        """Note that the values of *ids* exist from now on, as node *by* has waited for them."""
        self.waited |= ids
        for name, value in self.names.items():
            if value.ids & ids:
                self.names[name] = Provenance(value.ids - ids | {by}, value.direct)


@dataclass(slots=True)
class Draft:
    """A node before all its edges are known."""

    op: str
    label: str
    place: Placed
    region: int
    parts: tuple[str | None, ...] = ()
    role: str = ""
    callee: str = ""
    over: str = ""
    ctx: str = ""
    order: int = 0
    inputs: set[int] = field(default_factory=set)
    prompt: set[int] = field(default_factory=set)


class Sketch:
    """The nodes and regions made so far; each belongs to a place in the source."""

    def __init__(self, line: int) -> None:
        self.drafts: list[Draft] = []
        self.regions = [GraphRegion(0, "body", "", line, None)]
        self._ids: dict[tuple[object, ...], int] = {}
        self._orders = itertools.count()

    def node(
        self,
        op: str,
        place: Placed,
        label: str,
        region: int,
        inputs: Iterable[int],
        prompt: Iterable[int] = (),
        part: int = 0,
        parts: tuple[str | None, ...] = (),
        role: str = "",
    ) -> int:
        """The id of the node for *op* at *place*; *part* tells apart several of one place."""
        key = id(place), op, part
        number = self._ids.setdefault(key, len(self.drafts))
        if number == len(self.drafts):
            self.drafts.append(Draft(op, label, place, region, parts, role))
        draft = self.drafts[number]
        draft.order = next(self._orders)
        draft.inputs |= set(inputs)
        draft.prompt |= set(prompt)
        return number

    def region(self, kind: str, place: Placed, label: str, parent: int) -> int:
        """The id of the region of *kind* at *place*."""
        key = id(place), kind
        number = self._ids.setdefault(key, len(self.regions))
        if number == len(self.regions):
            self.regions.append(GraphRegion(number, kind, label, place.lineno, parent))
        return number

    def escape(self, region: int | None, *, every: bool) -> None:
        """Note that the nearest loop around *region* may end early; with *every*, all of them."""
        while region is not None:
            here = self.regions[region]
            if here.kind == "function":
                return
            if here.kind == "loop":
                self.regions[region] = replace(here, escapes=True)
                if not every:
                    return
            region = here.parent

    def inside(self, outer: int, region: int | None) -> bool:
        """True if *region* is *outer* or lies in it."""
        while region is not None and region != outer:
            region = self.regions[region].parent
        return region is not None

    def is_future(self, number: int) -> bool:
        """True if the value of a node may be a future."""
        return OPS[self.drafts[number].op].future

    def frozen(
        self, name: str, file: str, line: int, last_line: int, kind: str, rebound: tuple[str, ...]
    ) -> Graph:
        """The graph, with nodes numbered in program order and without empty regions."""
        order = sorted(range(len(self.drafts)), key=lambda number: self.drafts[number].order)
        places = {number: place for place, number in enumerate(order)}
        around = {0}
        for draft in self.drafts:
            region: int | None = draft.region
            while region is not None:
                around.add(region)
                region = self.regions[region].parent
        used: dict[int | None, int] = {number: at for at, number in enumerate(sorted(around))}
        regions = tuple(
            replace(region, id=used[region.id], parent=used.get(region.parent))
            for region in self.regions
            if region.id in used
        )
        nodes = []
        for number in order:
            draft = self.drafts[number]
            at = draft.place
            nodes.append(
                Node(
                    places[number],
                    draft.op,
                    draft.label,
                    at.lineno,
                    at.col_offset,
                    tuple(sorted(places[source] for source in draft.inputs)),
                    tuple(sorted(places[source] for source in draft.prompt)),
                    used[draft.region],
                    draft.parts,
                    draft.role,
                    (at.end_lineno or at.lineno, at.end_col_offset or at.col_offset),
                    draft.callee,
                    draft.over,
                    draft.ctx,
                )
            )
        return Graph(name, file, line, last_line, kind, regions, tuple(nodes), rebound)
