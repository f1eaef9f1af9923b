"""The end of a backend, on the I/O loop, to which it belongs.

Invariant: whoever closes a backend goes on when it is closed, or after a few seconds.
"""

from __future__ import annotations

import asyncio
import contextlib
from concurrent.futures import Future

from appl.backend import Backend
from appl.runtime.concurrency.loop_thread import io_thread

_MOST_S = 5.0


def close_backend(backend: Backend) -> None:
    """Close *backend* and wait for it; from any thread but that of the I/O loop."""
    io = io_thread()
    if io.on_loop():
        return
    closing = _Closing(backend)
    io.send(closing.begin)
    with contextlib.suppress(TimeoutError):
        closing.result(_MOST_S)


class _Closing(Future[None]):
    """The future end of a backend."""

    def __init__(self, backend: Backend) -> None:
        super().__init__()
        self._backend = backend
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Begin to close the backend; on the I/O loop."""
        self._task = io_thread().loop.create_task(self._close())

    async def _close(self) -> None:
        try:
            await self._backend.aclose()
        except BaseException as error:  # whoever waits gets it
            self.set_exception(error)
        else:
            self.set_result(None)
