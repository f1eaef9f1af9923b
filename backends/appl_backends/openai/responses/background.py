"""A response that is made in the background: it is asked for until it is there.

Invariant: a call that is cancelled meanwhile cancels its response, too.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

from appl.errors import BackendError

_UNDERWAY = ("queued", "in_progress")
FIRST_S, LONGEST_S = 0.05, 5.0
"""Seconds before a response is asked for again: twice as many each time, up to the longest."""

Ask = Callable[[str, str], Awaitable[Any]]
"""Sends a request: its method, and its path behind that of the interface."""


async def finished(data: Any, ask: Ask) -> Any:
    """The response *data* when it is there. Raises ``BackendError``."""
    wait = FIRST_S
    while isinstance(data, dict) and data.get("status") in _UNDERWAY:
        path = f"/{data['id']}"
        try:
            await asyncio.sleep(wait)
            data = await ask("GET", path)
        except asyncio.CancelledError:
            # A task may still wait after it was cancelled: it is over when the server knows it.
            with contextlib.suppress(BackendError, TimeoutError):
                async with asyncio.timeout(LONGEST_S):
                    await ask("POST", f"{path}/cancel")
            raise
        wait = min(2 * wait, LONGEST_S)
    return data
