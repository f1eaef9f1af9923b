"""Requests a second of a web server that gives each request a run of its own, on one core.

An aiohttp server runs in a process of its own on the first core, its client on the last one. The
client keeps connections open and asks on each for the next answer as soon as it has the last one.
The arms take turns, each in a new server: the bare handler, and ``await appl.run(ask, question)``
with a backend that answers at once, recorded and not. A run opens, asks one call and closes before
its request is answered. ``CPU`` is that of the server's process a request, all its threads.
Run: python benchmarks/web_server.py [--requests 1500] [--connections 16] [--repeats 5] [--json F]
Needs the extra ``serve``. Bar: recorded, 600 requests a second.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from aiohttp import web
from report import write

import appl
from appl import gen, ppl

ARMS = ("bare", "unrecorded", "recorded")
ASK = b"GET /?q=%d HTTP/1.1\r\nHost: localhost\r\n\r\n"
CPU = b"GET /cpu HTTP/1.1\r\nHost: localhost\r\n\r\n"
Handler = Callable[[web.Request], Awaitable[web.Response]]


# -- the server, in a process of its own


@ppl
def ask(question: str) -> str:
    f"What is {question}?"
    return str(gen())


async def bare(request: web.Request) -> web.Response:
    return web.Response(text=f"What is {request.query['q']}?")


async def with_run(request: web.Request) -> web.Response:
    return web.Response(text=await appl.run(ask, request.query["q"]))


async def cpu(request: web.Request) -> web.Response:
    return web.Response(text=str(time.process_time_ns()))


def serve(arm: str) -> None:
    """Serve on a free port of loopback, which is printed, until the process is ended."""
    appl.init(backend="appl.testing:Echo", trace=arm == "recorded", home=Path.cwd() / "home")
    asyncio.run(_serve(bare if arm == "bare" else with_run))


async def _serve(handler: Handler) -> None:
    app = web.Application()
    app.add_routes([web.get("/", handler), web.get("/cpu", cpu)])
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    print(runner.addresses[0][1], flush=True)
    await asyncio.Event().wait()


@contextmanager
def server(arm: str) -> Iterator[int]:
    """The port of a new server on the first core."""
    command = [sys.executable, str(Path(__file__).absolute()), "--serve", arm]
    with tempfile.TemporaryDirectory(prefix="appl-web-") as folder:
        process = subprocess.Popen(
            command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        try:
            assert process.stdout is not None
            os.sched_setaffinity(process.pid, {min(os.sched_getaffinity(0))})
            yield int(process.stdout.readline())
        finally:
            process.kill()
            process.wait()


# -- the client


async def answer(ask: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
    """The body of the answer to *ask*."""
    writer.write(ask)
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    assert head.startswith(b"http/1.1 200"), head
    length = int(head.split(b"content-length: ")[1].split(b"\r\n")[0])
    return await reader.readexactly(length)


async def client(port: int, numbers: Iterator[int]) -> None:
    """Ask one question after the other over one connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for number in numbers:
        assert await answer(ASK % number, reader, writer)
    writer.close()


async def load(port: int, requests: int, connections: int) -> tuple[float, float]:
    """Requests a second, and microseconds of the server's CPU a request."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    await asyncio.gather(*(client(port, iter(range(20))) for _ in range(connections)))  # warm
    before, began = int(await answer(CPU, reader, writer)), time.perf_counter()
    numbers = iter(range(requests))
    await asyncio.gather(*(client(port, numbers) for _ in range(connections)))
    seconds, after = time.perf_counter() - began, int(await answer(CPU, reader, writer))
    writer.close()
    return requests / seconds, (after - before) / requests / 1000


def measured(arm: str, requests: int, connections: int) -> tuple[float, float]:
    with server(arm) as port:
        return asyncio.run(load(port, requests, connections))


def row(found: list[tuple[float, float]]) -> dict[str, list[float]]:
    """Median, smallest and largest of requests a second, and of microseconds a request."""
    rates, costs = zip(*found, strict=True)
    return {
        name: [round(pick(values), 1) for pick in (statistics.median, min, max)]
        for name, values in (("requests_a_second", rates), ("cpu_us", costs))
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--serve", choices=ARMS)
    parser.add_argument("--requests", type=int, default=1500)
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json")
    options = parser.parse_args()
    if options.serve:
        serve(options.serve)
        return
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    found: dict[str, list[tuple[float, float]]] = {arm: [] for arm in ARMS}
    for _ in range(options.repeats):
        for arm in ARMS:
            found[arm].append(measured(arm, options.requests, options.connections))
    rows = {arm: row(values) for arm, values in found.items()}
    for arm, values in rows.items():
        (rate, low, high), (cost, *_) = values["requests_a_second"], values["cpu_us"]
        print(f"{arm:10} {rate:7.0f} requests/s ({low:.0f} to {high:.0f}), {cost:6.0f} µs of CPU")
    command = (
        f"python benchmarks/web_server.py --requests {options.requests} --repeats {options.repeats}"
    )
    write(options.json, command, rows)


if __name__ == "__main__":
    main()
