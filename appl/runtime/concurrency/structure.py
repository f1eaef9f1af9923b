"""Structured concurrency: a function waits for the calls that it started, or cancels them.

Invariant: the order of everything here is program order, never that of arrival.
"""

from __future__ import annotations

from collections.abc import Iterator

from appl.runtime.concurrency.fiber import arrive, wait
from appl.runtime.concurrency.promise import Promise


def join(started: list[Promise]) -> Promise | None:
    """Wait for all of *started* and their children; the first failure that nobody looked at."""
    failed: Promise | None = None
    for pending in unfolded(started):
        # One after the other, though they run side by side: the last one to end decides how long
        # this takes, and the order in which failures are found is that of the program.
        wait(pending)
        if failed is None and pending.unseen():
            failed = pending
    return failed


async def ajoin(started: list[Promise]) -> Promise | None:
    """:func:`join` in a coroutine."""
    failed: Promise | None = None
    for pending in unfolded(started):
        await arrive(pending)
        if failed is None and pending.unseen():
            failed = pending
    return failed


def unfolded(started: list[Promise]) -> Iterator[Promise]:
    """Each pending in program order; its children are asked for when it is done."""
    stack = [iter(started)]
    while stack:
        pending = next(stack[-1], None)
        if pending is None:
            stack.pop()
            continue
        yield pending
        # Only now: the caller has waited for it, and its children are known when it is done.
        if pending.children:
            stack.append(iter(pending.children))


def excuse(pending: Promise) -> None:
    """Note that nobody has to look at *pending* any more, nor at its children."""
    for promise in unfolded([pending]):
        promise.looked = True


def cancel_all(started: list[Promise]) -> None:
    """Cancel the calls that are not done; nobody has to look at any of them."""
    for pending in unfolded(started):
        pending.looked = True
        if not pending.done:
            pending.cancel()
