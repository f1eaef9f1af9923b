"""A program that counts the function calls of runs: all that a run of one call takes, from its
opening to its end, on all threads; recorded with ``recorded`` as its argument.

What goes by time or by the number of modules is left out: timers, the watchdog, the loops' rounds.
"""

from __future__ import annotations

import sys
import threading
from collections import Counter
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import appl

RUNS = 20
BY_TIME = ("base_events.py", "selectors.py", "events.py", "watchdog.py", "loop_thread.py")
counts: Counter[CodeType] = Counter()
counting = False


def note(frame: FrameType, what: str, argument: Any) -> None:
    if counting and what == "call" and not frame.f_code.co_filename.endswith(BY_TIME):
        counts[frame.f_code] += 1


@appl.ppl
def main() -> str:
    "Hello"
    return str(appl.gen())


def run(times: int) -> int:
    """Run *times* times; the function calls of the run that took the fewest."""
    least = 1 << 60
    for _ in range(times):
        counts.clear()
        assert appl.run(main)
        least = min(least, sum(counts.values()))
    return least


threading.setprofile(note)
sys.setprofile(note)
Path(".git").mkdir()  # where the search for settings ends
appl.init(backend="appl.testing:Echo", trace=sys.argv[1] == "recorded", home=Path("home"))
run(3)
counting = True
least = run(RUNS)
counting = False
print(least)
for code, number in counts.most_common(40):
    print(f"{number:5} {Path(code.co_filename).name} {code.co_qualname}")
