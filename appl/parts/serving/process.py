"""A server of functions from its start to its clean end.

Invariant: it takes no request before it has taken over what an earlier one left, and ends only when
each of its runs has ended or can be gone on with.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from aiohttp import web

from appl.errors import ConfigError
from appl.parts.serving.app import MOST_BYTES, FunctionServer
from appl.parts.serving.execution import RunSettings
from appl.parts.serving.functions import ServedFunction
from appl.parts.serving.runs import RunLimits, Runs
from appl.parts.web.guard import ARRIVAL_SECONDS, READING_SECONDS, OneLine
from appl.parts.web.keys import Keys
from appl.parts.web.lifetime import stopping, url_of

GRACE = 30.0


@dataclass(frozen=True, slots=True)
class Network:
    """The address of a server, and the limits on its requests.

    A request has ``arrival_s`` seconds to arrive, its head and its body each; a client that reads
    nothing for ``reading_s`` seconds is disconnected.
    """

    host: str = "127.0.0.1"
    port: int = 0
    hosts: Collection[str] = ()
    most_bytes: int = MOST_BYTES
    grace_s: float = GRACE
    arrival_s: float = ARRIVAL_SECONDS
    reading_s: float = READING_SECONDS
    until_eof: bool = False
    mcp: bool = False


@dataclass(frozen=True, slots=True)
class Ready:
    """A server that takes requests: its URL, and the number of runs that it goes on with."""

    url: str
    keys: Keys = field(repr=False)
    adopted: int


def check_keys(network: Network, keys: Keys) -> None:
    """Refuse a server that others can reach and that asks for no key. Raises ``ConfigError``."""
    if keys.api is None and not is_local(network.host):
        raise ConfigError(
            f"--host {network.host} lets other machines in, and --api-key none asks them for "
            "nothing: leave --api-key out for a random key, or give one"
        )


def is_local(host: str) -> bool:
    """True if *host* is this machine alone."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


async def serve(
    functions: Sequence[ServedFunction],
    settings: RunSettings,
    keys: Keys,
    ready: Callable[[Ready], None],
    *,
    limits: RunLimits,
    network: Network,
) -> None:
    """Serve *functions* until SIGTERM or SIGINT; *ready* is called when requests are taken.

    At its end running programs have ``grace_s`` seconds; then their runs are closed as interrupted,
    and the next server goes on with them. Raises ``ConfigError``, ``OSError``.
    """
    check_keys(network, keys)
    over = asyncio.Event()
    runs = Runs({each.name: each for each in functions}, settings, limits)
    server = FunctionServer(
        runs,
        keys,
        most_bytes=network.most_bytes,
        hosts=[network.host, *network.hosts],
        arrival=network.arrival_s,
        reading=network.reading_s,
        is_local=is_local(network.host),
    )
    log = logging.getLogger("appl.serve.http")
    log.addFilter(OneLine())
    runner = web.AppRunner(
        server.app,
        handler_cancellation=True,
        access_log=None,
        shutdown_timeout=5.0,
        auto_decompress=False,
        logger=log,
    )
    stack = contextlib.AsyncExitStack()
    if network.mcp:
        from appl.parts.serving import mcp_server  # only `--mcp-http` needs it

        handler = await stack.enter_async_context(mcp_server.route(runs, network.most_bytes))
        server.app.router.add_route("*", "/mcp", handler)
    await runner.setup()
    assert runner.server is not None, "it is set up"
    watch = asyncio.create_task(server.arrivals.watch(runner.server))
    try:
        with stopping(over, network.until_eof):
            adopted = await runs.start()
            site = web.TCPSite(runner, network.host, network.port)
            await site.start()
            port = runner.addresses[0][1]
            ready(Ready(url_of(network.host, port), keys, adopted))
            await over.wait()
            await site.stop()  # no new connections; open ones get 503 for new requests
            await runs.stop(network.grace_s)
    finally:
        watch.cancel()
        await runner.cleanup()
        await stack.aclose()
        runs.close()
