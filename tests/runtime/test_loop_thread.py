"""Who runs the I/O loop: answers that come at once, or nearly so, need no other thread."""

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
from appl.runtime.concurrency.loop_thread import FAST_S, LoopThread, io_thread
from appl.runtime.scheduling.dispatcher import CommonDeadline
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


class Waits(Seen):
    """Answers after a moment, in which the loop polls; keeps who was answered by whom, too.

    The answer that comes after a *slow* one was asked for is slow.
    """

    def __init__(self):
        super().__init__()
        self.answered: list[int] = []
        self.slow = False

    async def complete(self, request, emit=None):
        self.threads.append(threading.get_ident())
        slow, self.slow = self.slow, False
        await (asyncio.sleep(10 * FAST_S) if slow else asyncio.to_thread(lambda: None))
        self.answered.append(threading.get_ident())
        return await Instant.complete(self, request, emit)

    def by(self):
        """Whether the program's thread asked and waited for the last answer: one of each."""
        main = threading.main_thread().ident
        return self.threads[-1] == main, self.answered[-1] == main


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
        await asyncio.sleep(2 * FAST_S)

    backend = Seen(waits)
    with running(backend):
        until(lambda: backend.first is None)
    assert backend.finished


def test_who_waits_for_an_answer_that_comes_soon_polls_for_it_himself():
    backend = Waits()
    with running(backend):
        until(lambda: backend.answered and backend.by() == (True, True))


def test_a_long_wait_for_an_answer_is_left_to_the_io_thread():
    backend = Waits()

    def slow_is_left():
        if not backend.answered:
            return False
        begun, backend.slow = backend.slow, backend.by() == (True, True)
        return not begun and backend.by() == (True, False)

    with running(backend):
        until(slow_is_left)


def test_a_thread_is_heard_while_a_program_polls():
    heard = threading.Event()

    async def asks_a_thread():
        # The other thread sends an action while the program's thread polls, or just before.
        await asyncio.to_thread(lambda: (io_thread().send(heard.set), heard.wait(60)))

    backend = Seen(asks_a_thread)
    with running(backend):
        until(lambda: backend.first is None)
    assert backend.finished


def test_ctrl_c_while_the_program_polls_ends_its_wait():
    async def waits():
        asyncio.get_running_loop().call_soon(signal.raise_signal, signal.SIGINT)
        await asyncio.sleep(600)

    backend = Seen(waits)
    with pytest.raises(KeyboardInterrupt), running(backend):
        until(lambda: False)
    assert backend.first is None
    with running(Instant()):
        assert sequence(10) == ["ok"] * 10


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
