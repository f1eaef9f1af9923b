"""The I/O thread: it alone runs the loop, and what it is sent is done while programs wait."""

from __future__ import annotations

import asyncio
import gc
import signal
import threading

import pytest

from appl import call, gen, ppl
from appl.base.shield import Shield
from appl.runtime import Hub, Stack
from appl.runtime.scheduling.dispatcher import CommonDeadline
from appl.testing import Instant, on_backend_loop, running

MANY = 2000


class Seen(Instant):
    """Answers at once and keeps the threads that it was asked on."""

    def __init__(self):
        super().__init__()
        self.threads: set[int] = set()

    async def complete(self, request, emit=None):
        self.threads.add(threading.get_ident())
        return await super().complete(request, emit)


@ppl
def sequence(n=MANY):
    "What?"
    return [str(gen()) for _ in range(n)]


def test_a_backend_is_asked_on_one_thread_only():
    backend = Seen()
    with running(backend):
        sequence()
    assert backend.threads == {on_backend_loop(threading.get_ident)}


def test_an_answer_is_received_while_the_program_holds_a_lock_that_others_wait_for():
    lock = threading.RLock()

    class Locking(Instant):
        async def complete(self, request, emit=None):
            await asyncio.to_thread(self.look)
            return await super().complete(request, emit)

        def look(self):
            assert not lock.acquire(blocking=False)  # another thread has it

    with running(Locking()), lock:
        assert sequence(20) == ["ok"] * 20


def test_a_call_that_nobody_waits_for_goes_out_while_the_program_computes():
    asked = threading.Event()

    class Tells(Instant):
        async def complete(self, request, emit=None):
            asked.set()
            return await super().complete(request, emit)

    @ppl
    def program():
        "What?"
        last = gen()
        return asked.wait(60), str(last)

    with running(Tells()):
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
