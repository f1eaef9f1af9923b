"""Readers of streams that are cancelled or closed: a call that nobody else holds is aborted."""

from __future__ import annotations

import asyncio
import contextlib
import gc
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.responses import StreamingResponse

import appl
from appl import AIRole, gen, ppl
from appl.errors import RunError
from appl.runtime.entry import asynchronously
from appl.testing import Held, Streamed, running

GEN, TOLD = "/ask.0/gen.0", "/tell.0/gen.0"


@ppl
def ask(word: str):
    f"{word}"
    return gen(stream=True)


@ppl
def tell(word: str):
    f"{word}"
    with AIRole():
        f"{gen()}"


def pieces() -> Held:
    return Held(lambda _: Streamed(("a", "b", "c")))


async def until(condition: Callable[[], object]) -> None:
    while not condition():
        await asyncio.sleep(0)


async def cancelled_after(
    backend: Held, reader: Callable[[list[str]], Any], count: int
) -> asyncio.Task[None]:
    """The task of *reader*, which was cancelled when it had read *count* pieces."""
    seen: list[str] = []
    task = asyncio.ensure_future(reader(seen))
    await until(lambda: backend.waiting)
    for number in range(count):
        backend.release(next(iter(backend.waiting)))
        await until(lambda number=number: len(seen) > number and backend.waiting)
    task.cancel()
    await asyncio.wait([task])
    return task


def on_a_loop(main: Callable[[Held], Any]) -> None:
    with running(backend := pieces()):
        asyncio.run(main(backend))


# -- a reader that is cancelled


@pytest.mark.parametrize("count", [0, 1, 2])
def test_a_cancelled_reader_aborts_the_call(count: int) -> None:
    async def reader(seen: list[str]) -> None:
        async for piece in ask("x").text_stream:
            seen.append(piece)

    async def main(backend: Held) -> None:
        task = await cancelled_after(backend, reader, count)
        await until(lambda: backend.aborted)  # while somebody has the task
        assert task.cancelled() and len(backend.aborted) == 1

    on_a_loop(main)


def test_a_reader_that_is_cancelled_as_it_passes_a_piece_on_aborts_the_call() -> None:
    async def reader(seen: list[str]) -> None:
        async for piece in ask("x").text_stream:
            seen.append(piece)
            await asyncio.get_running_loop().create_future()  # a client that takes no more

    async def main(backend: Held) -> None:
        await cancelled_after(backend, reader, 1)
        await until(lambda: backend.aborted)

    on_a_loop(main)


def test_a_cancelled_reader_of_a_program_ends_it() -> None:
    async def reader(seen: list[str]) -> None:
        async for piece in appl.stream(tell, "x"):
            if piece.generated:
                seen.append(piece)

    async def main(backend: Held) -> None:
        for count in (0, 1):
            backend.aborted.clear()
            await cancelled_after(backend, reader, count)
            await until(lambda: backend.aborted)

    on_a_loop(main)


def test_a_reader_in_a_fiber_of_the_loop_aborts_the_call_as_well() -> None:
    def read(seen: list[str]) -> None:
        for piece in ask("x").text_stream:
            seen.append(piece)

    async def main(backend: Held) -> None:
        await cancelled_after(backend, lambda seen: asynchronously(read, seen), 1)
        await until(lambda: backend.aborted)

    on_a_loop(main)


def test_a_time_limit_around_a_reader_aborts_the_call() -> None:
    async def read() -> None:
        async with asyncio.timeout(None) as limit:
            async for _ in ask("x").text_stream:
                limit.reschedule(0)

    async def main(backend: Held) -> None:
        reading = asyncio.ensure_future(read())
        await until(lambda: backend.waiting)
        backend.release()
        with pytest.raises(TimeoutError):
            await reading
        await until(lambda: backend.aborted)

    on_a_loop(main)


@pytest.mark.parametrize("holder", ["generation", "stream", "reader"])
def test_a_cancelled_reader_leaves_alone_what_somebody_else_holds(holder: str) -> None:
    async def main(backend: Held) -> None:
        answer = ask("x")
        stream = answer.text_stream
        other = aiter(stream)
        held = {"generation": answer, "stream": stream, "reader": other}[holder]

        async def reader(seen: list[str]) -> None:
            async for piece in aiter(stream):
                seen.append(piece)

        await cancelled_after(backend, reader, 1)
        del answer, other
        if holder != "stream":
            del stream, reader
        for _ in range(5):
            await asyncio.sleep(0)
        assert not backend.aborted
        releasing = asyncio.ensure_future(released(backend))
        if holder == "generation":
            assert await held == "abc"
        else:
            assert [piece async for piece in held] == ["a", "b", "c"]
        releasing.cancel()

    on_a_loop(main)


async def released(backend: Held) -> None:
    while True:
        backend.release()
        await asyncio.sleep(0)


async def released_once(backend: Held) -> None:
    """Release one piece of each of two calls."""
    for number in range(2):
        await until(lambda number=number: backend.waiting and len(backend.requests) > number)
        backend.release()


def test_a_reader_may_give_up_one_wait_and_go_on() -> None:
    """The way of servers that send something now and then, so that the connection stays."""

    async def main(backend: Held) -> None:
        reader, seen = aiter(ask("x").text_stream), list[str]()
        await until(lambda: backend.waiting)
        for _ in range(3):
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(anext(reader), 0)
        releasing = asyncio.ensure_future(released(backend))
        seen = [piece async for piece in reader]
        releasing.cancel()
        assert seen == ["a", "b", "c"] and not backend.aborted

    on_a_loop(main)


def test_a_generator_that_outlives_its_cancelled_reader_keeps_its_variables() -> None:
    async def patient() -> AsyncIterator[str]:
        answer = ask("x")
        reader = aiter(answer.text_stream)
        try:
            await anext(reader)
        except asyncio.CancelledError:
            yield "cancelled"
        async for piece in reader:
            yield piece
        assert await answer == "abc"

    async def main(backend: Held) -> None:
        pieces, seen = patient(), list[str]()

        async def first() -> None:
            async for piece in pieces:
                seen.append(piece)
                await asyncio.get_running_loop().create_future()

        task = asyncio.ensure_future(first())
        await until(lambda: backend.waiting)
        task.cancel()
        await until(lambda: seen)
        task.cancel()
        await asyncio.wait([task])
        del task
        releasing = asyncio.ensure_future(released(backend))
        seen += [piece async for piece in pieces]
        releasing.cancel()
        assert seen == ["cancelled", "a", "b", "c"]

    on_a_loop(main)


def test_leaving_a_loop_early_does_not_end_the_call() -> None:
    async def main(backend: Held) -> None:
        async def first() -> Any:
            async for piece in ask("x").text_stream:
                return piece

        async def first_of_a_program() -> Any:
            async for piece in appl.stream(tell, "x"):
                if piece.generated:
                    return piece

        releasing = asyncio.ensure_future(released(backend))
        assert (await first(), await first_of_a_program()) == ("a", "a")
        releasing.cancel()

    class Willing(Held):
        def on_idle(self, final: bool = True) -> bool:
            waits = bool(self.waiting)
            self.release()
            return waits

    with running(backend := Willing(lambda _: Streamed(("a", "b", "c")))):
        asyncio.run(main(backend))
    assert not backend.aborted


# -- close and aclose


def test_closing_aborts_a_call_that_nobody_else_holds() -> None:
    with running(backend := pieces()):
        backend.release(GEN)
        with contextlib.closing(ask("x").text_stream) as stream:
            for piece in stream:
                assert piece == "a"
                break
        with pytest.raises(RunError, match="was closed"):
            list(stream)
        assert repr(stream) == "<text stream closed>"
        stream.close()
    assert backend.aborted == [GEN]


def test_aclosing_does_in_a_coroutine() -> None:
    async def main(backend: Held) -> None:
        releasing = asyncio.ensure_future(released_once(backend))
        async with contextlib.aclosing(ask("x").text_stream) as stream:
            async for _ in stream:
                break
        await until(lambda: len(backend.aborted) == 1)
        async with contextlib.aclosing(appl.stream(tell, "x")) as program:
            async for piece in program:
                if piece.generated:
                    break
        await until(lambda: len(backend.aborted) == 2)
        await releasing

    on_a_loop(main)


def test_closing_leaves_a_generation_that_somebody_holds() -> None:
    with running(backend := pieces()):
        answer = ask("x")
        with contextlib.closing(answer.text_stream):
            pass
        backend.release(*[GEN] * 4)
        assert answer == "abc" and not backend.aborted


def test_closing_leaves_an_answer_that_is_in_a_prompt() -> None:
    @ppl
    def talk():
        "x"
        with AIRole():
            (answer := gen(stream=True))
        answer.text_stream.close()
        stream = answer.text_stream
        del answer
        stream.close()
        return gen(max_tokens=1)

    with running(backend := pieces()):
        backend.release(*["/talk.0/gen.0"] * 4, *["/talk.0/gen.1"] * 4)
        assert str(talk()) == "abc" and not backend.aborted


def test_a_closed_program_ends_and_nothing_of_a_stream_is_left_to_the_collector() -> None:
    with running(backend := pieces()):
        gc.collect()
        gc.disable()
        try:
            for _ in range(10):
                with contextlib.closing(appl.stream(tell, "x")) as program:
                    next(iter(program))
                del program
            assert gc.collect() <= 30
        finally:
            gc.enable()
    assert len(backend.aborted) <= 10


# -- an endpoint whose client goes

app = FastAPI()


@app.get("/answer")
async def answer() -> StreamingResponse:
    return StreamingResponse(ask("x").text_stream)


@app.get("/program")
async def program() -> StreamingResponse:
    return StreamingResponse(appl.stream(tell, "x"))


@app.get("/generator")
async def generator() -> StreamingResponse:
    async def body() -> AsyncIterator[str]:
        answer = ask("x")
        async for piece in answer.text_stream:
            yield piece

    return StreamingResponse(body())


@pytest.mark.parametrize(
    ("path", "slow"),
    [
        ("/answer", False),
        ("/answer", True),
        ("/program", False),
        ("/program", True),
        ("/generator", False),
    ],
)
def test_an_endpoint_hangs_up_when_its_client_goes(path: str, slow: bool) -> None:
    """As a server calls it: it waits for the model, or (slow) for the client, when that goes."""

    async def main(backend: Held) -> None:
        gone, came = asyncio.Event(), asyncio.Event()

        async def receive() -> dict[str, object]:
            await gone.wait()
            return {"type": "http.disconnect"}

        async def send(message: dict[str, object]) -> None:
            if b"a" in message.get("body", b""):  # type: ignore[operator]
                came.set()
                if slow:
                    await asyncio.get_running_loop().create_future()

        scope = {"type": "http", "method": "GET", "path": path, "query_string": b"", "headers": []}
        serving = asyncio.ensure_future(
            app({**scope, "asgi": {"spec_version": "2.0"}}, receive, send)
        )
        await until(lambda: backend.waiting)
        backend.release()
        await came.wait()
        await until(lambda: backend.waiting)
        gone.set()
        await serving
        await until(lambda: backend.aborted)

    on_a_loop(main)
