"""Who runs the I/O loop: answers that come at once need no other thread."""

from __future__ import annotations

import asyncio
import gc
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from appl import call, gen, ppl
from appl.runtime.concurrency.fiber import Hub, Stack
from appl.runtime.concurrency.loop_thread import LoopThread, io_thread
from appl.runtime.scheduling.deadlines import CommonDeadline
from appl.shield import Shield
from appl.testing import Instant, Log, running

MANY = 2000
ROOT = Path(__file__).parents[2]


class Seen(Instant):
    """Answers at once and keeps the threads that it was asked on; *first* is done on the first."""

    def __init__(self, first=None):
        super().__init__()
        self.threads: list[int] = []
        self.first = first

    async def complete(self, request, emit=None):
        self.threads.append(threading.get_ident())
        if self.first is not None and self.here():
            first, self.first = self.first, None
            await first() if asyncio.iscoroutinefunction(first) else first()
            self.finished = True
        return await super().complete(request, emit)

    def here(self):
        """Whether the program's thread was asked."""
        return self.threads[-1] == threading.main_thread().ident


@ppl
def sequence(n=MANY):
    "What?"
    return [str(gen()) for _ in range(n)]


@ppl
def until(seen):
    """Ask one after the other until *seen* says so."""
    "What?"
    for _ in range(100_000):
        if seen():
            return str(gen())
        str(gen())
    raise AssertionError(f"not seen; {io_thread().workers} under way")


def test_who_waits_for_answers_that_come_at_once_gets_them_himself():
    backend, runs = Seen(), threading.Event()
    io_thread().send(runs.set)
    io_thread().recall()
    assert runs.wait(60)
    with running(backend):
        until(lambda: backend.threads and backend.here())
    assert backend.threads[0] != threading.main_thread().ident


def test_a_backend_with_things_of_a_thread_is_asked_on_one_thread_only():
    code = """
from dataclasses import replace
from tests.runtime.test_loop_thread import Seen, running, sequence
backend = Seen()
backend.profile = replace(backend.profile, thread_bound=True)
with running(backend):
    sequence()
assert len(set(backend.threads)) == 1 and not backend.here()
"""
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT, timeout=60)


def test_a_wait_in_the_backend_is_left_to_the_io_thread():
    async def waits():
        await asyncio.to_thread(lambda: None)
        await asyncio.sleep(0.001)

    backend = Seen(waits)
    with running(backend):
        until(lambda: backend.first is None)
    assert backend.finished


def test_a_call_that_nobody_waits_for_goes_out_while_the_program_computes():
    backend = Seen()
    asked = threading.Event()

    @ppl
    def program():
        "What?"
        until(lambda: backend.threads and backend.here())
        backend.first = asked.set
        backend.here = lambda: True
        last = gen()
        return asked.wait(60), str(last)

    with running(backend):
        assert program() == (True, "ok")


def test_programs_of_several_threads_share_the_loop():
    with running(Instant()):
        futures = [call(lambda: sequence(300)) for _ in range(4)]
        assert all(future.result() == ["ok"] * 300 for future in futures)


def test_a_coroutine_gets_its_answers_while_a_thread_runs_the_loop():
    async def main():
        done = False

        def busy():
            while not done:
                sequence(10)

        thread = asyncio.create_task(asyncio.to_thread(busy))
        answers = [await gen(messages="x") for _ in range(50)]
        done = True
        await thread
        return answers

    with running(Instant()):
        assert asyncio.run(main()) == ["ok"] * 50


def test_ctrl_c_while_the_program_runs_the_loop_breaks_off_no_work_of_the_backend():
    backend, log = Seen(lambda: signal.raise_signal(signal.SIGINT)), Log()
    with pytest.raises(KeyboardInterrupt), running(backend, instruments=[log]):
        until(lambda: False)
    assert backend.finished
    with running(Instant()):
        assert sequence(10) == ["ok"] * 10


def test_handlers_of_shielded_signals_are_called_after_it_in_order():
    seen = []
    before = {
        number: signal.signal(number, lambda number, frame: seen.append(number))
        for number in (signal.SIGUSR1, signal.SIGUSR2)
    }
    try:
        with Shield():
            signal.raise_signal(signal.SIGUSR2)
            signal.raise_signal(signal.SIGUSR1)
            signal.raise_signal(signal.SIGUSR2)
            assert seen == []
        assert seen == [signal.SIGUSR2, signal.SIGUSR1, signal.SIGUSR2]
        signal.raise_signal(signal.SIGUSR1)
        assert seen[3:] == [signal.SIGUSR1]
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def test_an_io_thread_that_lends_its_loop_to_nobody():
    io, done = LoopThread(), threading.Event()
    io.stop_lending()
    io.send(done.set)
    assert done.wait(60)


def test_programs_that_have_ended_leave_nothing_to_be_collected():
    gc.collect()
    gc.disable()
    try:
        before = stacks()
        with running(Instant()):
            for _ in range(1000):
                assert call(sequence, 1).result() == ["ok"]
            left = stacks() - before
        assert left < 500  # of 1,000: those that the run knows of still
    finally:
        gc.enable()


def stacks():
    """The number of stacks of programs that are in memory; other tests may have left some."""
    return sum(type(held) is Stack for held in gc.get_objects())


@pytest.mark.parametrize("kind", [Hub, CommonDeadline])
def test_runs_and_threads_that_have_ended_leave_nothing(kind):
    ask_in_runs(2)
    before = in_memory(kind)
    ask_in_runs(20)
    assert in_memory(kind) <= before


def ask_in_runs(count):
    for _ in range(count):
        thread = threading.Thread(target=ask_in_a_run)
        thread.start()
        thread.join()


def ask_in_a_run():
    with running(Instant()):
        assert call(sequence, 1).result() == ["ok"]


def in_memory(kind):
    """The number of objects of this class that are left after a collection."""
    gc.collect()
    return sum(type(thing) is kind for thing in gc.get_objects())
