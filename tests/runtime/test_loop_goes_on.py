"""asyncio with generations, at a real server: the loop goes on while they wait, and none is lost."""

from __future__ import annotations

import asyncio
import itertools
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from appl import as_completed, call, gen, map as appl_map, ppl
from appl.testing import running
from appl_backends.openai import OpenAI
from tests.wire.servers import FaultServer

COUNT = 100


@ppl
def ask(question: object):
    f"{question}"
    return gen()


async def as_list(answers: Any) -> list[Any]:
    return await asyncio.gather(*answers)


async def as_they_end(answers: Any) -> list[Any]:
    return [await each for each in asyncio.as_completed(answers)]


async def waited(answers: Any) -> list[Any]:
    done, _ = await asyncio.wait([asyncio.ensure_future(answer) for answer in answers])
    return [task.result() for task in done]


async def grouped(answers: Any) -> list[Any]:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(answer) for answer in answers]
    return [task.result() for task in tasks]


async def members(answers: Any) -> list[Any]:
    return [await answer for answer in set(answers)]


async def keys(answers: Any) -> list[Any]:
    numbers = {answer: number for number, answer in enumerate(answers)}
    assert [numbers[answer] for answer in answers] == list(range(len(answers)))
    return [await answer for answer in dict.fromkeys(answers)]


async def shielded(answers: Any) -> list[Any]:
    tasks = [asyncio.create_task(answer) for answer in answers]
    return [await asyncio.wait_for(asyncio.shield(task), 60) for task in tasks]


WAYS = [as_list, as_they_end, waited, grouped, members, keys, shielded]


def asked() -> list[Any]:
    return [ask("the same") for _ in range(COUNT)]


def called() -> list[Any]:
    return [call(ask, "the same") for _ in range(COUNT)]


async def of_map() -> list[Any]:
    return list(await appl_map(ask, ["the same"] * COUNT))


async def of_completed() -> list[Any]:
    return [answer async for answer in as_completed(ask, ["the same"] * COUNT)]


class Ticks:
    """How often a loop went on; the server asks for it, from its own thread, before it answers."""

    def __init__(self) -> None:
        self.count, self.still = 0, 0

    async def run(self) -> None:
        while True:
            self.count += 1
            await asyncio.sleep(0)

    def answer(self, question: str) -> str:
        """An answer that is held back until the loop has gone on since it was asked for."""
        before, began = self.count, time.monotonic()
        while self.count < before + 2 and time.monotonic() - began < 5:
            time.sleep(0)  # gives way to the loop's thread
        self.still += self.count < before + 2
        return f"answer to {question}"


def at_a_server(program: Callable[[], Awaitable[list[Any]]]) -> tuple[list[Any], Ticks]:
    ticks = Ticks()

    async def main() -> list[Any]:
        ticking = asyncio.ensure_future(ticks.run())
        answers = [str(answer) for answer in await program()]
        ticking.cancel()
        return answers

    with FaultServer(answer=ticks.answer) as server:
        backend = OpenAI(base_url=server.openai_url, api_key="none", model="fault")
        with running(backend):
            return asyncio.run(main()), ticks


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("start", [asked, called])
def test_the_loop_goes_on_and_no_answer_is_lost(start: Any, way: Any) -> None:
    answers, ticks = at_a_server(lambda: way(start()))
    assert answers == ["answer to the same"] * COUNT and not ticks.still


@pytest.mark.parametrize("start", [of_map, of_completed])
def test_so_it_does_with_what_map_and_as_completed_give(start: Any) -> None:
    async def program() -> list[Any]:
        return await as_list(await start())

    answers, ticks = at_a_server(program)
    assert answers == ["answer to the same"] * COUNT and not ticks.still


# -- by the clock, at a server of 0.4 s

LONGEST_S = 0.05


SLOW = """
import asyncio

BODY = b'{"choices":[{"message":{"role":"assistant","content":"yes"},"finish_reason":"stop"}]}'
HEAD = b"HTTP/1.1 200 OK\\r\\nContent-Type: application/json\\r\\nContent-Length: %d\\r\\n\\r\\n"

async def serve(reader, writer):
    while head := await reader.readuntil(b"\\r\\n\\r\\n"):
        length = head.lower().partition(b"content-length:")[2].split(b"\\r\\n")[0]
        await reader.readexactly(int(length))
        await asyncio.sleep(0.4)
        writer.write(HEAD % len(BODY) + BODY)

async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", 0, backlog=4096)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()

asyncio.run(main())
"""


@contextmanager
def slow_server() -> Iterator[str]:
    """A server in a process of its own."""
    process = subprocess.Popen(
        [sys.executable, "-c", SLOW], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}/v1"
    finally:
        process.kill()
        process.communicate()


async def longest_pause(ended: asyncio.Event) -> float:
    moments = [time.monotonic()]
    while not ended.is_set():
        await asyncio.sleep(0.001)
        moments.append(time.monotonic())
    return max(after - before for before, after in itertools.pairwise(moments))


@pytest.mark.long
def test_the_longest_pause_of_the_loop_is_short() -> None:
    async def measured(way: Any) -> tuple[int, float]:
        ended = asyncio.Event()
        pause = asyncio.ensure_future(longest_pause(ended))
        answers = await way(asked())
        ended.set()
        return len(answers), await pause

    with slow_server() as url, running(OpenAI(base_url=url, api_key="none", model="m")):
        asyncio.run(measured(as_list))  # the connections are there
        found = {way.__name__: asyncio.run(measured(way)) for way in WAYS}
    print({name: round(pause * 1000) for name, (_, pause) in found.items()}, "ms")
    assert {count for count, _ in found.values()} == {COUNT}
    assert max(pause for _, pause in found.values()) <= LONGEST_S, found
