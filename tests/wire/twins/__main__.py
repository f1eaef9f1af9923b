"""``python -m tests.wire.twins [COUNT] [--from SEED] [NAME …]``: programs against twins, counted.

``--show SEED NAME`` prints a program, and what came of it.
"""

from __future__ import annotations

import re
import sys
import tempfile
import time
from pathlib import Path

from .judging import Findings
from .kinds import KINDS
from .trials import judged


def main(arguments: list[str]) -> int:
    """Run the programs; 1 if a request was refused, or a text was lost."""
    first, count, names = 0, 2000, list[str]()
    while arguments:
        word = arguments.pop(0)
        if word == "--from":
            first = int(arguments.pop(0))
        elif word == "--show":
            return show(int(arguments.pop(0)), arguments.pop(0))
        elif word.isdigit():
            count = int(word)
        else:
            names.append(word)
    wrong = False
    for name in names or KINDS:
        start = time.process_time()
        found = trial(name, range(first, first + count))
        rules = len(KINDS[name].twin.rules)
        print(f"{name}: {rules} rules, {found}, {time.process_time() - start:.0f} s", flush=True)
        for line in few([*found.refused, *found.lost]):
            print(f"    {line}", flush=True)
        wrong = wrong or bool(found.refused or found.lost)
    return int(wrong)


def few(lines: list[str]) -> list[str]:
    """Three of each kind of *lines*, with the number of all of them."""
    kinds: dict[str, list[str]] = {}
    for line in lines:
        kinds.setdefault(re.sub(r"[\d#]+.*|'.*", "", line.partition(": ")[2])[:50], []).append(line)
    return [line for found in kinds.values() for line in [f"{len(found)} like", *found[:3]]]


def trial(name: str, seeds: range) -> Findings:
    with tempfile.TemporaryDirectory(prefix="twins-") as folder:
        return judged(name, seeds, Path(folder))


def show(seed: int, name: str) -> int:
    with tempfile.TemporaryDirectory(prefix="twins-") as folder:
        found = judged(name, range(seed, seed + 1), Path(folder), loud=True)
    for line in [*found.refused, *found.lost]:
        print(line)
    print(found)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
