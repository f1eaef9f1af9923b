"""``python -m tests.equivalence FIRST [LAST]``: judges programs, explains a disagreement.

With ``--quick`` it only tells how many programs it took to find one.
"""

from __future__ import annotations

import os
import sys

from .census import census, explained, judged
from .trying import Trying, difference


def hunt(first: int, last: int) -> int:
    """Tell how many programs it takes until the ways to run one disagree; 1 if there is one."""
    for seed in range(first, last + 1):
        if difference(Trying(seed)) is not None or judged(seed, seed).wrong:
            print(f"disagrees: {seed - first + 1}", flush=True)
            return 1
    print(f"{last - first + 1} programs agree", flush=True)
    return 0


def main(first: int, last: int) -> int:
    """Judge the programs of these seeds; 1 if the ways to run one of them disagree."""
    found = census(first, last, workers=2 if last - first > 100 else 1)
    print(found, flush=True)
    for seed in found.wrong[:3]:
        print(explained(seed), flush=True)
    print(f"{len(found.wrong)} of {found.programs} programs disagree: {found.wrong}", flush=True)
    return 1 if found.wrong else 0


if __name__ == "__main__":
    numbers = [int(argument) for argument in sys.argv[1:] if argument.isdigit()]
    run = hunt if "--quick" in sys.argv else main
    os._exit(run(numbers[0], numbers[-1]))  # a mutant may leave threads
