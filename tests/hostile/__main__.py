"""Reads very many hostile files: ``python -m tests.hostile [COUNT] [--processes N] [--from SEED]``.

What is wrong is printed when it is found, with the number of its file: ``1 --from SEED`` reads that
file alone. What 100,000 files or more gave is written, with the date, to
``benchmarks/results/hostile.txt``.
"""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from .judging import Verdict, judged, merged, parts

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results" / "hostile.txt"
_SHOWN = 20
_PART, _MANY = 10_000, 100_000


def in_processes(seeds: range, count: int) -> Verdict:
    """The verdict over *seeds*, read by *count* processes whose memory is their own.

    Raises ``CalledProcessError`` for one that failed; it has printed at which file.
    """
    words = [sys.executable, "-m", __spec__.parent if __spec__ else __package__, "--worker"]
    running = [
        subprocess.Popen(
            [*words, str(part.start), str(part.stop)], stdout=subprocess.PIPE, text=True
        )
        for part in parts(seeds, count)
    ]
    said = [each.communicate()[0] for each in running]
    for each in running:
        if each.returncode:
            raise subprocess.CalledProcessError(each.returncode, each.args)
    return merged(said)


def report(given: argparse.Namespace, whole: Verdict, seconds: float) -> Iterator[str]:
    """The lines of the result, as far as the files were read."""
    yield f"{datetime.date.today()}  $ python -m tests.hostile {given.count} --from {given.first}"
    yield (
        f"Python {platform.python_version()}, {given.processes} processes on {os.cpu_count()} cores "
        f"(load average {os.getloadavg()[0]:.0f}), {seconds / 60:.0f} minutes"
    )
    yield f"\n{whole}\n"
    yield from (f"{count:>9,}  {way.strip('_')}" for way, count in sorted(whole.ways.items()))
    yield ""
    yield from (f"{count:>9,}  read by {name}" for name, count in sorted(whole.readings.items()))
    yield from (whole.wrong + whole.untyped + whole.escapes)[:_SHOWN]


def main(given: argparse.Namespace) -> int:
    """Read the files, and say what was found; 0 when all was right."""
    if given.worker:
        with tempfile.TemporaryDirectory() as folder:
            print(judged(range(*given.worker), Path(folder)).as_json())
        return 0
    began, whole = time.monotonic(), Verdict()
    for part in parts(range(given.first, given.first + given.count), max(1, given.count // _PART)):
        whole.add(in_processes(part, given.processes))
        if given.count >= _MANY:
            RESULTS.write_text("\n".join(report(given, whole, time.monotonic() - began)) + "\n")
        print(whole, flush=True)
    return 0 if whole.clean else 1


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("count", nargs="?", type=int, default=500_000)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--from", dest="first", type=int, default=1_000_000)
    parser.add_argument("--worker", nargs=2, type=int, help=argparse.SUPPRESS)
    sys.exit(main(parser.parse_args()))
