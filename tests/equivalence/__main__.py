"""``python -m tests.equivalence SEED [LAST]``: judges programs; explains the first disagreement."""

from __future__ import annotations

import sys

from .compare import judge, same_sort
from .programs import program
from .shrink import shrunk


def main(first: int, last: int) -> int:
    for seed in range(first, last + 1):
        verdict = judge(program(seed))
        if verdict.problem is not None:
            small = shrunk(program(seed), same_sort(verdict))
            print(small.source(), small.plain(), sep="\n# ---- plain\n")
            print(f"seed {seed}: {judge(small).problem}")
            return 1
    print(f"{last - first + 1} programs agree")
    return 0


if __name__ == "__main__":
    numbers = [int(argument) for argument in sys.argv[1:]]
    sys.exit(main(numbers[0], numbers[-1]))
