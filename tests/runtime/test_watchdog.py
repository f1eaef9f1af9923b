"""A line that blocks its thread while other programs could go on is told of, once."""

from __future__ import annotations

import gc
import re
import threading
import weakref
from collections.abc import Callable
from typing import Any

import pytest

import appl
from appl.runtime import hubs
from appl.runtime.concurrency import blocking_lines, blocking_times
from appl.runtime.concurrency.watchdog import Watchdog
from appl.testing import Echo, Event, Run, Warned


class Warnings:
    """What the user was told in a run."""

    def __init__(self) -> None:
        self.found: list[str] = []

    def on_event(self, event: Event) -> None:
        if isinstance(event, Warned):
            self.found.append(event.message)


class Gate:
    """A blocking function, and how to look while a thread stands in it."""

    def __init__(self) -> None:
        self.entered, self.left = threading.Semaphore(0), threading.Semaphore(0)

    def block(self, what: object = None) -> object:
        self.entered.release()
        assert self.left.acquire(timeout=60)
        return what


def in_run(watchdog: Watchdog, warnings: Warnings, program: Callable[[], Any]) -> None:
    with Run(Echo(), instruments=[warnings]) as run:
        run.reporter.tell = lambda line: None
        watchdog.runs.add(run)
        program()


def told(
    program: Callable[[Gate], Any], blocks: int, seconds: float = 2 * blocking_times.ENOUGH
) -> list[str]:
    """What the user is told when *program* stands *seconds* in each of so many blocking calls."""
    gate, warnings, watchdog = Gate(), Warnings(), Watchdog(hubs)

    thread = threading.Thread(target=lambda: in_run(watchdog, warnings, lambda: program(gate)))
    thread.start()
    for number in range(blocks):
        assert gate.entered.acquire(timeout=60)
        watchdog.look(100.0 * number)
        watchdog.look(100.0 * number + seconds)
        gate.left.release()
    thread.join(60)
    assert not thread.is_alive()
    return warnings.found


@appl.ppl
def agent(gate: Gate, number: int) -> appl.Generation:
    page = gate.block(number)  # the line
    f"{page}"
    return appl.gen()


def mapped(gate: Gate, count: int, **options: Any) -> Any:
    @appl.ppl
    def one(number: int) -> Any:
        return agent(gate, number)

    return appl.map(one, range(count), **options)


LINE = agent.__wrapped__.__code__.co_firstlineno + 2  # type: ignore[attr-defined]


def test_a_blocking_line_is_told_of_once_with_what_to_write() -> None:
    (message,) = told(lambda gate: mapped(gate, 4), 4)
    assert message.startswith(f"{__file__}:{LINE}: `gate.block(number)` in agent() blocked")
    assert "for 2.0 s so far, while 3 other programs could have gone on" in message
    assert (
        "Write `observe(gate.block, number)`" in message and "`call(gate.block, number)`" in message
    )


class Shelf:
    def __init__(self) -> None:
        self.lock = threading.Lock()


@pytest.mark.parametrize("way", ["with", "acquire"])
def test_a_lock_of_threading_that_blocks_the_thread_is_named(way: str) -> None:
    shelf, entered = Shelf(), threading.Event()
    warnings, watchdog = Warnings(), Watchdog(hubs)

    @appl.ppl
    def within() -> None:
        entered.set()
        with shelf.lock:
            pass

    @appl.ppl
    def acquiring() -> None:
        entered.set()
        shelf.lock.acquire()
        shelf.lock.release()

    taking = within if way == "with" else acquiring

    @appl.ppl
    def one(number: int) -> object:
        f"{number}"
        return taking() if number else str(appl.gen())

    def program() -> None:
        appl.map(one, range(2))

    shelf.lock.acquire()
    thread = threading.Thread(target=lambda: in_run(watchdog, warnings, program))
    thread.start()
    assert entered.wait(60)
    for look in range(10**5):  # until the other program has its answer, and could go on
        watchdog.look(2.0 * look)
        if warnings.found:
            break
    shelf.lock.release()
    thread.join(60)
    (message,) = warnings.found
    assert f"waits for the lock `shelf.lock` in {taking.__name__}()" in message
    assert "Write `shelf.lock = appl.Lock()`" in message


def test_a_look_keeps_nothing_of_the_threads_it_looks_at() -> None:
    """A call is cancelled when its future is gone: what a variable held must go with it."""
    gone: list[bool] = []

    @appl.ppl
    def holding(gate: Gate) -> weakref.ref[Gate]:
        str(appl.gen())
        held = Gate()
        gate.block()
        return weakref.ref(held)

    def program(gate: Gate) -> None:
        gone.append(holding(gate)() is None)

    gc.disable()
    try:
        told(program, blocks=1)
    finally:
        gc.enable()
    assert gone == [True]


@appl.ppl
def standing(gate: Gate) -> None:
    "Hello"
    str(appl.gen())
    gate.block()


def test_a_run_that_is_over_is_let_go_while_another_goes_on() -> None:
    gate, watchdog, kept = Gate(), Watchdog(hubs), list[weakref.ref[Run]]()

    def program() -> None:
        with Run(Echo()) as run:
            watchdog.runs.add(run)
            kept.append(weakref.ref(run))
            standing(gate)

    thread = threading.Thread(target=program)
    thread.start()
    assert gate.entered.acquire(timeout=60)
    assert watchdog.look(0.0) and watchdog.look(0.1)
    gate.left.release()
    thread.join()
    with Run(Echo()) as other:
        watchdog.runs.add(other)
        watchdog.look(0.2)
        gc.collect()
        assert kept[0]() is None


def test_short_blocks_count_together() -> None:
    assert told(lambda gate: mapped(gate, 2), 2, blocking_times.ENOUGH / 3) == []
    (message,) = told(lambda gate: mapped(gate, 4), 4, blocking_times.ENOUGH / 3)
    assert "for 1.0 s so far" in message


def test_calls_in_a_list_are_told_of() -> None:
    (message,) = told(lambda gate: [agent(gate, number) for number in range(4)], 4)
    assert "in agent()" in message


def test_a_program_that_is_alone_is_not_told_of() -> None:
    @appl.ppl
    def alone(gate: Gate) -> str:
        "question"
        answer = appl.gen()
        gate.block()
        return str(answer)

    assert told(alone, 1, 100.0) == []


def test_programs_one_after_the_other_are_not_told_of() -> None:
    assert told(lambda gate: [str(agent(gate, number)) for number in range(3)], 3) == []
    assert told(lambda gate: mapped(gate, 3, concurrency=1), 3) == []


def test_observe_and_call_block_nobody() -> None:
    @appl.ppl
    def polite(gate: Gate) -> Any:
        return appl.observe(gate.block, 1)

    assert told(lambda gate: polite(gate), 1) == []
    assert told(lambda gate: appl.call(gate.block, 1).result(), 1) == []


def test_a_program_that_moves_between_two_looks_is_not_told_of() -> None:
    gate, warnings, watchdog = Gate(), Warnings(), Watchdog(hubs)

    @appl.ppl
    def moving(number: int) -> None:
        gate.block(number)
        gate.block(number)

    program = lambda: appl.map(moving, range(2))  # noqa: E731
    thread = threading.Thread(target=lambda: in_run(watchdog, warnings, program))
    thread.start()
    for number in range(4):  # another line, or another program, at each look
        assert gate.entered.acquire(timeout=60)
        watchdog.look(100.0 * number)
        gate.left.release()
    thread.join(60)
    assert warnings.found == []


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("time.sleep(0.3)", r"Write `appl.sleep\(0.3\)`"),
        ("requests.get(url, timeout=3)", r"`observe\(requests.get, url, timeout=3\)`"),
        ("work()", r"`observe\(work\)`"),
        ("", r"`observe\(f, ...\)`"),
    ],
)
def test_the_advice_is_the_line_to_write(text: str, advice: str) -> None:
    assert re.search(advice, blocking_lines.advice_for(text))
