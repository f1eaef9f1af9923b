"""Shared beginnings sent ahead never, always and where it pays, on a simulated server.

Run: python benchmarks/warming.py

The clock is virtual; which calls of the chain are looked at together is not, so that its figures
differ a little from run to run. The server computes a beginning in each
prompt of a batch of 8,192 tokens; a request takes ``trip_s`` besides. Loads are groups × branches ×
tokens that the branches of a group share, and a chain: 64 programs of six calls, with a template of
160 words for each step. ``judge`` are 48 essays that are judged in five ways and then once more.
Figures are the seconds of the whole load, and the tokens computed; ``after others`` is where it
pays, in a process that has asked the same server for two loads before.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import appl
from appl import gen, ppl
from appl.runtime.run import Run
from appl.testing import Policy, VirtualClock
from appl.testing.radix import RadixServer

SERVERS: list[dict[str, Any]] = [
    {"trip_s": 0.04},
    {"trip_s": 0.15},
    {"prefill": 2000, "trip_s": 0.01},
]
GROUPS = [
    (1, 8, 200), (1, 64, 200), (1, 10, 2000), (8, 10, 2048), (32, 4, 1024), (4, 64, 4096),
    (4, 8, 12288), (1, 4, 600),
]  # fmt: skip

BEFORE = ("1 × 64 × 200", "8 × 10 × 2048")


def said(name: str, words: int) -> str:
    """*words* words that no other name has."""
    return " ".join(f"{name}-{at}" for at in range(words))


@ppl(ctx="copy")
def branch(name: str) -> Any:
    f"{said(name, 24)}"
    return gen(max_tokens=32)


@ppl
def group(name: str, shared: int, branches: int) -> list[Any]:
    f"{said(name, shared)}"
    return [branch(f"{name}.{at}") for at in range(branches)]


@ppl
def groups(number: int, branches: int, shared: int) -> list[str]:
    found = [group(f"g{at}", shared, branches) for at in range(number)]
    return [str(answer) for answers in found for answer in answers]


@ppl
def step(number: int, before: Any) -> Any:
    f"{said(f'template{number}', 160)}"
    f"{before}"
    return gen(max_tokens=32)


@ppl
def chain(number: int) -> Any:
    before: Any = said(f"begin{number}", 24)
    for at in range(6):
        before = step(at, before)
    return before


@ppl
def essay(number: int) -> str:
    f"{said(f'essay{number}', 400)}"
    judged = [branch(f"essay{number}.{at}") for at in range(5)]
    f"{said(f'sum{number}', 8)}"
    for each in judged:
        f"{each}"
    return str(gen(max_tokens=32))


def judge() -> list[str]:
    """All essays at once."""
    return list(appl.map(essay, range(48), progress=False))


def chains() -> list[str]:
    """All chains at once."""
    return [str(answer) for answer in appl.map(chain, range(64), progress=False)]


def measured(server: RadixServer, load: Callable[[], object], warm: Any = True) -> str:
    """The seconds of *load* and the tokens computed for it."""
    began, computed = server.clock.now(), server.computed
    with Run(server, policy=Policy(clock=server.clock, warm=warm)):
        load()
    return f"{server.clock.now() - began:6.2f} s ({server.computed - computed:6})"


def main() -> None:
    loads: dict[str, Callable[[], object]] = {"chain": chains, "judge": judge}
    for number, branches, shared in GROUPS:
        name = f"{number} × {branches} × {shared}"
        loads[name] = lambda load=(number, branches, shared): groups(*load)  # type: ignore[misc]
    for times in SERVERS:

        def server(times: dict[str, Any] = times) -> RadixServer:
            return RadixServer(VirtualClock(), 1_000_000, together=False, **times)

        print(", ".join(f"{name} {value}" for name, value in times.items()))
        for name, load in loads.items():
            found = [measured(server(), load, warm) for warm in (False, "always", True)]
            used = server()
            for other in BEFORE:
                measured(used, loads[other])
            used.flush()
            found.append(measured(used, load))
            print(
                f"  {name:14} never {found[0]}  always {found[1]}  where it pays {found[2]}  "
                f"after others {found[3]}",
                flush=True,
            )


if __name__ == "__main__":
    main()
