"""Judges many programs on several cores, and counts what they did."""

from __future__ import annotations

import multiprocessing
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field

from .compare import judge, same_sort
from .programs import program
from .shrink import shrunk

BLOCK = 20


@dataclass
class Census:
    """What programs did; ``wrong`` are the seeds of those on which the runs disagree."""

    programs: int = 0
    calls: int = 0
    marks: Counter[str] = field(default_factory=Counter)
    wrong: list[int] = field(default_factory=list)

    def add(self, other: Census) -> None:
        self.programs += other.programs
        self.calls += other.calls
        self.marks.update(other.marks)
        self.wrong += other.wrong

    @property
    def shares(self) -> dict[str, float]:
        """The share of programs in which each feature ran, the most frequent first."""
        return {name: count / self.programs for name, count in self.marks.most_common()}

    def __str__(self) -> str:
        lines = [f"{self.programs} programs, {self.calls} calls; share of programs that ran"]
        for name, share in self.shares.items():
            lines.append(f"  {name:32}{share:6.1%}  {'#' * round(40 * share)}")
        return "\n".join(lines)


def judged(first: int, last: int) -> Census:
    """The programs of these seeds."""
    found = Census()
    for seed in range(first, last + 1):
        verdict = judge(program(seed))
        found.programs += 1
        found.calls += verdict.calls
        found.marks.update(list(verdict.marks))
        found.wrong += [seed] if verdict.problem is not None else []
    return found


def census(first: int, last: int, workers: int = 2) -> Census:
    """The programs of these seeds, judged in as many processes."""
    found = Census()
    blocks = list(_blocks(first, last))
    if workers == 1:
        for block in blocks:
            found.add(judged(*block))
        return found
    with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn")) as pool:
        for part in pool.map(judged, *zip(*blocks, strict=True)):
            found.add(part)
    return found


def _blocks(first: int, last: int) -> Iterator[tuple[int, int]]:
    for begin in range(first, last + 1, BLOCK):
        yield begin, min(begin + BLOCK - 1, last)


def explained(seed: int) -> str:
    """The disagreement about a program, made as small as it gets."""
    verdict = judge(program(seed))
    if verdict.problem is None:
        return f"program {seed} disagreed once, and agrees now: its runs depend on time"
    small = shrunk(program(seed), same_sort(verdict))
    again = f"repeat with: python -m tests.equivalence {seed}"
    problem = judge(small).problem
    shown = [small.text(plain=False), "# ---- plain", small.text(plain=True)]
    return "\n".join([f"program {seed}: {problem}", again, *shown])
