"""Judges programs of one kind in one way, until one is wrong."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from itertools import count, islice
from pathlib import Path

from . import world
from .census import Found, goes_on, replays, reruns
from .program import Mixed

_WAYS: dict[str, Callable[[Mixed, Path, Found], str | None]] = {
    "plain": lambda program, folder, found: None,
    "replayed": lambda program, folder, found: replays(program, folder),
    "killed": lambda program, folder, found: goes_on(program, folder),
    "edited": reruns,
}


def hunted(way: str, feature: str, first: int, programs: int) -> int | None:
    """How many of so many *programs* with *feature* it took; ``None`` when none is wrong.

    They are those of the seed *first* and after it.
    """
    world.WATCHDOG_S = 2
    kind = islice(_of_kind(feature, first), programs)
    return next((number for number, program in enumerate(kind, 1) if _is_wrong(program, way)), None)


def _of_kind(feature: str, first: int) -> Iterator[Mixed]:
    """Programs that have *feature*, and nothing else."""
    for program in map(Mixed, count(first)):
        blocks = [block for block in program.blocks if block.features[0] == feature]
        if blocks:
            yield program.with_blocks(blocks)


def _is_wrong(program: Mixed, way: str) -> bool:
    found = Found()
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / f"{program.seed}.trace"
        found.try_out(
            program,
            lambda each: world.difference(each, path) or _WAYS[way](each, Path(name), found),
        )
    return bool(found.faults or found.reuse.wrong or found.predictions.wrong)
