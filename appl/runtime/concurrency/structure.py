"""Structured concurrency: who started something waits for it, cancels it, hears its failure.

Invariant: the order of everything here is program order, never that of arrival.
"""

from __future__ import annotations

from collections.abc import Iterator

from appl.runtime.concurrency.fiber import arrive, wait
from appl.runtime.concurrency.pending import Pending


def join(started: list[Pending]) -> Pending | None:
    """Wait for all of *started* and what they left behind; the first failure nobody looked at."""
    failed: Pending | None = None
    for pending in unfolded(started):
        wait(pending)
        if failed is None and pending.unseen():
            failed = pending
    return failed


async def ajoin(started: list[Pending]) -> Pending | None:
    """:func:`join` in a coroutine."""
    failed: Pending | None = None
    for pending in unfolded(started):
        await arrive(pending)
        if failed is None and pending.unseen():
            failed = pending
    return failed


def unfolded(started: list[Pending]) -> Iterator[Pending]:
    """Each pending in program order; its children are asked for when it is done."""
    stack = [iter(started)]
    while stack:
        pending = next(stack[-1], None)
        if pending is None:
            stack.pop()
            continue
        yield pending
        if pending.children:
            stack.append(iter(pending.children))


def excuse(pending: Pending) -> None:
    """Nobody has to look at *pending* any more, nor at what it left behind."""
    for each in unfolded([pending]):
        each.looked = True


def cancel_all(started: list[Pending]) -> None:
    """Cancel what is not done, and excuse everyone from looking at it."""
    for pending in unfolded(started):
        pending.looked = True
        if not pending.done:
            pending.cancel()
