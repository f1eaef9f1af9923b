"""Client CPU of one call to an OpenAI-compatible server: our backends, the bare SDKs, bare aiohttp.

Run: python benchmarks/providers.py [--json FILE] [--calls 1000]
All ask the same questions of one server in another process, 64 calls at a time, in turn, the median
of 5 rounds; ``program`` is a recorded ``@ppl`` program on our backend. The chat has 40 messages.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from report import write

from appl import gen, ppl
from appl.backend import Request, Sampling
from appl.prompt import Message, Messages
from appl.runtime.concurrency.loop_thread import io_thread
from appl.runtime.run import Run
from appl.testing.faults import FaultServer
from appl.tracing import Recorder
from appl_backends.litellm import LiteLLM
from appl_backends.openai import OpenAI

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
AT_ONCE, ROUNDS, MODEL = 64, 5, "m"
Ask = Callable[[Messages], Awaitable[Any]]


def questions(kind: str, count: int) -> list[Messages]:
    """*count* prompts: one short message, or a long chat that they share."""
    front = None
    if kind == "chat":
        roles = ("user", "assistant")
        front = Messages.of([Message(roles[at % 2], f"{at} " * 200) for at in range(40)])  # type: ignore[arg-type]
    return [Messages(front, Message("user", f"question {at}")) for at in range(count)]


async def all_of(ask: Ask, prompts: list[Messages]) -> None:
    """Ask them, so many at a time."""
    waiting = iter(prompts)

    async def worker() -> None:
        for prompt in waiting:
            await ask(prompt)

    await asyncio.gather(*(worker() for _ in range(AT_ONCE)))


def as_dicts(prompt: Messages) -> list[dict[str, Any]]:
    return [message.as_dict() for message in prompt]


def clients(url: str, streamed: bool) -> dict[str, tuple[Ask, Callable[[], Awaitable[Any]]]]:
    """Who asks, by name, and how each is closed."""
    aiohttp, openai = importlib.import_module("aiohttp"), importlib.import_module("openai")
    session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))
    bare = openai.AsyncOpenAI(
        base_url=url, api_key="k", max_retries=0, http_client=openai.DefaultAioHttpClient()
    )
    plain = openai.AsyncOpenAI(base_url=url, api_key="k", max_retries=0)
    ours, lite = OpenAI(base_url=url, api_key="k"), LiteLLM(base_url=url, api_key="k")
    emit = (lambda chunk: None) if streamed else None

    async def with_aiohttp(prompt: Messages) -> None:
        body = {"model": MODEL, "messages": as_dicts(prompt), "stream": streamed}
        async with session.post(f"{url}/chat/completions", json=body) as answer:
            data = await answer.read()
        if not streamed:
            json.loads(data)

    def with_sdk(client: Any) -> Ask:
        async def ask(prompt: Messages) -> None:
            answer = await client.chat.completions.create(
                model=MODEL, messages=as_dicts(prompt), stream=streamed
            )
            if streamed:
                async for _ in answer:
                    pass

        return ask

    def with_backend(backend: Any, model: str) -> Ask:
        async def ask(prompt: Messages) -> None:
            await backend.complete(Request("/a", 0, model, prompt, Sampling()), emit)

        return ask

    async def with_litellm(prompt: Messages) -> None:
        litellm = importlib.import_module("litellm")
        answer = await litellm.acompletion(
            model=f"openai/{MODEL}", messages=as_dicts(prompt), base_url=url, api_key="k",
            stream=streamed, num_retries=0, max_retries=0,
        )  # fmt: skip
        if streamed:
            async for _ in answer:
                pass

    async def close_litellm() -> None:
        await importlib.import_module("litellm").close_litellm_async_clients()

    return {
        "aiohttp": (with_aiohttp, session.close),
        "openai SDK, aiohttp": (with_sdk(bare), bare.close),
        "openai SDK, httpx": (with_sdk(plain), plain.close),
        "our openai": (with_backend(ours, MODEL), ours.aclose),
        "litellm": (with_litellm, close_litellm),
        "our litellm": (with_backend(lite, f"openai/{MODEL}"), lite.aclose),
    }


async def cpu_of_all(url: str, kind: str, streamed: bool, count: int) -> dict[str, list[float]]:
    """Microseconds of CPU a call, by client, one round after the other."""
    found: dict[str, list[float]] = {}
    asking = clients(url, streamed)
    for at in range(ROUNDS + 1):
        for name, (ask, _) in asking.items():
            few = count // 5 if "litellm" in name else count
            prompts = questions(kind, few if at else AT_ONCE)
            before = time.process_time_ns()
            await all_of(ask, prompts)
            if at:  # the first round warms up
                spent = (time.process_time_ns() - before) / len(prompts) / 1000
                found.setdefault(name, []).append(spent)
    for _, close in asking.values():
        await close()
    return found


@ppl
def program(count: int) -> None:
    """Ask that many short questions, all at once."""
    for answer in [one(at) for at in range(count)]:
        _ = str(answer)


@ppl
def one(number: int) -> Any:
    f"question {number}"
    return gen()


def cpu_of_program(url: str, count: int) -> list[float]:
    """Microseconds of CPU a recorded call of a program, its trace included."""
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for at in range(ROUNDS + 1):
            recorder = Recorder(Path(folder) / f"{at}.trace")
            backend = OpenAI(base_url=url, api_key="k", concurrency=AT_ONCE, model=MODEL)
            before = time.process_time_ns()
            with Run(backend, instruments=[recorder], gate=recorder.gate):
                program(count if at else AT_ONCE)
            recorder.close("finished")
            spent = time.process_time_ns() - before
            io = io_thread()
            asyncio.run_coroutine_threadsafe(backend.aclose(), io.loop).result()
            if at:
                found.append(spent / count / 1000)
    return found


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json")
    parser.add_argument("--calls", type=int, default=1000)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        serve()
        return
    command = [sys.executable, __file__, "--serve"]
    found = []
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        url = server.stdout.readline().decode().strip()
        for kind, streamed in (("short", False), ("chat", False), ("short", True)):
            rounds = asyncio.run(cpu_of_all(url, kind, streamed, arguments.calls))
            if (kind, streamed) == ("short", False):
                rounds["our openai, recorded program"] = cpu_of_program(url, arguments.calls)
            base = statistics.median(rounds["openai SDK, aiohttp"])
            for name, spent in rounds.items():
                cost = statistics.median(spent)
                shape = f"{kind}{', streamed' if streamed else ''}"
                print(f"{shape:16} {name:30} {cost:8.0f} µs  {cost / base:5.2f} × SDK", flush=True)
                found.append({"shape": shape, "client": name, "us_a_call": cost,
                              "rounds": spent, "of_sdk": cost / base})  # fmt: skip
        assert server.stdin is not None
        server.stdin.close()
    write(arguments.json, "python benchmarks/providers.py", found)


def serve() -> None:
    """Answer until stdin is closed."""
    with FaultServer() as server:
        print(server.openai_url, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
