"""The end of a server: SIGTERM, Ctrl-C, or the end of its standard input."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import threading
from collections.abc import Iterator


@contextlib.contextmanager
def stopping(over: asyncio.Event, until_eof: bool) -> Iterator[None]:
    """A block in which SIGTERM and SIGINT set *over*; the end of standard input, too, if wanted."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, over.set)
    if until_eof:
        threading.Thread(target=_read_on, args=(loop, over), daemon=True).start()
    try:
        yield
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)


def _read_on(loop: asyncio.AbstractEventLoop, over: asyncio.Event) -> None:
    """Set *over* at the end of standard input; runs on a thread of its own.

    A loop cannot wait for every kind of input: files, for example. The thread is a daemon, as
    nothing can end its ``read``.
    """
    while os.read(sys.stdin.fileno(), 4096):
        continue
    with contextlib.suppress(RuntimeError):  # the loop has ended by itself
        loop.call_soon_threadsafe(over.set)


def url_of(host: str, port: int) -> str:
    """The URL of a server at *host* and *port*."""
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
