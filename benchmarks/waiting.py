"""Memory of programs that all wait at once in one process: sync ones (fibers) and async ones.

Run: python benchmarks/waiting.py [--json FILE]
Bars: 10,000 sync programs under 1 GiB, 100,000 async programs under 4 GiB (peak of the process).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import subprocess
import sys
import time

from report import write

from appl import gen, map as appl_map, ppl
from appl.runtime.run import Run
from appl.testing import Held


class All(Held):
    """Lets everybody go when nobody can go on, and counts how many that were."""

    most = 0

    def on_idle(self, final: bool = True) -> bool:
        """Release all."""
        self.most = max(self.most, len(self.waiting))
        self.release()
        return bool(self.waiting)


@ppl
def program(i: int) -> str:
    f"Question {i}"
    answer = gen()
    return answer.upper()


@ppl
async def aprogram(i: int) -> str:
    f"Question {i}"
    answer = await gen()
    return answer.upper()


def sync_programs(n: int) -> None:
    assert len(appl_map(program, range(n), progress=False)) == n


def async_programs(n: int) -> None:
    async def all_of_them() -> list[str]:
        return await asyncio.gather(*(aprogram(i) for i in range(n)))

    assert len(asyncio.run(all_of_them())) == n


KINDS = {"sync": (sync_programs, 10_000), "async": (async_programs, 100_000)}


def measure(kind: str, n: int) -> dict[str, object]:
    """Run *n* programs of *kind* in this process."""
    backend = All(lambda request: "yes")
    base = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = time.perf_counter()
    with Run(backend):
        KINDS[kind][0](n)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert backend.most == n, f"only {backend.most} waited at once"
    return {
        "kind": kind, "programs": n, "waited_at_once": backend.most,
        "peak_mib": round(peak / 1024, 1), "kib_a_program": round((peak - base) / n, 2),
        "seconds": round(time.perf_counter() - began, 2),
    }  # fmt: skip


def main() -> None:
    """Measure each kind in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json")
    parser.add_argument("--only", choices=tuple(KINDS))
    arguments = parser.parse_args()
    if arguments.only:
        print(json.dumps(measure(arguments.only, KINDS[arguments.only][1])))
        return
    rows = []
    for kind in KINDS:
        command = [sys.executable, __file__, "--only", kind]
        rows.append(json.loads(subprocess.run(command, check=True, capture_output=True).stdout))
        print(rows[-1])
    write(arguments.json, "python benchmarks/waiting.py", rows)


if __name__ == "__main__":
    main()
