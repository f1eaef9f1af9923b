"""The I/O thread, and the way there: a queue that is emptied at once, with one wake-up a burst.

Invariant: what is sent takes effect in the order of sending, on the I/O loop, and user code never
runs there.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections import deque
from collections.abc import Callable

_START = threading.Lock()


class IoThread:
    """A daemon thread with an asyncio loop."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._outbox: deque[Callable[[], None]] = deque()
        self._rung = False
        self.on_idle: list[Callable[[], None]] = []
        self._pid = os.getpid()
        self._thread = threading.Thread(target=self._serve, name="appl-io", daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()

    @property
    def alive(self) -> bool:
        """Whether the thread runs in this process (it does not in a forked child)."""
        return self._pid == os.getpid() and self._thread.is_alive()

    @property
    def empty(self) -> bool:
        """Whether nothing is on its way here."""
        return not self._outbox

    def here(self) -> bool:
        """Whether the caller is on the I/O thread."""
        return threading.get_ident() == self._thread.ident

    def send(self, action: Callable[[], None]) -> None:
        """Have *action* run on the loop; the first of a burst wakes it."""
        self._outbox.append(action)
        if not self._rung:
            self._rung = True
            self.loop.call_soon_threadsafe(self._drain)

    def soon(self, action: Callable[[], None]) -> None:
        """Have *action* run later on the loop; on the I/O thread only."""
        self._outbox.append(action)
        if not self._rung:
            self._rung = True
            self.loop.call_soon(self._drain)

    def _drain(self) -> None:
        self._rung = False
        outbox = self._outbox
        while outbox:
            outbox.popleft()()


_io: IoThread | None = None


def io_thread() -> IoThread:
    """The I/O thread of this process, started at the first use."""
    global _io
    if _io is None or not _io.alive:
        with _START:
            if _io is None or not _io.alive:
                _io = IoThread()
    return _io
