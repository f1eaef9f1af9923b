"""Random edits of programs: what a programmer does between two runs."""

from __future__ import annotations

import random
import re
from collections.abc import Callable

from .program import Block, Mixed

_WORD = re.compile(r"'([a-h])(\d+)'")
Blocks = list[Block]


def _nothing(dice: random.Random, blocks: Blocks, more: Blocks) -> Blocks:
    return blocks


def _insert_first(dice: random.Random, blocks: Blocks, more: Blocks) -> Blocks:
    return [more[0], *blocks]


def _insert(dice: random.Random, blocks: Blocks, more: Blocks) -> Blocks:
    at = dice.randint(0, len(blocks))
    return [*blocks[:at], more[-1], *blocks[at:]]


def _delete(dice: random.Random, blocks: Blocks, more: Blocks) -> Blocks:
    at = dice.randrange(len(blocks))
    return [*blocks[:at], *blocks[at + 1 :]]


def _reword(dice: random.Random, blocks: Blocks, more: Blocks) -> Blocks:
    """Another question in one place."""
    at = dice.randrange(len(blocks))
    lines = list(blocks[at].lines)
    worded = [number for number, line in enumerate(lines) if _WORD.search(line)]
    if worded:
        number = dice.choice(worded)
        lines[number] = _WORD.sub(r"'new \1\2'", lines[number], count=1)
    return [*blocks[:at], blocks[at]._replace(lines=tuple(lines)), *blocks[at + 1 :]]


def _reverse(dice: random.Random, blocks: Blocks, more: Blocks) -> Blocks:
    return blocks[::-1]


def _twice(dice: random.Random, blocks: Blocks, more: Blocks) -> Blocks:
    """The same questions once more."""
    return [*blocks, dice.choice(blocks)]


EDITS: dict[str, Callable[[random.Random, Blocks, Blocks], Blocks]] = {
    "insert first": _insert_first, "insert": _insert, "delete": _delete, "reword": _reword,
    "reverse": _reverse, "twice": _twice, "nothing": _nothing,
}  # fmt: skip


def edited(program: Mixed) -> tuple[str, Mixed]:
    """The name of an edit, and *program* after it."""
    dice = random.Random(f"edit {program.seed}")
    name = dice.choice(list(EDITS))
    other = _alike(program)
    return name, program.with_blocks(EDITS[name](dice, program.blocks, other.blocks))


def _alike(program: Mixed) -> Mixed:
    """Another program whose blocks may stand in *program*."""
    seed = program.seed + 1_000_000
    while (other := Mixed(seed)).style != program.style or "uncaught" in other.features:
        seed += 1
    return other
