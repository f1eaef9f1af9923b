"""From the ``def`` to its call graph, by following its values without running it.

Invariant: nodes stand in program order; a value's inputs are all nodes that it may come from.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from appl.compiler.callee import Callees
from appl.compiler.ir import OPS, Graph, Node, Region, verify
from appl.compiler.names import is_ppl
from appl.compiler.source import DEFS, Def, Found
from appl.compiler.lower import docstring_of

_OWN = frozenset(
    "done result cancel message tool_calls response_obj usage cost finish_reason logprobs reasoning "
    "call_id text_stream samples".split()
)  # attributes of a generation that are read without a wait, or say themselves that they wait
_WIDTH = 60


@dataclass(frozen=True, slots=True)
class Value:
    """What an expression may come from; ``direct``: it may be one of these itself, not hold it."""

    ids: frozenset[int] = frozenset()
    direct: bool = True

    def __or__(self, other: Value) -> Value:
        return Value(self.ids | other.ids, self.direct or other.direct)


NOTHING = Value(direct=False)


@dataclass(slots=True)
class _State:
    """What holds at a point of the program."""

    names: dict[str, Value] = field(default_factory=dict)
    prompt: frozenset[int] = frozenset()
    waited: frozenset[int] = frozenset()

    def copy(self) -> _State:
        return _State(dict(self.names), self.prompt, self.waited)

    def joined(self, other: _State) -> _State:
        names = {
            name: self.names.get(name, NOTHING) | other.names.get(name, NOTHING)
            for name in self.names | other.names
        }
        return _State(names, self.prompt | other.prompt, self.waited & other.waited)


@dataclass(slots=True)
class _Draft:
    op: str
    label: str
    place: Any
    region: int
    order: int = 0
    inputs: set[int] = field(default_factory=set)
    prompt: set[int] = field(default_factory=set)


def build(found: Found, callees: Callees, kind: str, documented: bool = False) -> Graph:
    """The verified graph of *found*; *documented*: a single-quoted first string is no text."""
    builder = _Builder(found, callees)
    builder.run(documented)
    return verify(builder.frozen(kind))
