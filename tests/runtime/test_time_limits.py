"""A time limit limits: who leaves by an exception waits for nothing that he started."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import appl
from appl import gen, ppl
from appl.errors import CallCancelled
from appl.testing import CallEnded, Held, Log, Run, running
from appl.tracing import Recorder, Replayer, profile_data
from appl_backends.openai import OpenAI

SOON = 10  # seconds; a server that never answers would take for ever


class Silent:
    """A server that takes connections and says nothing."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}/v1"
        self._hearing: list[threading.Thread] = []
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                thread = threading.Thread(target=self._hear, args=(connection,), daemon=True)
                self._hearing.append(thread)
                thread.start()

    def _hear(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            while connection.recv(65536):
                pass

    def is_left(self) -> bool:
        """Whether every connection that was made has been ended by the other side."""
        for thread in self._hearing:
            thread.join(SOON)
        return not any(thread.is_alive() for thread in self._hearing)

    def stop(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # which wakes who accepts
        self._listener.close()


@pytest.fixture
def silent() -> Iterator[Silent]:
    server = Silent()
    yield server
    server.stop()


@ppl
def ask(question: str):
    f"{question}"
    return gen()


@ppl
def by_block():
    try:
        with appl.timeout(0.2):
            "inside"
            answer = gen()
            return str(answer)
    except TimeoutError:
        return [m.content for m in appl.convo()]


@ppl
def by_result():
    "before"
    try:
        return gen().result(timeout=0.2)
    except TimeoutError:
        return [m.content for m in appl.convo()]


@ppl
async def by_asyncio():
    try:
        async with asyncio.timeout(0.2):
            "inside"
            return str(await gen())
    except TimeoutError:
        return [m.content for m in appl.convo()]


@ppl
async def by_async_block():
    try:
        async with appl.timeout(0.2):
            "inside"
            f"{gen()}"
            return "never"
    except TimeoutError:
        return [m.content for m in appl.convo()]


@ppl
def by_many():
    "before"
    try:
        with appl.timeout(0.2):
            return [str(answer) for answer in [ask(q) for q in "abc"]]
    except TimeoutError:
        return [m.content for m in appl.convo()]


def outside_by_block() -> list[str]:
    with contextlib.suppress(TimeoutError), appl.timeout(0.2):
        return [str(answer) for answer in [ask(q) for q in "abc"]]
    return ["outside"]


def outside_by_result() -> list[str]:
    with contextlib.suppress(TimeoutError):
        return [ask("a").result(timeout=0.2)]
    return ["outside"]


async def outside_by_asyncio() -> list[str]:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(0.2):
            return [await ask("a")]
    return ["outside"]


PROGRAMS: dict[str, tuple[Callable[[], Any], list[str]]] = {
    "a block": (by_block, ["inside"]),
    "a result": (by_result, ["before"]),
    "asyncio.timeout": (by_asyncio, ["inside"]),
    "an async block": (by_async_block, ["inside"]),
    "many calls": (by_many, ["before"]),
    "a block outside": (outside_by_block, ["outside"]),
    "a result outside": (outside_by_result, ["outside"]),
    "asyncio.timeout outside": (outside_by_asyncio, ["outside"]),
}


def value_of(program: Callable[[], Any], backend: Any, **options: Any) -> Any:
    """What *program* returns in a run of its own."""

    async def inside() -> Any:
        async with Run(backend, **options):
            return await program()

    if asyncio.iscoroutinefunction(program):
        return asyncio.run(inside())
    with Run(backend, **options):
        return program()


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_limit_ends_the_calls_started_inside(name: str) -> None:
    program, expected = PROGRAMS[name]
    log, begun = Log(), time.monotonic()
    assert value_of(program, Held(), instruments=[log]) == expected
    assert time.monotonic() - begun < SOON
    ended = log.of(CallEnded)
    assert ended and all(isinstance(each.error, CallCancelled) for each in ended)


@pytest.mark.parametrize("name", ["a block", "a result", "asyncio.timeout", "a block outside"])
def test_a_limit_holds_with_a_server_that_does_not_answer(name: str, silent: Silent) -> None:
    program, expected = PROGRAMS[name]
    backend = OpenAI(model="m", base_url=silent.url, api_key="none")
    begun = time.monotonic()
    assert value_of(program, backend) == expected
    assert time.monotonic() - begun < SOON
    assert silent.is_left()


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_replay_ends_where_the_limit_ended(name: str, tmp_path: Path) -> None:
    program, expected = PROGRAMS[name]
    backend, path, log = Held(), tmp_path / "limit.trace", Log()
    head = {"program": name, "profile": profile_data(backend.profile)}
    recorder = Recorder(path, head, durability="process")
    try:
        recording = {"gate": recorder.gate, "barrier": recorder.barrier}
        assert value_of(program, backend, instruments=[recorder], **recording) == expected
    finally:
        recorder.close()
    replayer = Replayer(path)
    again = {"instruments": [replayer, log], "world": replayer}
    assert value_of(program, replayer.backend, **again) == expected
    replayer.finish()
    assert all(isinstance(each.error, CallCancelled) for each in log.of(CallEnded))


def test_what_somebody_else_holds_goes_on() -> None:
    kept: list[Any] = []
    backend = Held()

    @ppl
    def body():
        with contextlib.suppress(TimeoutError), appl.timeout(0.05):
            kept.append(appl.call(ask, "kept"))
            gen().result()

    with running(backend):
        body()
        backend.release("/body.0/ask.0/gen.0")
        assert str(kept[0])


def test_the_next_call_has_nothing_of_what_the_limit_ended() -> None:
    late = Held()

    @ppl
    def body():
        "before"
        with contextlib.suppress(TimeoutError), appl.timeout(0.05):
            f"inside {gen()}"
        "after"
        return gen(messages=appl.convo())

    with running(late) as seen:
        answer = body()
        late.release("/body.0/gen.1")
        assert str(answer)
        assert seen.prompts["/body.0/gen.1"] == "user: before\ninside \nafter"
