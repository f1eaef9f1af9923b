"""Record a random program, cut its trace, go on with it: shared by the tests of resuming."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import Any

from appl.backend import Emit, Request, Response
from appl.runtime.run import Run
from appl.runtime.scheduling import Policy
from appl.runtime.scheduling.policy import Retries
from appl.tracing import block, home
from appl.tracing.appender import Appender
from appl.tracing.resumer import Resumer, in_doubt
from appl.tracing.trace import Trace

sys.path.insert(0, str(Path(__file__).parent.parent / "tracing"))

import rehearsal


class Counting:
    """A backend that also counts what it is asked, by address."""

    def __init__(self, backend: Any) -> None:
        self._backend = backend
        self.profile = backend.profile
        self.asked: Counter[str] = Counter()

    async def complete(self, request: Request, emit: Emit | None = None) -> Response:
        self.asked[request.address] += 1
        response: Response = await self._backend.complete(request, emit)
        return response

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)


def blocks(path: Path) -> list[int]:
    """The offsets at which the blocks of a trace end."""
    found, ends = block.Scan(), list[int]()
    with path.open("rb") as file:
        for _ in block.scan(file, found):
            ends.append(found.good)
    return ends


def cut(path: Path, at: int, to: Path) -> Path:
    """A copy of the trace *path* that ends after *at* bytes: what a crash leaves."""
    to.write_bytes(path.read_bytes()[:at])
    return to


def resume(
    seed: int, path: Path, resumer: type[Resumer] = Resumer, program: Any = rehearsal.program
) -> tuple[Any, Counting, Resumer]:
    """Go on with program *seed* from its trace; its values, what was asked, and who answered."""
    live = Counting(rehearsal.backend(seed + 7))
    trace = Trace.open(path, home=home())
    doubtful = [at for at, used in trace.tools.items() if in_doubt(used, trace.reason)]
    recalled = resumer(trace, rerun=doubtful)
    appender = Appender(recalled, durability="process")
    retries = Retries(attempts=1 + seed % 2, base_s=0, spare=1000)
    try:
        with Run(
            live, instruments=[recalled, appender], gate=appender.gate, barrier=appender.barrier,
            recorded=recalled, policy=Policy(retries=retries, circuit=None),
        ):  # fmt: skip
            values = program(seed)
    finally:
        appender.close()
    return values, live, recalled
