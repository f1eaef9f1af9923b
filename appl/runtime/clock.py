"""Timers that a program can wait for, and what depends on time: ``done()`` and timeouts.

Invariant: no thread sleeps; timers are those of the I/O loop.
"""

from __future__ import annotations

from functools import partial

from appl.runtime.crossing import io_thread
from appl.runtime.fiber import arrive, strand_here, wait
from appl.runtime.pending import Pending, Value
from appl.runtime.run import run_of

_DONE = Value(None)


class First(Pending):
    """Done as soon as one of several things happens."""

    __slots__ = ()

    def reached(self, _: Pending | None = None) -> None:
        """One of them happened."""
        self.finish(_DONE)

    def suspicious(self) -> bool:
        return False


def timer(seconds: float, address: str) -> First:
    """Done after *seconds*; at home on the running program's hub."""
    first = First(address, strand_here().hub)
    loop = io_thread().loop
    io_thread().send(lambda: void(loop.call_later(max(seconds, 0.0), first.reached)))
    return first


def void(_: object) -> None:
    """Nothing, for an action whose value is of no interest."""


def expired(pending: Pending, timeout: float) -> bool:
    """Wait for *pending* at most *timeout* seconds: whether it is still not done."""
    run = run_of(pending)
    return bool(run.observe(pending.address, "timeout", partial(_still_pending, pending, timeout)))


def _still_pending(pending: Pending, timeout: float) -> bool:
    if pending.delivered or pending.last().done:
        return False
    first = timer(timeout, pending.address)
    pending.subscribe(first.reached)
    wait(first)
    return not pending.done


def is_done(pending: Pending) -> bool:
    """Whether *pending* has an outcome, as the program is told."""
    return bool(run_of(pending).observe(pending.address, "done", lambda: pending.last().done))


def sleep_now(seconds: float, address: str) -> None:
    """Suspend the running program for *seconds*."""
    wait(timer(seconds, address))


async def asleep(seconds: float, address: str) -> None:
    """Suspend the running coroutine for *seconds*."""
    await arrive(timer(seconds, address))
