"""``python -m tests.mixed N``: judges N programs in every way, and prints what it found.

``python -m tests.mixed elsewhere FOLDER SEED…`` replays what another process has recorded there,
and prints the faults as JSON.

``python -m tests.mixed killed FOLDER SEED…`` records programs there in processes that are killed,
and prints which were.

``python -m tests.mixed predictions FIRST LAST`` judges predictions of edited programs alone.

``python -m tests.mixed hunt WAY FEATURE FIRST N`` says which of N programs with FEATURE is wrong first.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path

from .census import against_plain, chosen, edited_and_rerun, elsewhere
from .hunting import hunted
from .kills import killed
from .predicting import Predictions
from .spread import Judged, judged


def told(found: Judged) -> str:
    """The census, and what each way found."""
    shares = sorted(found.plain.shares().items(), key=lambda each: -each[1])
    lines = [f"{found.plain.programs} programs; share of programs with"]
    lines += [f"  {name:20}{share:6.1%}  {'#' * round(40 * share)}" for name, share in shares]
    return "\n".join([*lines, *(f"{name}: {part}" for name, part in found.parts.items())])


def main(first: int, last: int) -> int:
    """Judge the programs of these seeds; 1 when there is a fault."""
    with tempfile.TemporaryDirectory() as folder:
        found = judged(first, last, Path(folder))
    print(told(found), flush=True)
    for fault in found.faults[:20]:
        print(fault, flush=True)
    return 1 if found.faults else 0


def predictions(first: int, last: int) -> int:
    """Judge the predictions for the programs of these seeds; 1 when one is wrong."""
    every = Predictions()
    with tempfile.TemporaryDirectory() as folder:
        for number, seed in enumerate(chosen(first, last), 1):
            against_plain(seed, seed, Path(folder))
            found = edited_and_rerun(Path(folder), [seed])
            every += found.predictions
            for fault in (*found.faults, *found.predictions.wrong):
                print(fault, flush=True)
            if number % 50 == 0 or seed == last:
                print(f"{first}..{seed}: {number} edited programs: {every}", flush=True)
    return 1 if every.wrong else 0


if __name__ == "__main__":
    if sys.argv[1] == "elsewhere":
        again = elsewhere(Path(sys.argv[2]), [int(seed) for seed in sys.argv[3:]])
        print(
            json.dumps({"programs": again.programs, "faults": again.faults, "hangs": again.hangs})
        )
        code = 0
    elif sys.argv[1] == "killed":
        print(json.dumps(killed(Path(sys.argv[2]), [int(seed) for seed in sys.argv[3:]])))
        code = 0
    elif sys.argv[1] == "predictions":
        code = predictions(int(sys.argv[2]), int(sys.argv[3]))
    elif sys.argv[1] == "hunt":
        number = hunted(sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5]))
        print("none is wrong" if number is None else f"disagrees: {number}")
        code = 0 if number is None else 1
    else:
        numbers = [int(argument) for argument in sys.argv[1:]]
        code = main(1, numbers[0]) if len(numbers) == 1 else main(numbers[0], numbers[1])
    sys.stdout.flush()
    os._exit(code)  # a program that hung may have left threads
