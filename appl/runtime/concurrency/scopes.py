"""Scopes of the user's own threads and tasks.

Invariant: a scope is kept as long as its thread or task may start something, or something that it
started has to be waited for; a run that serves for ever does not grow with the threads it has seen.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

from appl.runtime.concurrency.loop_thread import task_here
from appl.runtime.frame import Frame, owed

_PRUNE = 64
_PLAIN = (str, bytes, int, float, bool, type(None))


def is_plain(value: Any, depth: int = 50) -> bool:
    """True if *value*, of at most *depth* levels, has the same ``repr`` in every process."""
    if type(value) in (list, tuple, dict):
        parts = [*value, *value.values()] if type(value) is dict else value
        return depth > 0 and all(is_plain(part, depth - 1) for part in parts)
    return type(value) in _PLAIN


def call_in_words(name: str, args: tuple[object, ...]) -> str:
    """The function *name* with its plain arguments, by which calls in threads are told apart."""
    return f"{name} {tuple(filter(is_plain, args))!r:.400}"


Holder = threading.Thread | asyncio.Task[object]


class Scopes:
    """The scopes of a run, in the order in which they were made; used under the run's lock."""

    def __init__(self) -> None:
        self._held: list[tuple[Frame, Holder]] = []
        self._prune_at = _PRUNE

    def add(self, frame: Frame) -> None:
        """Keep *frame*, which belongs to the thread or task that runs now."""
        # The bound doubles with what is left, so that looking through all of them costs each
        # addition a constant time.
        if len(self._held) >= self._prune_at:
            self._held = [each for each in self._held if _needed(*each)]
            self._prune_at = 2 * len(self._held) + _PRUNE
        self._held.append((frame, task_here() or threading.current_thread()))

    def __iter__(self) -> Iterator[Frame]:
        return iter([frame for frame, _ in self._held])

    def __len__(self) -> int:
        return len(self._held)


def _needed(frame: Frame, holder: Holder) -> bool:
    alive = holder.is_alive() if isinstance(holder, threading.Thread) else not holder.done()
    return alive or bool(owed(frame.started))
