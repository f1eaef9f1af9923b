"""When all programs of a run rest: whoever holds something back is told at once, and not too soon."""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import queue
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from appl import call, gen, map as appl_map, ppl
from appl.errors import ReplayStuck, TraceCorrupt
from appl.runtime import Hub, IdleDetection, hub_here, io_thread
from appl.runtime.concurrency.effort import waits_for_another, waits_for_work
from appl.runtime.world import Live
from appl.testing import Fake, Run, Seeded
from appl.tracing import Recorder, Replayer, Rerunner, Resumer, profile_data


def watch() -> IdleDetection:
    """The watch over a run of which nothing is on its way."""
    run: Any = SimpleNamespace(over=False, busy=False)
    return IdleDetection(run, lambda final=True: False)


def on_a_thread(detection: IdleDetection, rests: bool) -> Hub:
    """The hub of a thread that has joined *detection*, and ended."""
    made: list[Hub] = []

    def program() -> None:
        hub = Hub()
        detection.joins(hub)
        if rests:
            hub.leaves()
        made.append(hub)

    thread = threading.Thread(target=program)
    thread.start()
    thread.join()
    return made[0]


def test_a_thread_that_has_ended_keeps_nobody_from_resting() -> None:
    detection = watch()
    for rests in (True, False):
        on_a_thread(detection, rests)
        assert detection.rests


class Ending(Hub):
    """A hub whose thread ends between two looks at it, having moved *other* before, if any."""

    def __init__(self, other: Hub | None = None) -> None:
        super().__init__()
        self._other, self._looks = other, 0

    def alive(self) -> bool:
        self._looks += 1
        if self._looks == 2 and self._other is not None:
            self._other.turns += 1
        return self._looks < 2


def test_a_thread_may_end_between_two_looks() -> None:
    detection, ending = watch(), Ending()
    detection.joins(ending)
    ending.leaves()
    assert detection.rests


def test_whom_it_has_woken_before_does_not_rest_yet() -> None:
    detection, other = watch(), Hub()
    for hub in (Ending(other), other):
        detection.joins(hub)
        hub.leaves()
    assert not detection.rests
    assert detection.rests, "it has come to rest since"


# -- what a replay waits for

FEW = 5
"""Of some dozens of deliveries: a machine that has no time for a thread may cost a wait or two."""


def record(path: Path, program: Callable[[], Any], backend: Any) -> Any:
    recorder = Recorder(path, {"profile": profile_data(backend.profile)}, durability="process")
    try:
        with Run(backend, instruments=[recorder], gate=recorder.gate, barrier=recorder.barrier):
            return program()
    finally:
        recorder.close()


def replay(path: Path, program: Callable[[], Any]) -> tuple[Any, int]:
    """What *program* gives, and how often somebody was waited for in vain."""
    replayer = Replayer(path)
    run = Run(replayer.backend, instruments=[replayer], world=replayer)
    with run:
        value = program()
    replayer.finish()
    assert run.outside.idle_detection is not None
    return value, run.outside.idle_detection.waits


def resume(path: Path, program: Callable[[], Any]) -> tuple[Any, int]:
    """The same where the run goes on, which has nothing left to ask."""
    resumer, live = Resumer(path), Fake([])
    run = Run(live, instruments=[resumer], world=resumer)
    with run:
        value = program()
    assert run.outside.idle_detection is not None and not live.requests
    return value, run.outside.idle_detection.waits


def rerun(path: Path, program: Callable[[], Any]) -> tuple[Any, int]:
    """The same where it is run again, and nobody is asked."""
    rerunner, live = Rerunner(path), Fake([])
    run = Run(live, world=rerunner)
    with run:
        value = program()
    assert run.outside.idle_detection is not None and not live.requests
    return value, run.outside.idle_detection.waits


@ppl
def ask(word: str) -> str:
    f"{word}"
    return str(gen())


def both(number: int) -> str:
    return ask(f"first {number}") + ask(f"second {number}")


def answer(request: Any) -> str:
    return str(request.messages.message.content.upper())


def apart(path: Path, program: Callable[[], list[str]], answered: Any) -> int:
    """How often somebody is waited for in vain, in a process without threads of other tests."""
    values = record(path, program, Fake(answer))
    again, waits = answered(path, program)
    assert again == values
    return int(waits)


@pytest.fixture(scope="module")
def other() -> Iterator[ProcessPoolExecutor]:
    """A process in which no thread is left of any test."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        yield pool


def mapped() -> list[str]:
    return appl_map(both, range(20))


def test_a_replay_of_functions_on_worker_threads_waits_for_nobody(
    other: ProcessPoolExecutor, tmp_path: Path
) -> None:
    waits = other.submit(apart, tmp_path / "t.trace", mapped, replay).result()
    assert waits < FEW, "nobody is outside of appl"


async def beside(pool: ThreadPoolExecutor | None) -> list[str]:
    """Calls of a coroutine while a worker of a pool has nothing to do, having made one."""
    loop, found = asyncio.get_running_loop(), list[str]()
    for number in range(10):
        found.append(await loop.run_in_executor(pool, ask, f"first {number}"))
        found.append(await call(ask, f"second {number}"))
    return found


def beside_the_pool_of_the_loop() -> list[str]:
    return asyncio.run(beside(None))


def beside_a_pool() -> list[str]:
    with ThreadPoolExecutor(2) as pool:
        return asyncio.run(beside(pool))


@pytest.mark.parametrize("program", [beside_the_pool_of_the_loop, beside_a_pool])
@pytest.mark.parametrize("answered", [replay, resume, rerun])
def test_a_worker_of_a_pool_that_has_no_work_is_not_waited_for(
    other: ProcessPoolExecutor, tmp_path: Path, program: Callable[[], list[str]], answered: Any
) -> None:
    assert other.submit(apart, tmp_path / "t.trace", program, answered).result() < FEW


def futures_of_a_pool() -> list[str]:
    with ThreadPoolExecutor(3) as pool:
        asked = [pool.submit(both, number) for number in range(10)]
        return [each.result() for each in asked] + list(pool.map(both, range(10, 14)))


def queue_of_a_thread() -> list[str]:
    filled: queue.Queue[str] = queue.Queue()
    thread = threading.Thread(target=lambda: [filled.put(both(number)) for number in range(10)])
    thread.start()
    try:
        return [filled.get() for _ in range(10)]
    finally:
        thread.join()


def threads_that_are_joined() -> list[str]:
    found: dict[int, str] = {}
    threads = [
        threading.Thread(target=lambda number=number: found.update({number: both(number)}))
        for number in range(10)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [found[number] for number in sorted(found)]


@pytest.mark.parametrize("program", [futures_of_a_pool, queue_of_a_thread, threads_that_are_joined])
@pytest.mark.parametrize("answered", [replay, resume, rerun])
def test_a_thread_that_waits_for_another_one_is_not_waited_for(
    other: ProcessPoolExecutor, tmp_path: Path, program: Callable[[], list[str]], answered: Any
) -> None:
    assert other.submit(apart, tmp_path / "t.trace", program, answered).result() < FEW


def test_who_waits_without_a_limit_and_was_not_notified_waits_for_another_thread() -> None:
    went, goes = threading.Event(), threading.Event()
    limited = threading.Thread(target=goes.wait, args=(20,))
    waiting = threading.Thread(target=lambda: (went.wait(), goes.wait()))
    joining = threading.Thread(target=waiting.join)
    for thread in (limited, waiting, joining):
        thread.start()
    while not waits_for_another(joining):
        pass
    while not waits_for_another(waiting):
        pass
    assert not waits_for_another(limited), "its time may be over"
    assert not waits_for_another(threading.main_thread()), "it runs"
    went.set()
    while not waits_for_another(waiting):
        pass
    goes.set()
    for thread in (limited, waiting, joining):
        thread.join()
        assert not waits_for_another(thread)


def test_a_worker_with_work_in_its_queue_does_not_wait_for_work() -> None:
    with ThreadPoolExecutor(1) as pool:
        begun, over = threading.Event(), threading.Event()
        thread = pool.submit(threading.current_thread).result()
        busy = pool.submit(lambda: (begun.set(), over.wait(20)))
        pool.submit(str)
        assert begun.wait(20)
        assert not waits_for_work(thread)
        over.set()
        busy.result()
        while not waits_for_work(thread):
            pass


class Breaking(Replayer):
    """A replay that finds, when it is to give the next answer, that it cannot."""

    def idle(self, final: bool = True) -> bool:
        raise TraceCorrupt("the record of an answer is broken")


class Impatient(Resumer):
    """A resume that finds, when it is to give the next answer, that it cannot."""

    def idle(self, final: bool = True) -> bool:
        raise TraceCorrupt("the record of an answer is broken")


def caught() -> None:
    with contextlib.suppress(TraceCorrupt):
        ask("mouse")


async def in_a_coroutine() -> str:
    return await call(ask, "mouse")


@pytest.mark.parametrize(
    "program", [lambda: ask("mouse"), caught, lambda: asyncio.run(in_a_coroutine())]
)
def test_what_cannot_be_released_ends_the_run_with_the_error(tmp_path: Path, program: Any) -> None:
    path = tmp_path / "a.trace"
    record(path, program, Fake(answer))
    replayer, resumer = Breaking(path), Impatient(path)
    with pytest.raises(TraceCorrupt), Run(replayer.backend, world=replayer):
        program()
    with pytest.raises(TraceCorrupt), Run(Fake(answer), world=resumer):
        program()


@pytest.mark.parametrize("again", [replay, resume])
def test_a_thread_of_the_programs_own_that_only_waits_is_told(tmp_path: Path, again: Any) -> None:
    path = tmp_path / "a.trace"
    first = record(path, waited_for_elsewhere, Fake(answer))
    assert again(path, waited_for_elsewhere)[0] == first == ["MOUSE"]


@ppl
def waited_for_elsewhere() -> list[str]:
    "mouse"
    heard: list[str] = []
    said = gen()
    thread = threading.Thread(target=lambda: heard.append(str(said)))
    thread.start()
    thread.join()
    return heard


def side_by_side(*programs: Callable[[], None]) -> None:
    """Each of *programs* on a thread of the user's own."""
    threads = [threading.Thread(target=program) for program in programs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def one_waits_for_the_other() -> list[str]:
    over, waited, worked = threading.Event(), list[str](), list[str]()

    def waiting() -> None:
        waited.append(ask("begin"))
        over.wait()
        waited.append(ask("end"))

    def working() -> None:
        worked.extend(ask(f"step {number}") for number in range(20))
        over.set()

    side_by_side(waiting, working)
    return waited + worked


@pytest.mark.parametrize("answered", [replay, resume])
def test_who_waits_for_another_is_waited_for_once(
    other: ProcessPoolExecutor, tmp_path: Path, answered: Any
) -> None:
    path = tmp_path / "t.trace"
    assert other.submit(apart, path, one_waits_for_the_other, answered).result() < FEW


def test_who_is_woken_by_way_of_another_thread_is_waited_for_anew(tmp_path: Path) -> None:
    def program() -> list[str]:
        asked, over, log = threading.Event(), threading.Event(), list[str]()

        def waiting() -> None:
            ask("begin")
            over.wait()
            log.append("woken")

        def helping() -> None:  # in no program
            asked.wait()
            sum(range(200_000))
            over.set()

        def working() -> None:
            for number in range(8):
                log.append(ask(f"step {number}"))
                if number == 5:
                    asked.set()

        side_by_side(waiting, helping, working)
        return log

    values = record(tmp_path / "t.trace", program, Seeded(0, answer))
    assert values.index("woken") == 6
    assert replay(tmp_path / "t.trace", program)[0] == values


# -- event loops: what is about to run is not seen from outside


class Held:
    """A point that a thread reaches and at which it stops until it may go on."""

    def __init__(self) -> None:
        self.reached, self.may_go_on = threading.Event(), threading.Event()

    def stop(self) -> None:
        self.reached.set()
        assert self.may_go_on.wait(20)


class Stopping(deque[Any]):
    """The ready queue of a loop that stops when it has taken a due timer and not queued it yet."""

    def __init__(self) -> None:
        super().__init__()
        self.held: Held | None = None

    def append(self, handle: Any) -> None:
        if self.held is not None and isinstance(handle, asyncio.TimerHandle):
            held, self.held = self.held, None
            held.stop()
        super().append(handle)


class Watching(Live):
    """A world that holds nothing, and notes how it was told that all programs wait."""

    def __init__(self) -> None:
        self.finals: list[bool] = []

    def opens(self, programs: Any) -> None:
        super().opens(programs)
        programs.held_by(self)

    def idle(self, final: bool = True) -> bool:
        self.finals.append(final)
        return False


def test_a_program_whose_timer_was_taken_out_but_has_not_run_does_not_rest() -> None:
    held, world, ready = Held(), Watching(), Stopping()
    run = Run(Fake(answer), world=world)

    def loop() -> asyncio.AbstractEventLoop:
        made: Any = asyncio.SelectorEventLoop()
        made._ready = ready
        return made

    async def program() -> str:
        first = await call(ask, "first")
        ready.held = held
        await asyncio.sleep(0.001)
        return f"{first} {await call(ask, 'second')}"

    def look() -> None:
        """Stop at a due timer, and look there as often as a loop that polls is looked at."""
        assert held.reached.wait(20)
        detection, looked = run.outside.idle_detection, threading.Event()
        assert detection is not None
        rests.append(detection.rests)
        world.finals.clear()
        detection.soon()
        io_thread().send(looked.set)
        assert looked.wait(20)
        told.extend(world.finals)
        held.may_go_on.set()

    rests, told = list[bool](), list[bool]()
    looking = threading.Thread(target=look)
    looking.start()
    with run, asyncio.Runner(loop_factory=loop) as runner:
        assert runner.run(program()) == "FIRST SECOND"
    looking.join()
    assert rests == [False] and told == []


def test_a_thread_that_has_not_looked_for_deliveries_does_not_rest_yet() -> None:
    hub, seen = Hub(), list[bool]()

    class Inbox(deque[Any]):
        def __bool__(self) -> bool:
            if hub.asleep:
                seen.append(hub.rest() is not None)
            return len(self) > 0

    hub.inbox = Inbox()
    hub.on_sleep.append(lambda: seen.append(hub.rest() is not None))
    hub.on_sleep.append(lambda: io_thread().wake(hub._wakeup))
    hub._sleep()
    assert seen == [False, True]


def test_a_loop_that_was_rung_as_it_came_to_rest_does_not_rest() -> None:
    seen = list[bool]()

    class Rung(deque[Any]):
        """The ready queue of a loop; a delivery arrives just when a step finds it empty."""

        def __bool__(self) -> bool:
            empty = not len(self)
            if empty and arriving and hub is not None and hub._runner is not None:
                hub.tell(arriving.pop())
            return not empty

    class Nothing:
        def deliver(self) -> None:
            pass

    hub: Hub | None = None
    arriving = [Nothing()]

    async def program() -> None:
        nonlocal hub
        loop: Any = asyncio.get_running_loop()
        loop._ready = Rung(loop._ready)
        found, twice = hub_here(), asyncio.Event()
        found.on_sleep.append(
            lambda: seen.append(found.rest() is not None) or len(seen) < 2 or twice.set()
        )
        hub = found
        found.stirs()
        await twice.wait()

    asyncio.run(program())
    assert seen[:2] == [False, True]


def test_a_replay_that_cannot_go_on_says_so_though_a_timer_ran_meanwhile(tmp_path: Path) -> None:
    class Silent(Fake):
        async def complete(self, request: Any, emit: Any = None) -> Any:
            await asyncio.get_running_loop().create_future()

    async def cancelled() -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(call(ask, "mouse"), 0.02)

    async def awaited() -> None:
        async def beating() -> None:
            await asyncio.sleep(0.7)  # longer than all that a look waits for
            await asyncio.Event().wait()

        beat = asyncio.create_task(beating())
        await call(ask, "mouse")
        await beat

    path = tmp_path / "a.trace"
    record(path, lambda: asyncio.run(cancelled()), Silent([]))
    with pytest.raises(ReplayStuck):
        replay(path, lambda: asyncio.run(awaited()))


def test_a_coroutine_that_blocks_its_loop_is_told_though_a_worker_of_the_loop_never_rests(
    tmp_path: Path,
) -> None:
    async def program() -> list[str]:
        first = await asyncio.to_thread(lambda: str(call(ask, "mouse").result()))
        both = [call(ask, "cat"), call(ask, "dog")]  # the worker is idle, and nobody knows it
        return [first, *(str(future.result()) for future in both)]

    path = tmp_path / "a.trace"
    heard = record(path, lambda: asyncio.run(program()), Seeded(1))
    assert replay(path, lambda: asyncio.run(program()))[0] == heard
