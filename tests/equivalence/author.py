"""The seeded author of random programs: names in scope, random words and expressions.

Expressions are markup (see ``tree``) of three sorts: a *future* may be an unfinished answer, a
*value* is finished text, a *test* is a condition.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from .model import WORDS
from .tree import Stmt, both, mark, said

SEVERAL = [
    "gen(n=2)", "gen(choices=['left', 'up'])", "gen(max_tokens=3, max_relay_rounds=2)",
    "gen(response_format=Literal['red', 'green'])",
]  # fmt: skip
"""Answers that may take several calls."""


@dataclass
class Scope:
    """The names that a block may use, by what they hold, and the block being written."""

    out: list[Stmt] = field(default_factory=list)
    depth: int = 0
    futures: tuple[str, ...] = ()
    strings: tuple[str, ...] = ()
    lists: tuple[str, ...] = ()
    tables: tuple[str, ...] = ()
    asynchronous: bool = False
    inner: bool = False  # a body other than main's: calls only leaves

    def below(self) -> Scope:
        """A nested block: what it binds is not seen after it."""
        return replace(self, out=[], depth=self.depth + 1)

    def add(self, *stmts: Stmt) -> None:
        self.out += stmts


def able(seed: int) -> bool:
    """Whether the model of this program offers what else has to be asked for in words."""
    return seed % 3 > 0


class Author:
    """Writes one program: definitions on demand, then a main function."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.able = able(seed)
        self.definitions: list[Stmt] = []
        self.made: dict[str, list[str]] = {}
        self.serial = 0

    def fresh(self, stem: str) -> str:
        """A name that nothing else has."""
        self.serial += 1
        return f"{stem}{self.serial}"

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def word(self) -> str:
        return f"{self.random.choice(WORDS)}{self.random.randrange(100)}"

    def text(self) -> str:
        """A string literal of one or two words."""
        return f'"{self.word()}"' if self.chance(0.7) else f'"{self.word()} {self.word()}"'

    def need(self, kind: str, write: Callable[[str], Stmt], most: int = 2) -> str:
        """The name of a definition of this kind, written now unless there are enough."""
        names = self.made.setdefault(kind, [])
        if not names or (len(names) < most and self.chance(0.3)):
            name = self.fresh(kind)
            self.definitions.append(write(name))
            names.append(name)
        return self.random.choice(names)

    # -- expressions --------------------------------------------------------------------------

    def gen(self) -> str:
        plain = ["gen()"] * 9 + ["gen(temperature=0.5)", "select(['left', 'right', 'up'])"]
        plain += [f"gen(max_tokens={self.random.randrange(1, 9)})"]
        plain += [f"gen(stop=['{self.word()}'])", "gen(stream=True)", "gen(cache='run')"]
        return self.random.choice([*plain, *SEVERAL])

    def held(self, s: Scope) -> list[str]:
        """Expressions that hold an answer which is there or on its way."""
        return [*s.futures, *(f"{name}[0]" for name in s.lists), *(f"{t}['k']" for t in s.tables)]

    def future(self, s: Scope) -> str:
        """Something that may be an unfinished answer; nothing waits."""
        known = self.held(s)
        if known and self.chance(0.1):
            x, y = self.random.choice(known), self.random.choice(known)
            return f"({x} if ‹{y}› > {self.text()} else {self.text()})"
        if known and self.chance(0.6):
            return self.random.choice(known)
        return self.gen()

    def argument(self, s: Scope) -> str:
        """What a prompt function is called with."""
        return self.future(s) if self.chance(0.5) else self.value(s)

    def value(self, s: Scope) -> str:
        """Finished text."""
        known = self.held(s)
        if not known:
            return self.random.choice([*s.strings, self.text()])
        x, y = self.random.choice(known), self.random.choice(known)
        options = [
            *s.strings,
            self.text(),
            f"‹{x}›.upper()",
            f"str(‹{x}›)",
            f"(‹{x}› + {self.text()})",
            f"(‹{x}› + ‹{y}›)",
            f"‹{x}›[:3]",
            f'f"<{{‹{x}›}}>"',
            f'", ".join(«[{x}, {y}]»)',
            f"sorted(«[{x}, {y}, {self.text()}]»)[0]",
            f"max(‹{x}›, ‹{y}›)",
            f"shout(‹{x}›)",
            f'"%s/%s" % «({x}, {self.text()})»',
            f'"{{}}!".format(‹{x}›)',
        ]
        return self.random.choice(options)

    def test(self, s: Scope) -> str:
        """A condition, mostly on an answer."""
        known = self.held(s)
        if not known:
            return self.random.choice(["1 > 2", "not 0"])
        x, y = self.random.choice(known), self.random.choice(known)
        return self.random.choice(
            [
                f"len(‹{x}›) % 2",
                f"‹{x}› > {self.text()}",
                f"‹{x}› == ‹{y}›",
                f"not ‹{x}›",
                f"'a' in ‹{x}›",
                f"‹{x}› in «[{y}, {self.text()}]»",
                f"‹{x}›.isalpha()",
                f"‹{x}› and len(‹{y}›) > 5",
                f"{self.text()} < ‹{x}› < {self.text()}",
                f"isinstance({x}, int) or ‹{y}›.endswith(('1', '3', '5', '7'))",
            ]
        )

    # -- statements that several templates share ----------------------------------------------

    def bind(self, s: Scope, expression: str) -> str:
        """``x = expression`` for an expression that may be a future."""
        name = self.fresh("x")
        s.add(both(f"{name} = {expression}"))
        s.futures += (name,)
        return name

    def store(self, s: Scope, expression: str) -> str:
        """``t = expression`` for finished text."""
        name = self.fresh("t")
        s.add(both(f"{name} = {expression}"))
        s.strings += (name,)
        return name

    def fstring(self, s: Scope) -> Stmt:
        """An f-string statement with up to three holes; its answers are not waited for."""
        shown, plain = "", ["begin()"]
        for _ in range(self.random.randint(1, 3)):
            word = self.word()
            hole, form = self.hole(s)
            conversion, spec = form
            bang = f"!{conversion}" if conversion else ""
            colon = f":{spec}" if spec else ""
            shown += f"{word} {{{hole}{bang}{colon}}}"
            plain += [f'put("{word} ")', f"put({hole}, {conversion!r}, {spec!r})"]
        return Stmt(f'f"{shown}"', "\n".join(plain))

    def hole(self, s: Scope) -> tuple[str, tuple[str, str]]:
        form = self.random.choice([("", "")] * 6 + [("", ">9"), ("r", ""), ("s", "<8"), ("", ".3")])
        if self.chance(0.3):
            return f"{self.gen()}".replace('"', "'"), form
        known = self.held(s)
        if known and self.chance(0.8):
            return self.random.choice(known), form
        return f"'{self.word()}'", form

    def say(self, s: Scope) -> None:
        """One or two statements of prompt text."""
        for _ in range(self.random.randint(1, 2)):
            s.add(said(self.text()) if self.chance(0.5) else self.fstring(s))

    def ask(self, s: Scope) -> str:
        """Text, then a call whose answer is bound."""
        self.say(s)
        return self.bind(s, self.gen())


__all__ = ["Author", "Scope", "both", "mark", "said"]
