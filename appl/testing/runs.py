"""Runs in tests: around a block, with their events, and work on the loop of their backends.

Invariant: a run of a test takes nothing from the process: no settings, no trace, no other run.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from typing import Any, TypeVar, overload

from appl.backend import Backend, offers
from appl.runtime.concurrency.loop_thread import io_thread
from appl.runtime.event import Event
from appl.runtime.run import Run
from appl.runtime.world import Stepping
from appl.testing import Fake

__all__ = ["Log", "on_backend_loop", "running"]

B = TypeVar("B", bound=Backend)
E = TypeVar("E", bound=Event)
T = TypeVar("T")


class Log:
    """An instrument that keeps every event."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def on_event(self, event: Event) -> None:
        """Keep *event*."""
        self.events.append(event)

    def of(self, kind: type[E]) -> list[E]:
        """The events of one class, in the order in which they happened."""
        return [event for event in self.events if isinstance(event, kind)]


@contextmanager
def running(backend: B, **options: Any) -> Generator[B, None, None]:
    """A run on *backend*, which the block gets; *options* are those of ``Run``.

    ``sequential=True`` is the naive runtime, which really waits at every call. With a fake backend
    and ``policy=Policy(clock=VirtualClock())`` the clock moves whenever no program can go on.
    """
    run = Run(backend, **options)
    run.answered_by = "a test's backend"
    with run:
        clock = run.dispatch.policy.clock
        # A fake answers at once: if all programs wait, they wait for this clock.
        if isinstance(backend, Fake) and offers(clock, Stepping) and not offers(backend, Stepping):
            run.outside.on_idle(run, clock.on_idle)
        yield backend


@overload
def on_backend_loop(work: Callable[[], Awaitable[T]], seconds: float = 60) -> T: ...
@overload
def on_backend_loop(work: Callable[[], T], seconds: float = 60) -> T: ...
def on_backend_loop(work: Callable[[], Any], seconds: float = 60) -> Any:
    """The value of *work* on the event loop where backends answer.

    What was sent to the loop before is done first: a call that was cancelled has arrived there, and
    the end of a run. A coroutine is awaited, so ``on_backend_loop(backend.aclose)`` closes a client
    where it was used. Raises what *work* raises, and ``TimeoutError`` after so many *seconds*.
    """

    async def value() -> Any:
        result = work()
        return await result if inspect.isawaitable(result) else result

    io, arrived = io_thread(), threading.Event()
    if io.on_loop():
        raise RuntimeError("on_backend_loop(…) would wait for the loop that it is called on")
    io.send(arrived.set)  # behind what this and other threads have sent, and `value` behind it
    if not arrived.wait(seconds):
        raise TimeoutError(f"the loop of backends did nothing for {seconds:g} s")
    return asyncio.run_coroutine_threadsafe(value(), io.loop).result(seconds)
