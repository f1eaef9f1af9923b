"""The values of promises, for programs that wait until they are there.

Invariant: a value is never a future; what a function returned is waited for, too.
"""

from __future__ import annotations

from typing import Any

from appl.runtime.concurrency.cancelled_waits import note_abandoned_wait
from appl.runtime.concurrency.fiber import arrive, hub_here, wait
from appl.runtime.concurrency.promise import Error, Promise, Proxy, Value


def result_of(pending: Promise) -> Any:
    """The value of *pending*, waiting for it and for what it returned; raises its error."""
    while True:
        try:
            wait(pending)
        except BaseException as error:
            note_abandoned_wait(pending, error)
            raise
        outcome = pending.outcome
        if type(outcome) is Error:
            raise pending.seen()
        value = outcome.value  # type: ignore[union-attr] # it is there, and no error
        if not isinstance(value, Proxy):
            return value
        pending = value._pending


async def awaited(pending: Promise) -> Any:
    """:func:`result_of` for coroutines."""
    while True:
        try:
            await arrive(pending)
        except BaseException as error:
            note_abandoned_wait(pending, error)
            raise
        outcome = pending.outcome
        if type(outcome) is Error:
            raise pending.seen()
        value = outcome.value  # type: ignore[union-attr] # it is there, and no error
        if not isinstance(value, Proxy):
            return value
        pending = value._pending


def is_there(pending: Promise) -> bool:
    """True if the value of *pending*, with what it returned, can be had without waiting."""
    hub = hub_here()
    while pending.delivered if pending.home is hub else pending.done:
        value = getattr(pending.outcome, "value", None)
        if not isinstance(value, Proxy):
            return True
        pending = value._pending
    return False


def text_of(pending: Promise) -> Any:
    """The text of *pending*, also of a typed answer; waits for it."""
    result_of(pending)
    outcome = pending.last().outcome
    assert isinstance(outcome, Value)
    return outcome.prompt_part


def finished(value: object) -> Any:
    """*value* itself; of a future the value, waiting for it."""
    return result_of(value._pending) if isinstance(value, Proxy) else value
