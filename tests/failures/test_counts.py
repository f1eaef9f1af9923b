"""The number of failures of random programs, against what each program itself counts."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import appl
from appl import Generation, gen, ppl
from appl.errors import OutputError
from appl.tracing import Trace, tape
from appl.tracing.format import FailureCounts
from appl.tracing.keeping import row_of
from appl.tracing.viewer import View

from .test_failures import Fake, recorded, words_as_answers

Node = tuple[Any, ...]
FAN = ("collect", "pass on", "raise", "completed")


def drawn(dice: random.Random, depth: int = 3, calm: bool = False) -> Node:
    """A random program as a tree.

    One that may be cancelled is *calm*: whether a thread, or an answer, fails before that is no
    matter of the program, so that it runs in fibers, and its answers are good.
    """
    leaves = ["ask", "ask", "boom"] + ([] if calm else ["refused"])
    if not depth or dice.random() < 0.25:
        return (dice.choice(leaves),)
    kind = dice.choice(["call", "caught", "retried", *FAN])
    calm = calm or kind in ("raise", "completed")
    count = dice.randint(1, 4) if kind in FAN else 1
    items = [drawn(dice, depth - 1, calm) for _ in range(count)]
    return kind, calm or dice.random() < 0.5, *items


@dataclass(eq=False)
class Activation:
    """An item, as the program itself sees it: what is around it, and the error that it raised."""

    around: Activation | None
    group: list[Activation]
    error: Exception | None = None

    def counts(self) -> bool:
        """True if it raised, and no item around it raised the same error."""
        around = self.around
        while around is not None:
            if around.error is self.error:
                return False
            around = around.around
        return self.error is not None


@dataclass
class Naive:
    """A program that counts its own failures."""

    items: list[Activation] = field(default_factory=list)
    collected: list[list[Activation]] = field(default_factory=list)
    refused: int = 0
    booms: int = 0

    def run(self, node: Node, around: Activation | None) -> object:
        """Interpret *node*, which stands in the item *around*."""
        kind, *below = node
        if kind == "ask":
            return str(ask("fine"))
        if kind == "boom":
            self.booms += 1
            raise ValueError(f"boom {self.booms}")
        if kind == "refused":
            return self.typed()
        f = self.program if below[0] else self.item
        if kind in ("caught", "retried"):
            return self.tried(f, below[1], around, 1 if kind == "caught" else 3)
        if kind == "call":
            return appl.call(f, below[1], around, []).result()
        return self.fan(f, kind, below[1:], around)

    def typed(self) -> object:
        try:
            return int(number("no number").result())
        except OutputError:
            self.refused += 1
            raise

    def tried(self, f: Any, node: Node, around: Activation | None, tries: int) -> object:
        for _ in range(tries):
            try:
                return appl.call(f, node, around, []).result()
            except Exception:
                continue
        return "given up"

    def fan(self, f: Any, kind: str, nodes: list[Node], around: Activation | None) -> object:
        group: list[Activation] = []
        if kind == "completed":
            return list(appl.as_completed(f, nodes, [around] * len(nodes), [group] * len(nodes)))
        every = nodes, [around] * len(nodes), [group] * len(nodes)
        if kind == "raise":
            return appl.map(f, *every)
        self.collected.append(group)
        found = appl.map(f, *every, on_error="collect")
        for each in found if kind == "pass on" else ():
            if isinstance(each, Exception):
                raise each
        return found

    def item(self, node: Node, around: Activation | None, group: list[Activation]) -> object:
        here = Activation(around, group)
        self.items.append(here)
        group.append(here)
        try:
            return self.run(node, here)
        except Exception as error:
            here.error = error
            raise

    @ppl
    def program(self, node: Node, around: Activation | None, group: list[Activation]) -> object:
        return self.item(node, around, group)

    def counts(self) -> FailureCounts:
        """Its own count."""
        failed = sum(each.counts() for each in self.items)
        groups = [group for group in self.collected if any(each.counts() for each in group)]
        good = sum(each.error is None for group in groups for each in group)
        return FailureCounts(self.refused, good + failed if groups else 0, failed, 0)


@ppl
def ask(word: str) -> Generation:
    f"{word}"
    return gen()


@ppl
def number(word: str) -> Generation:
    f"{word}"
    return gen(response_format=int)


def told(path: Path) -> Iterator[FailureCounts]:
    """The counts by each of the readers that commands have, and of its tape."""
    yield Trace.open(path).failure_counts()
    yield row_of(path).failures
    tape.save(Trace.open(path), path.with_suffix(".jsonl"))
    yield Trace.open(path.with_suffix(".jsonl")).failure_counts()


def check(seed: int, folder: Path) -> None:
    program, naive = drawn(random.Random(seed)), Naive()
    path = folder / f"{seed}.trace"
    try:
        recorded(path, lambda: naive.run(program, None), Fake(words_as_answers))
    except Exception:  # some fail as a whole: that is counted elsewhere
        assert Trace.open(path).reason == "failed"
    wanted = naive.counts()
    assert [*told(path)] == [wanted] * 3, (seed, program)
    view = View(path)
    view.read()
    shown = view.document("run", {}).get("failures") or []
    view.close()
    assert shown == wanted.words(Trace.open(path).reason == "finished"), (seed, program)


@pytest.mark.parametrize("first", [0, pytest.param(1000, marks=pytest.mark.long)])
def test_all_readers_count_what_the_program_itself_counts(tmp_path: Path, first: int) -> None:
    for seed in range(first, first + (60 if first == 0 else 2000)):
        check(seed, tmp_path)
