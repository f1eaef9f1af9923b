"""A server from its start to its clean end.

Invariant: it listens on the given address alone, says that it is ready when it is, and at its end
finishes what it has begun with what is there.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass

from aiohttp import web

from appl.parts.web.guard import ARRIVAL_SECONDS, READING_SECONDS, OneLine
from appl.parts.web.keys import Keys
from appl.parts.web.lifetime import stopping, url_of
from appl_backends.embedded import Embedded
from appl_backends.embedded.server.app import MOST_BYTES, EngineServer

GRACE = 5.0


@dataclass(frozen=True, slots=True)
class Address:
    """A server's address, and the keys that open it."""

    url: str
    keys: Keys


async def serve(
    backend: Embedded,
    keys: Keys,
    ready: Callable[[Address], None],
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    queue: int = 1024,
    most_bytes: int = MOST_BYTES,
    incremental: bool = False,
    hosts: Collection[str] = (),
    arrival: float = ARRIVAL_SECONDS,
    reading: float = READING_SECONDS,
    until_eof: bool = False,
) -> None:
    """Serve *backend* until SIGTERM, SIGINT or ``/shutdown``, then close it.

    Port 0 is a free one; *ready* gets the address once requests are taken. At most *queue*
    sequences wait, a body has at most *most_bytes*, and a request must arrive within *arrival*
    seconds, its head and its body each; a client that reads nothing for *reading* seconds is
    disconnected. With *until_eof*, the end of standard input
    stops the server too, so that it does not outlive the program that started it. Requests may name
    the server by *host*, by *hosts*, as ``localhost``, or by an address in digits.
    """
    over = asyncio.Event()
    server = EngineServer(
        backend,
        keys,
        over.set,
        queue=queue,
        most_bytes=most_bytes,
        incremental=incremental,
        hosts=[host, *hosts],
        arrival=arrival,
        reading=reading,
    )
    log = logging.getLogger("appl.serve.http")
    log.addFilter(OneLine())
    runner = web.AppRunner(
        server.app,
        handler_cancellation=True,
        access_log=None,
        shutdown_timeout=GRACE,
        auto_decompress=False,
        logger=log,
    )
    await runner.setup()
    assert runner.server is not None, "it is set up"
    watch = asyncio.create_task(server.arrivals.watch(runner.server))
    try:
        with stopping(over, until_eof):
            site = web.TCPSite(runner, host, port)
            await site.start()
            ready(Address(url_of(host, runner.addresses[0][1]), keys))
            await over.wait()
            # First no new connections, then the open jobs end with what they have; ``cleanup``
            # waits until their answers are sent, for GRACE seconds at most.
            await site.stop()
            server.jobs.close()
    finally:
        watch.cancel()
        await runner.cleanup()
        await backend.aclose()  # last: handlers use it until cleanup has ended them
