"""Whole programs: a seed gives a tree, the tree gives a prompt program and its plain twin."""

from __future__ import annotations

from dataclasses import dataclass

from .author import Author, Scope
from .statements import ASYNC, SIMPLE, SYNC
from .tree import Stmt, both, mark, printed

_SHARED = """
import asyncio, io, json, re
from collections import Counter, defaultdict, deque
from dataclasses import dataclass
from typing import Any, NamedTuple
from types import SimpleNamespace
from appl.errors import BackendError

def shout(w):
    return w.upper() + "!"

class Pair(NamedTuple):
    a: Any
    b: Any

@dataclass
class Noted:
    a: Any
    b: Any = None

class Keeper:
    def __init__(self, log):
        self.log = log
    def __enter__(self):
        self.log.append("in")
        return self
    def __exit__(self, kind, error, tb):
        self.log.append(str(error))
        return kind is not None and issubclass(kind, (BackendError, ValueError))
"""
_IMPORTS = """
from appl import AIMessage, AIRole, SystemMessage, SystemRole, UserMessage, UserRole
from appl import call, convo, gen, grow, map, ppl, records, select
"""


@dataclass
class Program:
    """One random program; ``body`` is a tree that the shrinker may cut."""

    seed: int
    body: list[Stmt]
    asynchronous: bool

    def source(self) -> str:
        """The prompt program."""
        return _SHARED.lstrip() + _IMPORTS + printed(self.body, plain=False)

    def plain(self) -> str:
        """The same in plain Python over ``equivalence.plain``."""
        return _SHARED.lstrip() + printed(self.body, plain=True)


def program(seed: int) -> Program:
    """The program of this seed."""
    a = Author(seed)
    asynchronous = seed % 8 == 0
    s = Scope(asynchronous=asynchronous)
    if asynchronous:
        s.add(mark("async"))
    a.ask(s)
    for _ in range(a.random.randint(3, 6)):
        a.random.choice(ASYNC if asynchronous else SYNC)(a, s)
        if a.chance(0.5):
            a.random.choice(SIMPLE)(a, s)
    s.add(both(f"return [{', '.join(results(a, s))}, convo()]"))
    main = both(f"@ppl\n{'⇶' * asynchronous}def main():", s.out)
    return Program(seed, [*a.definitions, main], asynchronous)


def results(a: Author, s: Scope) -> list[str]:
    """What main returns: some of everything in scope."""
    names = [*s.futures, *s.strings, *s.lists, *s.tables]
    return a.random.sample(names, min(len(names), 5))
