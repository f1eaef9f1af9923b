"""``python -m tests.equivalence FIRST [LAST]``: judges programs, explains a disagreement.

With ``--quick`` it only tells how many programs it took to find one.
"""

from __future__ import annotations

import os
import sys

from .compare import judge, same_sort
from .programs import program
from .shrink import shrunk


def main(first: int, last: int, quick: bool) -> int:
    """Judge the programs of these seeds; 1 if the ways to run one of them disagree."""
    for seed in range(first, last + 1):
        verdict = judge(program(seed))
        if verdict.problem is None:
            continue
        if quick:
            print(f"disagrees: {seed - first + 1}", flush=True)
        else:
            small = shrunk(program(seed), same_sort(verdict))
            print(small.source(), small.plain(), sep="\n# ---- plain\n")
            print(f"seed {seed}: {judge(small).problem}", flush=True)
        return 1
    print(f"{last - first + 1} programs agree", flush=True)
    return 0


if __name__ == "__main__":
    numbers = [int(argument) for argument in sys.argv[1:] if argument.isdigit()]
    os._exit(main(numbers[0], numbers[-1], "--quick" in sys.argv))  # a mutant may leave threads
