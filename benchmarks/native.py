"""CPU of the native SGLang client against a bare aiohttp loop that posts the same bytes.

Both ask a minimal HTTP server in another process, which answers at once, or after ``--latency``.
``fan-out`` is a ``@ppl`` program with many calls at once, recorded; ``self-consistency`` is 100
programs of 10 branches and a vote. Arms are interleaved; the ratio is that of the medians.
Run: python benchmarks/native.py [--calls 1000,10000] [--repeats 5] [--json FILE]
Bars: 1.4 times the bare loop's CPU, and 1.4 times its time at a latency of 50 ms.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
from report import write

from appl import call, gen, ppl
from appl.runtime.concurrency.loop_thread import io_thread
from appl.runtime.run import Run
from appl.tracing import Recorder
from appl_backends.sglang import SGLang

MODEL = Path(__file__).parents[1] / "backends" / "appl_backends" / "embedded" / "weights"
QUESTION = "What is the capital of France, and what was it called two thousand years ago? " * 8
CONNECTIONS = 100


# -- the server, in a process of its own


class Server(asyncio.Protocol):
    """HTTP/1.1 with just enough understanding to answer ``/generate`` and the probe."""

    latency = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: Any = transport
        self.buffer = b""

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        while (end := self.buffer.find(b"\r\n\r\n")) >= 0:
            head = self.buffer[:end].lower()
            _, found, after = head.partition(b"content-length: ")
            size = int(after.split(b"\r\n", 1)[0]) if found else 0
            if len(self.buffer) < end + 4 + size:
                return
            self.buffer = self.buffer[end + 4 + size :]
            path = head.split(b" ", 2)[1]
            body = REPLIES.get(path, b"{}")
            if path == b"/generate" and self.latency:
                asyncio.get_running_loop().call_later(self.latency, self.answer, body)
            else:
                self.answer(body)

    def answer(self, body: bytes) -> None:
        self.transport.write(
            b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b"
            % (len(body), body)
        )


ANSWER = {
    "text": "Paris, and Lutetia.",
    "output_ids": [17, 42, 99, 7, 5, 30, 2],
    "meta_info": {
        "id": "0123456789abcdef", "finish_reason": {"type": "stop", "matched": 2},
        "prompt_tokens": 150, "weight_version": "default", "num_retractions": 0,
        "reasoning_tokens": 0, "completion_tokens": 7, "cached_tokens": 128,
        "cached_tokens_details": {"device": 128, "host": 0}, "dp_rank": None,
        "e2e_latency": 0.0123456789,
    },
}  # fmt: skip
FACTS = {
    "version": "0.5.17", "schedule_policy": "lpm", "disable_radix_cache": False,
    "max_total_num_tokens": 400000, "incremental_streaming_output": True,
    "constrained_json_disable_any_whitespace": True,
}  # fmt: skip
REPLIES = {
    path: json.dumps(value).encode()
    for path, value in {
        b"/generate": ANSWER,
        b"/server_info": FACTS,
        b"/model_info": {"model_path": str(MODEL), "is_generation": True},
    }.items()
}


async def serve(latency: float) -> None:
    Server.latency = latency
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Server, "127.0.0.1", 0, backlog=4096)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


@contextlib.contextmanager
def serving(latency: float) -> Iterator[str]:
    command = [sys.executable, __file__, "--serve", str(latency)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{process.stdout.readline().strip()}"
        finally:
            process.terminate()


# -- the bare loop


class Bare:
    """One aiohttp session on a loop of its own, open as long as the client's."""

    def __init__(self, url: str, body: bytes) -> None:
        self._url, self._body = url + "/generate", body
        self._loop = asyncio.new_event_loop()
        self._session = self._loop.run_until_complete(self._open())

    async def _open(self) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=CONNECTIONS))

    async def _ask(self) -> str:
        headers = {"Content-Type": "application/json"}
        async with self._session.post(self._url, data=self._body, headers=headers) as answer:
            found = json.loads(await answer.read())
        return str(found["text"])

    async def _fan_out(self, calls: int) -> None:
        await asyncio.gather(*(self._ask() for _ in range(calls)))

    async def _vote(self) -> None:
        await self._fan_out(10)
        await self._ask()

    async def _votes(self, programs: int) -> None:
        await asyncio.gather(*(self._vote() for _ in range(programs)))

    def fan_out(self, calls: int) -> None:
        self._loop.run_until_complete(self._fan_out(calls))

    def votes(self, programs: int) -> None:
        self._loop.run_until_complete(self._votes(programs))

    def close(self) -> None:
        self._loop.run_until_complete(self._session.close())
        self._loop.close()


# -- the programs


@ppl
def fan_out(calls: int) -> list[str]:
    f"{QUESTION}"
    answers = [gen(max_tokens=64) for _ in range(calls)]
    return [str(answer) for answer in answers]


@ppl
def vote(number: int) -> str:
    f"{QUESTION} ({number})"
    answers = [gen(max_tokens=64) for _ in range(10)]
    for answer in answers:
        f"- {answer}"
    "Which one is right?"
    return str(gen(max_tokens=64))


def votes(programs: int) -> None:
    found = [call(vote, number) for number in range(programs)]
    for each in found:
        str(each)


class Ours:
    """The client, connected, and the folder for the traces."""

    def __init__(self, url: str, folder: Path) -> None:
        self._backend, self._folder = SGLang(url=url, connections=CONNECTIONS), folder
        self._numbers = itertools.count()
        self.run(fan_out, 10)

    def run(self, program: Callable[[int], Any], size: int) -> None:
        """Run *program*, recorded, up to the closed trace."""
        recorder = Recorder(self._folder / f"{id(self)}-{next(self._numbers)}.trace")
        with Run(self._backend, instruments=[recorder], gate=recorder.gate):
            program(size)
        recorder.close("finished")

    def body(self) -> bytes:
        """The very bytes that a call of the fan-out posts."""
        seen: list[bytes] = []
        wire = self._backend._wire
        post = wire.post

        async def listening(path: str, body: bytes) -> Any:
            seen.append(body)
            return await post(path, body)

        wire.post = listening  # type: ignore[method-assign]
        with Run(self._backend):
            fan_out(1)
        wire.post = post  # type: ignore[method-assign]
        return seen[0]

    def close(self) -> None:
        asyncio.run_coroutine_threadsafe(self._backend.aclose(), io_thread().loop).result()


def measured(arms: dict[str, Callable[[], None]], repeats: int) -> dict[str, dict[str, float]]:
    """The median CPU and time of each arm, in seconds; the arms take turns."""
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in arms}
    for _ in range(repeats):
        for name, arm in arms.items():
            cpu, clock = time.process_time(), time.perf_counter()
            arm()
            found[name].append((time.process_time() - cpu, time.perf_counter() - clock))
    return {
        name: {
            "cpu_s": statistics.median(cpu for cpu, _ in rows),
            "time_s": statistics.median(clock for _, clock in rows),
        }
        for name, rows in found.items()
    }


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--serve", type=float)
    parser.add_argument("--json")
    parser.add_argument("--calls", default="1000,10000")
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    if arguments.serve is not None:
        with contextlib.suppress(KeyboardInterrupt):
            asyncio.run(serve(arguments.serve))
        return
    rows = []
    with tempfile.TemporaryDirectory() as name:
        counts = [int(count) for count in arguments.calls.split(",")]
        with both(0.0, Path(name)) as (bare, ours):
            for calls in counts:
                arms = {
                    "bare": partial(bare.fan_out, calls),
                    "ours": partial(ours.run, fan_out, calls),
                }
                rows.append(_row("fan-out", calls, calls, measured(arms, arguments.repeats)))
        with both(0.05, Path(name)) as (bare, ours):
            arms = {"bare": partial(bare.votes, 100), "ours": partial(ours.run, votes, 100)}
            found = measured(arms, arguments.repeats)
            rows.append(_row("self-consistency, 50 ms", 100, 1100, found))
    write(arguments.json, "python benchmarks/native.py", rows)


@contextlib.contextmanager
def both(latency: float, folder: Path) -> Iterator[tuple[Bare, Ours]]:
    """The two arms, connected to a server."""
    with serving(latency) as url:
        ours = Ours(url, folder)
        bare = Bare(url, ours.body())
        yield bare, ours
        bare.close()
        ours.close()


def _row(load: str, size: int, calls: int, found: dict[str, dict[str, float]]) -> dict[str, Any]:
    """One line of the table, printed."""
    ratios = {what: found["ours"][what] / found["bare"][what] for what in ("cpu_s", "time_s")}
    shown = "  ".join(
        f"{name}: {each['cpu_s'] / calls * 1e6:6.0f} µs CPU a call, {each['time_s']:6.3f} s"
        for name, each in found.items()
    )
    print(
        f"{load} {size:>6}  {shown}  CPU ×{ratios['cpu_s']:.2f}  time ×{ratios['time_s']:.2f}",
        flush=True,
    )
    return {"load": load, "size": size, "calls": calls, **found, "ratios": ratios}


if __name__ == "__main__":
    main()
