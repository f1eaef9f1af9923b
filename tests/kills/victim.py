"""A recording program that is killed: a server forks one child for each line of orders.

The child runs a real program on a backend that writes down each call that it answers. It tells each
answer that was committed through a pipe, and kills itself at the ordered point of the writer.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import random
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from appl import gen, ppl
from appl.backend import Chunk, Emit, Profile, Request, Response, Sample
from appl.errors import ApplError
from appl.testing import CallEnded, Event, Run
from appl.tracing import Recorder
from appl.tracing.format import BlockFile, Scan, scan
from appl.tracing.recording import Writer


class Counting:
    """Answers at its own pace, and counts in a file of its own what it was asked."""

    profile = Profile("counting")

    def __init__(self, count: Path, seed: int) -> None:
        self._fd = os.open(count, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._dice = random.Random(seed)

    async def complete(self, request: Request, emit: Emit | None = None) -> Response:
        os.write(self._fd, f"{request.address}\n".encode())
        await asyncio.sleep(self._dice.choice([0, 0.0005, 0.002]))
        text = f"{request.address}: " + self._dice.choice(
            ["short", "long " * 300, f"{self._dice.random()}" * 40]
        )
        await self._stream(text, emit)
        return Response((Sample(text, "stop"),))

    async def _stream(self, text: str, emit: Emit | None) -> None:
        """Say *text* in pieces, perhaps not all of it."""
        at = 0
        while emit is not None and at < len(text) and self._dice.random() < 0.95:
            size = self._dice.randint(1, 60)
            emit(Chunk(0, text[at : at + size]))
            at += size
            await asyncio.sleep(0)

    async def aclose(self) -> None:
        pass


class Acknowledging:
    """Tells the parent of each answer, once it is committed."""

    def __init__(self, recorder: Recorder, pipe: int) -> None:
        self._recorder, self._pipe = recorder, pipe

    def on_event(self, event: Event) -> None:
        if isinstance(event, CallEnded) and event.response is not None:
            line = f"{event.address}\n".encode()
            self._recorder.on_commit(
                lambda error: None if error else void(os.write(self._pipe, line))
            )


def void(_: object) -> None:
    """Nothing."""


class Fate:
    """Kills the process when *point* is reached for the *count*-th time, after *last* is done."""

    def __init__(self, point: str, count: int, last: Callable[[], None] | None = None) -> None:
        self._point, self._left, self._last = point, count, last

    def __call__(self, point: str) -> None:
        if point == self._point:
            self._left -= 1
            if self._left == 0:
                if self._last is not None:
                    self._last()
                os.kill(os.getpid(), signal.SIGKILL)


class WithoutFlush(BlockFile):
    """Taken out: the write. Data stays in a buffer, as with a buffered file.

    Taken out besides: the look after the file, each second and at the end, which would find that
    before a kill does.
    """

    _held = b""

    def loss(self) -> None:
        pass

    def _write(self, data: bytes) -> None:
        self._held += data
        if len(self._held) > 1 << 16:
            os.write(self._fd, self._held)
            self._held = b""


class WithoutRepair(BlockFile):
    """Taken out: the cutting of a torn tail. New blocks come to lie behind it."""

    def _repair(self) -> Scan:
        found = Scan()
        with os.fdopen(os.dup(self._fd), "rb") as file:
            for _ in scan(file, found):
                pass
        found.good += found.torn
        return found


class WriterWithoutFlush(Writer):
    file_class = WithoutFlush


class WriterWithoutRepair(Writer):
    file_class = WithoutRepair


WRITERS: dict[str, type[Writer]] = {
    "whole": Writer,
    "no-flush": WriterWithoutFlush,
    "no-repair": WriterWithoutRepair,
}


@ppl(parallel=True)
def chat(name: int, turns: int) -> str:
    f"You are number {name}."
    for turn in range(turns):
        f"Turn {turn}: {gen()}"
    return str(gen())


@ppl(parallel=True)
def read(name: int, turns: int) -> str:
    f"You are number {name}."
    for turn in range(turns):
        answer = gen(stream=True)
        f"Turn {turn}: {answer}"
        f"It has {len(list(answer.text_stream))} pieces."
    return "".join(gen(stream=True).text_stream)


def live(order: dict[str, Any], pipe: int) -> None:
    """What the child does until it is killed, or at its end."""
    path = Path(order["path"])
    recorder = Recorder(
        path, {"program": "victim"}, append=path.exists(), durability=order.get("durability", "system"),
        fault=Fate(order["point"], order["count"]), writer=WRITERS[order["writer"]],
    )  # fmt: skip
    backend = Counting(Path(order["counts"]), order["seed"])
    with Run(backend, instruments=[recorder, Acknowledging(recorder, pipe)], gate=recorder.gate):
        program = read if order.get("stream") else chat
        values = [program(name, 2 + name % 3) for name in range(6)]
        print(len([str(value) for value in values]), file=sys.stderr)
    recorder.close()


def forked(order: dict[str, Any]) -> dict[str, Any]:
    """Run one child; what it acknowledged, and how it ended."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        code = 1
        try:
            live(order, writing)
            code = 0
        except ApplError as error:
            os.write(2, f"{type(error).__name__}: {error}\n".encode())
        finally:
            os._exit(code)
    os.close(writing)
    with os.fdopen(reading) as acks:
        told = acks.read().split()
    _, status = os.waitpid(child, 0)
    return {
        "pid": child,
        "acks": told,
        "killed": os.WIFSIGNALED(status),
        "code": os.waitstatus_to_exitcode(status),
    }


def serve() -> None:
    """One order a line on stdin, one result a line on stdout."""
    for line in sys.stdin:
        print(json.dumps(forked(json.loads(line))), flush=True)


if __name__ == "__main__":
    importlib.import_module("pydantic_core")  # or each child imports it anew
    serve()
