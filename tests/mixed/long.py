"""``python -m tests.mixed.long FIRST LAST UNTIL``: judges blocks of programs until a time of day.

All that was found so far is printed after each block: who ends it early loses nothing. UNTIL is
``HH:MM``, of the clock of UTC.
"""

from __future__ import annotations

import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from .census import Found, against_plain, chosen, edited_and_rerun, gone_on, killed_and_gone_on
from .spread import killed_elsewhere, replayed_elsewhere

BLOCK = 200


def killed_and_gone_on_here(folder: Path, seeds: list[int]) -> Found:
    """One in ten of the programs in processes that are killed, gone on with and replayed."""
    return killed_and_gone_on(folder / "killed", killed_elsewhere(folder, seeds[::10]))


WAYS: dict[str, Callable[[Path, list[int]], Found]] = {
    "replayed in another process": lambda folder, seeds: replayed_elsewhere(folder, seeds, 1),
    "cut off and gone on with": gone_on,
    "killed and gone on with": killed_and_gone_on_here,
    "edited and rerun": edited_and_rerun,
}


def main(first: int, last: int, until: str) -> int:
    """Judge the programs of these seeds; 1 when there is a fault."""
    begun, sums = time.monotonic(), {name: Found() for name in ("plain Python", *WAYS)}
    print(f"{datetime.now(UTC):%Y-%m-%d %H:%M}  Python {platform.python_version()}", flush=True)
    for start in range(first, last + 1, BLOCK):
        end = min(start + BLOCK - 1, last)
        for name, found in judged(start, end).items():
            sums[name] = Found.of([sums[name], found])
        told = "; ".join(f"{name}: {found}" for name, found in sums.items())
        print(f"{first}..{end}, {time.monotonic() - begun:.0f} s: {told}", flush=True)
        if f"{datetime.now(UTC):%H:%M}" >= until:
            break
    return 1 if any(found.faults or found.predictions.wrong for found in sums.values()) else 0


def judged(first: int, last: int) -> dict[str, Found]:
    """The programs of these seeds in every way; each fault is printed when it is found."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        found = {"plain Python": against_plain(first, last, folder)}
        for way, judge in WAYS.items():
            found[way] = judge(folder, chosen(first, last))
    for way, part in found.items():
        for fault in (*part.faults, *part.predictions.wrong):
            print(f"{way}: {fault}", flush=True)
    return found


if __name__ == "__main__":
    code = main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
    sys.stdout.flush()
    os._exit(code)  # a program that hung may have left threads
