"""What an ordinary call in a ``@ppl`` body costs over plain Python, and decorating, and importing.

Run: python benchmarks/plain.py [--json FILE]
Bars: 1 µs a call plus 12 ns an element of a container that may hold a future; 2 ms a decorated
function; 150 ms for ``import appl``, which loads no heavy library.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
import types
from collections.abc import Callable
from typing import Any

from report import write

from appl import ppl
from appl.compiler.passes import CompilerOptions, translate
from appl.runtime.run import Run
from appl.testing import Instant

REPEATS = 300
HEAVY = ("numpy", "litellm", "openai", "httpx", "aiohttp", "pydantic", "rich")


def callee(value: Any) -> None:
    """An ordinary function."""


def body(values: Any, rounds: int) -> float:
    began = time.thread_time()
    for _ in range(rounds):
        callee(values)
    return time.thread_time() - began


compiled = ppl(body)


def over_plain(values: Any, rounds: int) -> float:
    """Nanoseconds of CPU that one call costs more in a compiled body; the best of many."""

    def best(f: Callable[[Any, int], float]) -> float:
        return min(f(values, rounds) for _ in range(REPEATS)) / rounds * 1e9

    with Run(Instant()):
        return best(compiled) - best(body)


def decorating() -> float:
    """Milliseconds that compiling one function of this file takes, its cache emptied each time."""
    times = []
    for f in (over_plain, decorating, importing, main, body):
        copy = types.FunctionType(f.__code__.replace(), f.__globals__)
        began = time.perf_counter()
        translate(copy, CompilerOptions())
        times.append((time.perf_counter() - began) * 1000)
    return statistics.median(times)


def importing() -> tuple[float, list[str]]:
    """Milliseconds of ``from appl import ppl, gen, AIRole``, and heavy modules that it loads."""
    code = (
        "import time, sys; t = time.perf_counter(); from appl import ppl, gen, AIRole; "
        f"print((time.perf_counter() - t) * 1000, *[m for m in {HEAVY!r} if m in sys.modules])"
    )
    runs = []
    for _ in range(7):
        out = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
        took, *loaded = out.stdout.decode().split()
        runs.append((float(took), loaded))
    return min(runs)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json")
    arguments = parser.parse_args()
    words = [str(i) for i in range(10_000)]
    took, loaded = importing()
    found = {
        "ns_a_call": round(over_plain("text", 5_000), 1),
        "ns_an_element_of_a_list": round(over_plain(words, 10) / len(words), 2),
        "ns_an_element_of_a_dict": round(over_plain(dict.fromkeys(words, 1), 10) / len(words), 2),
        "ms_decorating": round(decorating(), 3),
        "ms_import": round(took, 1),
        "heavy_modules_imported": loaded,
    }
    for name, value in found.items():
        print(f"{name:28} {value}")
    write(arguments.json, "python benchmarks/plain.py", found)


if __name__ == "__main__":
    main()
