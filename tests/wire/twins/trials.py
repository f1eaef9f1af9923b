"""One kind of server and a range of programs, over real sockets."""

from __future__ import annotations

import json
import random
from contextlib import ExitStack
from pathlib import Path

from tests.wire.servers import FaultServer

from .judging import Findings, Judge, closed, loaded, written
from .kinds import KINDS

BATCH = 100
"""So many programs stand in one module."""


def judged(name: str, seeds: range, folder: Path, *, loud: bool = False) -> Findings:
    """What comes of the programs of *seeds* with the twin *name*, and with another one for some."""
    kind = KINDS[name]
    draw = random.Random(f"{name} {seeds.start}")
    others = [each for each in KINDS if each != name and not KINDS[each].by_litellm]
    findings = Findings()
    for start in range(seeds.start, seeds.stop, BATCH):
        batch = range(start, min(start + BATCH, seeds.stop))
        far = KINDS[draw.choice(others)]
        twin, other = kind.twin(), far.twin()
        with ExitStack() as stack:
            server = stack.enter_context(FaultServer(twin, kind=kind.server, fields=kind.fields))
            second = stack.enter_context(FaultServer(other, kind=far.server, fields=far.fields))
            backend, elsewhere = kind.backend(server), far.backend(second)
            stack.callback(closed, backend)
            stack.callback(closed, elsewhere)
            takes = kind.takes & far.takes
            programs = written(batch, (backend, elsewhere), takes)
            module = stack.enter_context(loaded(folder, programs))
            judge = Judge(twin, backend, (other, elsewhere), (server, second))
            judge.findings = findings
            for program in programs:
                if loud:
                    print(program.source, f"# other: {far.name}")
                judge.run(program, module)
                server.asks.clear() if not loud else None
                second.asks.clear() if not loud else None
            if loud:
                for each in (*server.asks, *second.asks):
                    print(each.path, json.dumps(each.data, ensure_ascii=False)[:3000], "\n")
    return findings


__all__ = ["judged"]
