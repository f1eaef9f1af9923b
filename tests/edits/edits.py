"""Random edits of random programs: what a programmer does to a recorded program before the next run.

An edit is a copy of a program's tree with one change; the program is that of ``programs``.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator
from typing import Any

from programs import ASYNC, SYNC, Tree

_HEAVY = {"parallel", "thread", "gather", "first", "completed", "cancel", "race", "group"}


def nodes(tree: Tree) -> Iterator[Tree]:
    """The node and all below it."""
    yield tree
    for step in tree["steps"]:
        for below in step.get("below", ()):
            yield from nodes(below)


def _steps(tree: Tree) -> list[tuple[Tree, int]]:
    """Every step, as its node and its place there."""
    return [(node, at) for node in nodes(tree) for at in range(len(node["steps"]))]


def _light(dice: random.Random, kinds: list[str]) -> dict[str, Any]:
    kind = dice.choice([each for each in kinds if each not in _HEAVY])
    return {"kind": kind, "text": f"new {kind} {dice.randrange(1000)}", "n": dice.randint(2, 4)}


def _insert_first(dice: random.Random, tree: Tree, kinds: list[str]) -> None:
    tree["steps"].insert(0, _light(dice, kinds))


def _insert(dice: random.Random, tree: Tree, kinds: list[str]) -> None:
    node = dice.choice(list(nodes(tree)))
    node["steps"].insert(dice.randint(0, len(node["steps"])), _light(dice, kinds))


def _delete(dice: random.Random, tree: Tree, kinds: list[str]) -> None:
    node, at = dice.choice(_steps(tree))
    if len(_steps(tree)) > 1:
        del node["steps"][at]


def _reword(dice: random.Random, tree: Tree, kinds: list[str]) -> None:
    node, at = dice.choice(_steps(tree))
    node["steps"][at]["text"] += " (please)"


def _more(dice: random.Random, tree: Tree, kinds: list[str]) -> None:
    """More samples of a question, or more branches."""
    node, at = dice.choice(_steps(tree))
    step = node["steps"][at]
    step["n"] += 2
    for _ in range(2 if "below" in step else 0):
        step["below"].append(copy.deepcopy(dice.choice(step["below"])))


def _reverse(dice: random.Random, tree: Tree, kinds: list[str]) -> None:
    """The branches of a step in the opposite order, or two steps."""
    heavy = [node["steps"][at] for node, at in _steps(tree) if "below" in node["steps"][at]]
    if heavy:
        dice.choice(heavy)["below"].reverse()
    else:
        tree["steps"].reverse()


def _nothing(dice: random.Random, tree: Tree, kinds: list[str]) -> None:
    """Run it again as it is."""


EDITS: dict[str, Callable[[random.Random, Tree, list[str]], None]] = {
    "insert first": _insert_first, "insert": _insert, "delete": _delete, "reword": _reword,
    "more": _more, "reverse": _reverse, "nothing": _nothing,
}  # fmt: skip


def edited(seed: int, tree: Tree, asynchronous: bool) -> tuple[str, Tree]:
    """The name of an edit, and *tree* after it."""
    dice = random.Random(f"edit {seed}")
    name = dice.choice(list(EDITS))
    changed = copy.deepcopy(tree)
    EDITS[name](dice, changed, ASYNC if asynchronous else SYNC)
    return name, changed
