"""Programs that nobody has edited, at moments when it seems that all of them wait: they ask nobody.

While a program does something outside of appl, the rerun is told that everybody rests, and so it
might go on with what it holds: with calls that the program cancels as it did then, with answers
that came later then, with limits of time that struck later.
"""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import appl
from appl import call, gen, ppl
from appl.errors import CallCancelled
from appl.testing import Fake, Run
from appl.tracing import Recorder, Rerunner, Trace, profile_data

Outside = Callable[[], object]


class Half(Fake):
    """Answers what is not silent, and what is slow after what is fast."""

    fast = False

    async def complete(self, request: Any, emit: Any = None) -> Any:
        asked = request.messages.message.content
        if asked == "silent":
            await asyncio.get_running_loop().create_future()
        self.fast = self.fast or asked == "fast"
        while asked == "slow" and not self.fast:
            await asyncio.sleep(0)
        return await super().complete(request, emit)


class Told(Rerunner):
    """One that is asked to look whenever the program is outside, and goes on once it has."""

    def __init__(self, trace: Trace, looks: int = 1) -> None:
        super().__init__(trace)
        self._looks, self._left, self._told = looks, 0, threading.Event()

    def idle(self, final: bool = True) -> bool:
        handed_over = super().idle(final)
        self._left -= 1
        if self._left <= 0:
            self._told.set()
        return handed_over

    def outside(self) -> None:
        """Be somewhere outside of appl until everybody seems to rest."""
        self._left = self._looks
        self._told.clear()
        self.programs.look_soon()
        assert self._told.wait(20)


def nothing(*_: object) -> None:
    pass


@ppl
def ask(word: str) -> str:
    f"{word}"
    return str(gen())


def left_in(place: Callable[[Callable[[], object]], None]) -> None:
    place(lambda: nothing(call(ask, "silent")))


def in_thread(work: Callable[[], object]) -> None:
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


def in_loop(work: Callable[[], object]) -> None:
    async def main() -> None:
        work()
        await asyncio.sleep(0)

    asyncio.run(main())


def after_a_thread(outside: Outside) -> str:
    """The first call of the program is made on a thread that ends."""
    left_in(in_thread)
    outside()
    return ask("mouse")


def after_a_loop(outside: Outside) -> str:
    """The thread goes on after the loop in which it was."""
    first = ask("cat")
    left_in(in_loop)
    outside()
    return first + ask("mouse")


def cancelled_later(outside: Outside) -> str:
    async def main() -> str:
        left = call(ask, "silent")
        await asyncio.to_thread(outside)
        left.cancel()
        return await call(ask, "mouse")

    return asyncio.run(main())


def a_limit_struck_later(outside: Outside) -> str:
    async def main() -> str:
        try:
            async with appl.timeout(1):
                await asyncio.to_thread(outside)
                found = str(await call(ask, "mouse"))
                return found + str(await call(ask, "silent"))
        except TimeoutError:
            return f"{found} and no more"

    return asyncio.run(main())


def in_the_order_of_then(outside: Outside) -> str:
    async def main() -> str:
        heard: list[str] = []

        async def note(word: str) -> None:
            if word == "fast":
                await asyncio.to_thread(outside)
            heard.append(str(await call(ask, word)))

        await asyncio.gather(note("slow"), note("fast"))
        return await call(ask, " ".join(heard))

    return asyncio.run(main())


PROGRAMS = [
    after_a_thread,
    after_a_loop,
    cancelled_later,
    a_limit_struck_later,
    in_the_order_of_then,
]


def answer(request: Any) -> str:
    return str(request.messages.message.content.upper())


def recorded(path: Path, program: Callable[[Outside], str]) -> str:
    backend = Half(answer)
    recorder = Recorder(path, {"profile": profile_data(backend.profile)}, durability="process")
    try:
        run = Run(backend, instruments=[recorder], gate=recorder.gate, barrier=recorder.barrier)
        run.reporter.tell = nothing
        with run:
            return program(nothing)
    finally:
        recorder.close()


@pytest.mark.parametrize("program", PROGRAMS)
def test_who_is_outside_for_a_moment_is_waited_for(
    tmp_path: Path, program: Callable[[Outside], str]
) -> None:
    value = recorded(tmp_path / "a.trace", program)
    asks_nobody(Told(Trace.open(tmp_path / "a.trace")), program, value)


def asks_nobody(again: Told, program: Callable[[Outside], str], value: str) -> None:
    live = Fake(answer)
    run = Run(live, world=again)
    run.reporter.tell = nothing
    with run:
        assert program(again.outside) == value
    assert not live.requests and not again.asked


def cancelled_by_another_thread(outside: Outside) -> str:
    left = call(ask, "silent")

    def cancel() -> None:
        outside()
        left.cancel()

    other = threading.Thread(target=cancel)
    other.start()
    with contextlib.suppress(CallCancelled):
        str(left)
    other.join()
    return ask("mouse")


@pytest.mark.parametrize("program", [cancelled_by_another_thread, cancelled_later])
def test_what_was_cancelled_after_a_long_time_is_not_asked_soon(
    tmp_path: Path, program: Callable[[Outside], str]
) -> None:
    value = recorded(tmp_path / "a.trace", program)
    trace = Trace.open(tmp_path / "a.trace")
    for each in trace.calls:
        if each.outcome == "cancelled" and each.ended is not None:
            each.ended += 3600 * 10**6
    asks_nobody(Told(trace, looks=20), program, value)


RAISED = """
import sys, threading
from pathlib import Path
sys.path.insert(0, str(Path({here!r}).parent))
from test_unedited import *

def program(seconds):
    with contextlib.suppress(TimeoutError), appl.timeout(seconds):
        return ask("silent")
    return "late"

path = Path({folder!r}) / "a.trace"
print(recorded(path, lambda _: program(0.01)))
trace = Trace.open(path)
trace.calls[0].ended += 3600 * 10**6
with Run(Fake(answer), world=Rerunner(trace)):
    print(program(1800))
"""


def test_where_no_other_thread_is_what_is_cancelled_no_more_is_asked_soon(tmp_path: Path) -> None:
    text = RAISED.format(here=__file__, folder=str(tmp_path))
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=60)
    assert done.stdout.split() == ["late", "SILENT"], done.stderr
