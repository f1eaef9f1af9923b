"""Record a random program, cut its trace, go on with it: shared by the tests of resuming."""

from __future__ import annotations

import random
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from appl.backend import Emit, Request, Response
from appl.testing import Policy, Retries, Run
from appl.tracing import Appender, Resumer, Trace, records
from appl.tracing.format import block, block_file, codec
from appl.tracing.replaying import Tally

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


def cut(path: Path, to: Path, dice: random.Random, least: float = 0.0) -> Path:
    """A copy of the trace *path* that ends after one of its records: what a crash leaves."""
    every = [codec.pack(record) for record in records(path)]
    count = dice.randint(max(2, int(least * len(every))), max(len(every) - 1, 2))
    to.write_bytes(block.MAGIC + block_file.Encoder().block(b"".join(every[:count])))
    return to


def ended(trace: Trace) -> set[str]:
    """The calls of *trace* that are over, so that nobody has to be asked for them again."""
    return {
        call.address
        for call in trace.calls
        if call.outcome in ("answered", "failed") and call.started is not None
    }


def resume(
    seed: int,
    path: Path,
    resumer: type[Resumer] = Resumer,
    program: Any = rehearsal.program,
    backend: Any = None,
    tally: Tally | None = None,
) -> tuple[Any, Counting, Resumer]:
    """Go on with program *seed* from its trace; its values, what was asked, and who answered."""
    live = Counting(backend or rehearsal.backend(seed + 7))
    trace = Trace.open(path)
    doubtful = rehearsal.in_doubt(trace)
    recalled = resumer(trace, rerun=doubtful)
    appender = Appender(recalled, durability="process")
    retries = Retries(attempts=1 + seed % 2, base_s=0, spare=1000)
    try:
        with Run(
            live, instruments=[recalled, appender, tally or Tally()], gate=appender.gate,
            barrier=appender.barrier, world=recalled,
            policy=Policy(retries=retries, circuit=None),
        ):  # fmt: skip
            values = program(seed)
    finally:
        appender.close()
    return values, live, recalled
