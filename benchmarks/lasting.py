"""What one run that lasts keeps of each call that is over: ``python benchmarks/lasting.py``.

Resident memory after a collection, at two numbers of calls in one run, in bytes for each call in
between. The calls are distinct, and nobody refers to their answers. Beside it stands a bare loop.
"""

from __future__ import annotations

import ctypes
import datetime
import gc
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from report import kept, printed

FIRST, LAST = 2_000, 102_000
KINDS = ("bare loop", "without a trace", "with a trace", "with a trace, eight at once")
BARS = {"without a trace": 100, "with a trace": 300, "with a trace, eight at once": 300}


def resident() -> int:
    """The resident memory of this process in bytes, without what is free in it."""
    gc.collect()
    ctypes.CDLL("libc.so.6").malloc_trim(0)
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def measured(kind: str) -> float:
    """Bytes of each call that is over, for *kind*; in a process of its own."""
    os.chdir(tempfile.mkdtemp())
    if kind == "bare loop":
        return _of(
            lambda start, count: [f"{n}".upper() for n in range(start, count)], nullcontext()
        )
    import appl
    from appl import gen, ppl

    @ppl
    def ask(number: int) -> object:
        f"Question {number}: what is it?"
        return gen(max_tokens=8)

    def one_by_one(start: int, stop: int) -> None:
        for number in range(start, stop):
            str(ask(number))

    def at_once(start: int, stop: int) -> None:
        for number in range(start, stop, 8):
            [str(each) for each in [ask(number + more) for more in range(8)]]

    act = at_once if "at once" in kind else one_by_one
    return _of(act, appl.record(backend="appl.testing:Instant", trace="without" not in kind))


def _of(act: Callable[[int, int], object], block: AbstractContextManager[object]) -> float:
    with block:
        act(0, FIRST)
        before = resident()
        act(FIRST, LAST)
        return (resident() - before) / (LAST - FIRST)


def main() -> None:
    if sys.argv[1:]:
        print(measured(" ".join(sys.argv[1:])))
        return
    lines = [
        f"{datetime.date.today()}  $ python benchmarks/lasting.py",
        f"Python {sys.version.split()[0]}, one run, calls {FIRST:,} to {LAST:,}",
        "",
    ]
    for kind in KINDS:
        done = subprocess.run(
            [sys.executable, __file__, *kind.split()], check=True, capture_output=True, text=True
        )
        bar = f"   (bar: {BARS[kind]})" if kind in BARS else ""
        lines.append(f"{kind:30} {float(done.stdout):8.0f} bytes a call{bar}")
    printed(lines, kept("lasting.txt"))


if __name__ == "__main__":
    main()
