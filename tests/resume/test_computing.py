"""Who computes before he asks is waited for: his answer came first then, and comes first again."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from test_resuming import go_on, numbered, record, replay, without_end

from appl import gen, ppl
from appl.tracing import Trace

WORK = {"seconds": 0.0}
"""What the programs below compute for: nothing in the first run, where answers are slow."""


def works() -> None:
    end = time.monotonic() + WORK["seconds"]
    while time.monotonic() < end:
        pass


@ppl
def ask(question: str) -> str:
    f"{question}"
    return str(gen())


@ppl
async def asks(question: str) -> str:
    f"{question}"
    return str(await gen())


def on_a_loop(prepares: Callable[[], object]) -> list[str]:
    """One task prepares, and then asks; another one asks meanwhile."""
    log: list[str] = []

    async def slow() -> None:
        await prepares()  # type: ignore[misc]
        log.append(await asks("slow"))

    async def quick() -> None:
        for number in range(3):
            log.append(await asks(f"quick {number}"))

    async def main() -> None:
        await asyncio.gather(slow(), quick())

    asyncio.run(main())
    return log


def in_a_worker() -> list[str]:
    return on_a_loop(lambda: asyncio.to_thread(works))


def after_a_timer() -> list[str]:
    async def prepares() -> None:
        await asyncio.sleep(0)
        await asyncio.sleep(WORK["seconds"] / 10)
        works()

    return on_a_loop(prepares)


def in_a_thread() -> list[str]:
    log: list[str] = []

    def slow() -> None:
        works()
        log.append(ask("slow"))

    def quick() -> None:
        for number in range(3):
            log.append(ask(f"quick {number}"))

    threads = [threading.Thread(target=each) for each in (slow, quick)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return log


def check(path: Path, program: Callable[[], list[str]], seconds: float) -> None:
    """A replay, and a run that goes on, are told what the first run was told, in its order."""
    WORK["seconds"] = 0.0
    log = record(path, program, numbered())
    last = max(
        (call for call in Trace.open(path).calls if call.delivered is not None),
        key=lambda call: call.delivered or 0,
    )
    WORK["seconds"] = seconds
    try:
        assert replay(path, program) == log
        values, live, _ = go_on(without_end(path, last.address), program, numbered())
        assert values[:3] == log[:3] and list(live.asked) == [last.address]
    finally:
        WORK["seconds"] = 0.0


def test_who_computes_for_a_moment_is_waited_for(tmp_path: Path) -> None:
    check(tmp_path / "t.trace", in_a_worker, 0.05)


@pytest.mark.long
@pytest.mark.parametrize("program", [in_a_worker, after_a_timer, in_a_thread])
def test_who_computes_for_three_seconds_is_waited_for(
    tmp_path: Path, program: Callable[[], list[str]]
) -> None:
    check(tmp_path / "t.trace", program, 3.0)
