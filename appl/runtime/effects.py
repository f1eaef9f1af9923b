"""What a program sees of the outside world, through one door, so that a replay can answer instead.

Invariant: every observation has an address and an ordinal there, both fixed by the program alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Protocol

from appl.runtime.event import Event, Observed


class Effects(Protocol):
    """Performs observations, or answers them from a record.

    *live* makes the observation (it may wait). Whoever does not call it answers for the world.
    An optional ``turn(address, ordinal, kind, go)`` may take over a moment that a program waits for
    (``sleep``, ``timeout``): true when it will call *go*, on the I/O loop, as the moment comes; an
    optional ``leave(address, ordinal, kind)`` is told that nobody waits for it any more. An
    optional ``tool(address, name, arguments, at_once, end)`` answers a tool's call in place of the
    tool: it calls *end* with the result, or the error, on the spot or on the I/O loop in its turn.
    False means that the tool is to run. An optional ``later(action, address)`` may put off what is
    about to happen live at *address*: true when it will call *action*, on the I/O loop.
    """

    def perform(self, address: str, ordinal: int, kind: str, live: Callable[[], Any]) -> Any:
        """The value of the observation, as plain data."""


def postponed(effects: Effects, action: Callable[[], None], address: str) -> bool:
    """Whether *effects* will have *action* done on the I/O loop, when live things may happen."""
    later: Callable[[Callable[[], None], str], bool] | None = getattr(effects, "later", None)
    return later is not None and later(action, address)


class LiveEffects:
    """Observes the world itself and tells the instruments what was seen."""

    def __init__(self, emit: Callable[[Event], None]) -> None:
        self._emit = emit

    def perform(self, address: str, ordinal: int, kind: str, live: Callable[[], Any]) -> Any:
        value = live()
        self._emit(Observed(address, ordinal, kind, value, time.monotonic_ns()))
        return value
