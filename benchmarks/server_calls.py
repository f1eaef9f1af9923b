"""CPU of a recorded call of a server against bare loops that ask the same.

A minimal HTTP server in another process answers OpenAI's and SGLang's words with answers that all
differ. For each load our program runs first, and the server keeps the bodies that it was sent. Then
the arms take turns: our program on both clients, recorded and not, from the opening of the run to
its end; aiohttp, which encodes the messages of each call as such a loop would; and a protocol of
forty lines on asyncio's transports that posts ready bytes, the least that Python can do. Both bare
loops ask what our OpenAI-compatible client asked, in the same order of dependence, over connections
that are open already. CPU is that of this process, all its threads; the server's is not in it.

``at once``: as many programs with a question of their own, 50 ms an answer. ``votes``: 100 programs
of 10 branches and a vote, 50 ms. ``sequence``: one question after the other, answered at once.
``agents``: two agents who hear each other, 200 tokens a turn. ``long``: one prompt of 2,000
messages and 1 MB.
Run: python benchmarks/server_calls.py [--loads NAME,…] [--repeats 5] [--json FILE]
Bars, recorded over aiohttp: OpenAI-compatible 1.3 (at once 1,000), 1.3 (votes), 1.9 (sequence), 0.6
(at once 10,000), 2.0 and 0.8 (agents of 50 and 400 turns), 6 (long); native 1.5, 1.8, 2.0, 0.8,
2.5, 1.5, 70. Recording, by difference of recorded and not recorded at 1,000 at once: 40 µs.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, ClassVar

import aiohttp
from report import write

import appl
from appl import AIRole, gen, ppl

MODEL = Path(__file__).parents[1] / "backends" / "appl_backends" / "embedded" / "weights"
CONNECTIONS = 1000
PATH, NATIVE = "/v1/chat/completions", "/generate"
KEY = {"Authorization": "Bearer k"}
BARE = ("aiohttp", "protocol")
WORDS = "river stone paper window morning letter market garden number winter silver train".split()

Steps = list[list[bytes]]
"""The bodies of one program: those of one step are posted together, then those of the next."""


# -- the server, in a process of its own


def answers() -> Iterator[tuple[str, list[int]]]:
    """997 answers of about 200 tokens that all differ, and their tokens, for ever."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(MODEL / "tokenizer.json"))
    texts = [
        " ".join(WORDS[at * step % 12] for step in range(1, 120)) + f" {at}." for at in range(997)
    ]
    ids = [tokenizer.encode(text, add_special_tokens=False).ids[:200] for text in texts]
    return itertools.cycle([(tokenizer.decode(found), found) for found in ids])


def short_answers() -> Iterator[tuple[str, list[int]]]:
    """997 answers of some tokens."""
    return ((text[:40], ids[:10]) for text, ids in answers())


def openai_reply(text: str, ids: list[int]) -> bytes:
    """A chat completion."""
    message = {"role": "assistant", "content": text}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    usage = {"prompt_tokens": 150, "completion_tokens": len(ids), "total_tokens": 150 + len(ids)}
    answer = {"id": "a1", "object": "chat.completion", "created": 1, "model": "m"}
    return json.dumps(answer | {"choices": [choice], "usage": usage}).encode()


def native_reply(text: str, ids: list[int]) -> bytes:
    """An answer of ``/generate``."""
    facts = {
        "id": "0123456789abcdef", "finish_reason": {"type": "stop", "matched": 2},
        "prompt_tokens": 150, "weight_version": "default", "completion_tokens": len(ids),
        "cached_tokens": 128, "dp_rank": None, "e2e_latency": 0.0123456789,
    }  # fmt: skip
    return json.dumps({"text": text, "output_ids": ids, "meta_info": facts}).encode()


FACTS = {
    "/server_info": {
        "version": "0.5.17", "schedule_policy": "lpm", "disable_radix_cache": False,
        "max_total_num_tokens": 400000, "incremental_streaming_output": True,
        "constrained_json_disable_any_whitespace": True,
    },
    "/model_info": {"model_path": str(MODEL), "is_generation": True},
}  # fmt: skip


class Server(asyncio.Protocol):
    """HTTP/1.1 with just enough understanding for these clients; keeps the bodies it was sent."""

    latency = 0.0
    replies: ClassVar[dict[str, Iterator[bytes]]]
    kept: list[bytes] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: Any = transport
        self.buffer = bytearray()

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        while (end := self.buffer.find(b"\r\n\r\n")) >= 0:
            head = bytes(self.buffer[:end]).lower()
            _, found, after = head.partition(b"content-length: ")
            begin, size = end + 4, int(after.split(b"\r\n", 1)[0]) if found else 0
            if len(self.buffer) < begin + size:
                return
            body = bytes(self.buffer[begin : begin + size])
            del self.buffer[: begin + size]
            self.asked(head.split(b" ", 2)[1].decode(), body)

    def asked(self, path: str, body: bytes) -> None:
        if path == "/keep":  # begin to keep bodies
            Server.kept = []
            self.answer(b"{}")
        elif path == "/kept":  # hand over those that were kept
            self.answer(json.dumps([kept.decode() for kept in Server.kept or []]).encode())
            Server.kept = None
        elif path in self.replies:
            if Server.kept is not None:
                Server.kept.append(body)
            asyncio.get_running_loop().call_later(
                self.latency, self.answer, next(self.replies[path])
            )
        else:
            self.answer(json.dumps(FACTS.get(path, {})).encode())

    def answer(self, body: bytes) -> None:
        head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
        self.transport.write(head % len(body) + body)


async def serve(latency: float, length: str) -> None:
    """Serve until the process is ended; the first line printed is the port."""
    Server.latency = latency
    made = answers if length == "long" else short_answers
    Server.replies = {
        PATH: itertools.starmap(openai_reply, made()),
        NATIVE: itertools.starmap(native_reply, made()),
    }
    server = await asyncio.get_running_loop().create_server(Server, "127.0.0.1", 0, backlog=4096)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


@contextlib.contextmanager
def serving(latency: float, length: str) -> Iterator[str]:
    """The address of a server that waits *latency* seconds and gives short or long answers."""
    command = [sys.executable, __file__, "--serve", str(latency), length]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{process.stdout.readline().strip()}"
        finally:
            process.terminate()


# -- the programs


@cache
def words(number: int, count: int) -> str:
    """A text that no other number has, of so many words; made before the measured rounds."""
    return f"{number}: " + " ".join(WORDS[(number * 7 + at * at) % 12] for at in range(count))


@ppl
def question(number: int) -> Any:
    f"Question {words(number, 20)}"
    return gen(max_tokens=64)


@ppl
def vote(number: int) -> Any:
    f"Question {words(number, 20)}"
    drafts = [gen(max_tokens=64, seed=seed) for seed in range(10)]
    for draft in drafts:
        f"- {draft}"
    "Which one is right?"
    return gen(max_tokens=64)


@ppl
def speaker(turns: int) -> Any:
    """An agent that is told what the other one said, and answers; it yields each answer."""
    heard = yield
    for _ in range(turns):
        f"{heard}"
        with AIRole():
            (answer := gen(max_tokens=200))
        heard = yield str(answer)


@ppl
def told(count: int) -> Any:
    for at in range(count):
        if at % 2:
            with AIRole():
                f"{words(at, 80)}"
        else:
            f"{words(at, 80)}"
    return gen(max_tokens=64)


def at_once(count: int) -> None:
    for answer in [question(number) for number in range(count)]:
        str(answer)


def votes(count: int) -> None:
    for answer in [appl.call(vote, number) for number in range(count)]:
        str(answer)


def sequence(count: int) -> None:
    for number in range(count):
        str(question(number))


def agents(turns: int) -> None:
    """Two agents; each is told the other's last answer."""
    pair = [speaker(turns), speaker(turns)]
    for agent in pair:
        next(agent)
    said = "Let us talk of rivers."
    for turn in range(turns):
        said = pair[turn % 2].send(said)


def long(count: int) -> None:
    str(told(count))


@dataclass(frozen=True)
class Load:
    """A program, its size, the calls it makes, and how its bodies depend on each other."""

    program: Callable[[int], None]
    size: int
    calls: int
    steps: Callable[[list[bytes]], list[Steps]]
    latency: float = 0.0
    answers: str = "short"


def all_at_once(bodies: list[bytes]) -> list[Steps]:
    return [[[body]] for body in bodies]


def one_by_one(bodies: list[bytes]) -> list[Steps]:
    return [[[body] for body in bodies]]


def ten_and_one(bodies: list[bytes]) -> list[Steps]:
    """The shortest ten of eleven are branches; the longest are votes."""
    ordered = sorted(bodies, key=len)
    split = len(ordered) // 11 * 10
    branches, ends = ordered[:split], ordered[split:]
    return [[branches[at * 10 : at * 10 + 10], [end]] for at, end in enumerate(ends)]


LOADS = {
    "at once 1,000": Load(at_once, 1000, 1000, all_at_once, 0.05),
    "votes 100 × 11": Load(votes, 100, 1100, ten_and_one, 0.05),
    "sequence 300": Load(sequence, 300, 300, one_by_one),
    "at once 10,000": Load(at_once, 10_000, 10_000, all_at_once, 0.05),
    "agents 50": Load(agents, 50, 50, one_by_one, answers="long"),
    "agents 400": Load(agents, 400, 400, one_by_one, answers="long"),
    "long 2,000 messages": Load(long, 2000, 1, one_by_one),
}


# -- the bare loops


class Aiohttp:
    """One aiohttp session, its connections open."""

    def __init__(self, url: str) -> None:
        self._url = url

    def prepare(self, bodies: Iterable[bytes]) -> None:
        self._said = {body: json.loads(body) for body in bodies}

    async def open(self) -> None:
        connector = aiohttp.TCPConnector(limit=CONNECTIONS, keepalive_timeout=600)
        self._session = aiohttp.ClientSession(connector=connector)

    async def ask(self, body: bytes) -> None:
        async with self._session.post(self._url, json=self._said[body], headers=KEY) as answer:
            json.loads(await answer.read())

    async def close(self) -> None:
        await self._session.close()


class Connection(asyncio.Protocol):
    """The least that reads an answer: its length, then as many bytes."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: Any = transport
        self.loop = asyncio.get_running_loop()

    def ask(self, head: bytes, body: bytes) -> asyncio.Future[bytes]:
        self.got, self.end = bytearray(), -1
        self.answer = self.loop.create_future()
        self.transport.write(head % len(body) + body)
        return self.answer

    def data_received(self, data: bytes) -> None:
        self.got += data
        if self.end < 0 and (begin := self.got.find(b"\r\n\r\n")) >= 0:
            length = bytes(self.got[:begin]).partition(b"content-length: ")[2]
            self.begin, self.end = begin + 4, begin + 4 + int(length.split(b"\r\n", 1)[0])
        if 0 <= self.end <= len(self.got):
            self.answer.set_result(bytes(self.got[self.begin : self.end]))


class Protocol:
    """A pool of such connections."""

    def __init__(self, url: str) -> None:
        host, _, path = url.removeprefix("http://").partition("/")
        self._host, _, self._port = host.partition(":")
        self._head = (
            f"POST /{path} HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\n"
            "authorization: Bearer k\r\ncontent-length: %d\r\n\r\n"
        ).encode()
        self._idle: list[Connection] = []

    def prepare(self, bodies: Iterable[bytes]) -> None:
        """Nothing: it posts them as they are."""

    async def open(self) -> None:
        self._places = asyncio.Semaphore(CONNECTIONS)

    async def ask(self, body: bytes) -> None:
        async with self._places:
            connection = self._idle.pop() if self._idle else await self._new()
            json.loads(await connection.ask(self._head, body))
            self._idle.append(connection)

    async def _new(self) -> Connection:
        loop = asyncio.get_running_loop()
        return (await loop.create_connection(Connection, self._host, int(self._port)))[1]

    async def close(self) -> None:
        for connection in self._idle:
            connection.transport.close()


class Bare:
    """A bare client on a loop of its own, which plays the bodies of a load."""

    def __init__(self, client: Aiohttp | Protocol, programs: list[Steps]) -> None:
        self._loop, self._client, self._programs = asyncio.new_event_loop(), client, programs
        client.prepare(body for steps in programs for step in steps for body in step)
        self._loop.run_until_complete(client.open())

    def run(self) -> None:
        self._loop.run_until_complete(self._all())

    async def _all(self) -> None:
        await asyncio.gather(*(self._one(steps) for steps in self._programs))

    async def _one(self, steps: Steps) -> None:
        for bodies in steps:
            await _together([self._client.ask(body) for body in bodies])

    def close(self) -> None:
        self._loop.run_until_complete(self._client.close())
        self._loop.close()


async def _together(asked: list[Awaitable[None]]) -> None:
    if len(asked) == 1:
        await asked[0]
    else:
        await asyncio.gather(*asked)


# -- ours


def clients(url: str) -> dict[str, dict[str, Any]]:
    """What a user writes for a server of each kind."""
    openai = {"type": "openai", "base_url": f"{url}/v1", "api_key": "k", "concurrency": CONNECTIONS}
    return {"openai": openai, "native": {"type": "sglang", "url": url, "connections": CONNECTIONS}}


def run(load: Load, client: str, recorded: bool) -> None:
    """The program in a run of its own, to its closed trace."""
    appl.init(model=f"{client}/{MODEL}", trace=recorded)
    appl.run(load.program, load.size)


def bodies(load: Load, url: str) -> list[Steps]:
    """What our program posts, as programs of steps."""
    _get(f"{url}/keep")
    run(load, "openai", recorded=False)
    kept = [body.encode() for body in json.loads(_get(f"{url}/kept"))]
    assert len(kept) == load.calls, f"{load.calls} calls, {len(kept)} posted"
    return load.steps(kept)


def _get(url: str) -> bytes:
    with urllib.request.urlopen(url) as answer:
        return bytes(answer.read())


# -- the measurement


def measured(arms: dict[str, Callable[[], None]], repeats: int) -> dict[str, list[float]]:
    """Seconds of CPU of each round of each arm; the arms take turns, and a first round warms up."""
    found: dict[str, list[float]] = {name: [] for name in arms}
    for at in range(repeats + 1):
        for name, arm in arms.items():
            gc.collect()  # what another arm has left is not this one's work
            before = time.process_time()
            arm()
            if at:
                found[name].append(time.process_time() - before)
    return found


def block(name: str, repeats: int) -> dict[str, Any]:
    """One load, all arms beside each other."""
    load = LOADS[name]
    with serving(load.latency, load.answers) as url:
        appl.init(backends=clients(url))
        programs = bodies(load, url)
        bare = {"aiohttp": Bare(Aiohttp(url + PATH), programs)}
        bare["protocol"] = Bare(Protocol(url + PATH), programs)
        arms = {name: client.run for name, client in bare.items()}
        for client in ("openai", "native"):
            arms[client] = partial(run, load, client, True)
            arms[f"{client}, not recorded"] = partial(run, load, client, False)
        found = measured(arms, repeats)
        for client in bare.values():
            client.close()
    return row(name, {arm: [s / load.calls * 1e6 for s in rounds] for arm, rounds in found.items()})


def row(name: str, costs: dict[str, list[float]]) -> dict[str, Any]:
    """The table of a load, printed: medians, with the least and the most, and ratios.

    A ratio is the median of those of the rounds, as a machine may be slow for some of them.
    """
    middle = {arm: statistics.median(rounds) for arm, rounds in costs.items()}
    ratios = {arm: {bare: _ratio(costs[arm], costs[bare]) for bare in BARE} for arm in costs}
    print(name)
    for arm, rounds in costs.items():
        spread = f"({min(rounds):,.0f} to {max(rounds):,.0f})"
        of = "".join(f"  {ratios[arm][bare]:6.2f} × {bare}" for bare in BARE)
        print(f"  {arm:22} {middle[arm]:10,.0f} µs a call  {spread:24}{of}", flush=True)
    return {"load": name, "us_a_call": costs, "median": middle, "ratio": ratios}


def _ratio(rounds: list[float], bare: list[float]) -> float:
    return statistics.median(ours / theirs for ours, theirs in zip(rounds, bare, strict=True))


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--serve", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--loads", default=",".join(name.replace(",", "") for name in LOADS))
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json")
    arguments = parser.parse_args()
    if arguments.serve:
        with contextlib.suppress(KeyboardInterrupt):
            asyncio.run(serve(float(arguments.serve[0]), arguments.serve[1]))
        return
    wanted = arguments.loads.split(",")
    path = arguments.json and Path(arguments.json).resolve()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        os.environ["APPL_HOME"] = folder
        names = [name for name in LOADS if name.replace(",", "") in wanted]
        rows = [block(name, arguments.repeats) for name in names]
    write(path, "python benchmarks/server_calls.py", rows)


if __name__ == "__main__":
    main()
