"""Whole programs: a seed gives a tree, the tree gives a prompt program and its plain twin."""

from __future__ import annotations

from dataclasses import dataclass

from .around import EFFECTS, VALUES, noted
from .asking import ASKING
from .author import Author, Scope, able
from .catching import with_answers
from .holding import HOLDING
from .statements import ASYNC, SIMPLE, SYNC, Template
from .structure import STRUCTURE
from .tooling import ASYNC_TOOLING, TOOLING
from .tree import Stmt, both, mark, printed

NEWER: list[Template] = [*STRUCTURE, *ASKING, *TOOLING, *HOLDING, *VALUES]
NEWER_ASYNC: list[Template] = [*STRUCTURE, *ASKING, *ASYNC_TOOLING, *HOLDING, *VALUES]

_SHARED = """
import asyncio, io, json, re
from collections import Counter, defaultdict, deque
from dataclasses import dataclass
from enum import Enum
from functools import partial, reduce
from typing import Any, Literal, NamedTuple
from types import SimpleNamespace
from appl.errors import BackendError, OutputError, RunError

def shout(w):
    return w.upper() + "!"

class Pair(NamedTuple):
    a: Any
    b: Any

@dataclass
class Noted:
    a: Any
    b: Any = None

@dataclass
class Point:
    x: int
    y: int

class Heat(Enum):
    HOT = "hot"
    COLD = "cold"

LOG = []

def note(*words):
    LOG.append(" ".join(words))

def told(error):
    return "no value" if isinstance(error, OutputError) else error

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
import appl
from appl import (
    AIMessage, AIRole, Audio, BracketedDefinition, Definition, Image, Indexing, PromptContext,
    StringFuture, SystemMessage, SystemRole, UserMessage, UserRole, as_tool, call, convo,
    empty_line, gen, gen_with_tools, grow, map, ppl, promptify, records, reset_context, select,
    str_future, traceable,
)
from appl.compositor import (
    ApplStr, Compositor, DashList, DoubleLineSeparated, IndentedList, InlineTagged, LineSeparated,
    Logged, LowerLetterList, LowerRomanList, NoIndent, NumberedList, StarList, Tagged,
    UpperLetterList, UpperRomanList,
)
"""


@dataclass
class Program:
    """One random program; ``body`` is a tree that the shrinker may cut."""

    seed: int
    body: list[Stmt]
    asynchronous: bool

    @property
    def able(self) -> bool:
        """Whether the model offers what else has to be asked for in words."""
        return able(self.seed)

    def source(self) -> str:
        """The prompt program."""
        return _SHARED.lstrip() + _IMPORTS + self.text(plain=False)

    def plain(self) -> str:
        """The same in plain Python over ``equivalence.world``."""
        return with_answers(_SHARED.lstrip() + self.text(plain=True))

    def text(self, *, plain: bool) -> str:
        """What is the program's own in one of its forms."""
        return printed(self.body, plain=plain)


def program(seed: int) -> Program:
    """The program of this seed."""
    a = Author(seed)
    asynchronous = seed % 7 == 0
    s = Scope(asynchronous=asynchronous)
    if asynchronous:
        s.add(mark("async"))
    s.add(both("LOG.clear()"))
    a.ask(s)
    for template in chosen(a, asynchronous):
        template(a, s)
        if a.chance(0.4):
            a.random.choice(SIMPLE)(a, s)
    s.add(both(f"return [{', '.join(results(a, s))}, list(LOG), convo()]"))
    main = both(f"@ppl\n{'⇶' * asynchronous}def main():", s.out)
    return Program(seed, [*a.definitions, main], asynchronous)


def chosen(a: Author, asynchronous: bool) -> list[Template]:
    """The statements of a program, in their order: of the core, and of what stands on it."""
    core, more = (ASYNC, NEWER_ASYNC) if asynchronous else (SYNC, NEWER)
    found = a.random.choices(core, k=a.random.randint(3, 5))
    found += a.random.sample(more, a.random.randint(3, 4))
    found += [a.random.choice(EFFECTS)] if a.chance(0.5) else [noted] * 2
    return a.random.sample(found, len(found))


def results(a: Author, s: Scope) -> list[str]:
    """What main returns: some of everything in scope."""
    names = [*s.futures, *s.strings, *s.lists, *s.tables]
    return a.random.sample(names, min(len(names), 5))
