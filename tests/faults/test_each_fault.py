"""Each fault by itself, at each client: a typed error, one attempt, and a connection that goes on."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from appl.errors import BackendError
from appl.testing import FAULTS, Fault
from appl_backends.embedded import WEIGHTS
from tests.faults.storm import CLIENTS
from tests.providers.asking import closing, names, request
from tests.wire.servers import FaultServer

FAILING = [fault for fault in FAULTS if fault.ends != "hang"]
HANGING = [fault for fault in FAULTS if fault.ends == "hang"]
clients = pytest.mark.parametrize("client", ["openai", "sglang"])
shapes = pytest.mark.parametrize("streamed", [False, True], ids=["whole", "stream"])


def server_of(script: Any) -> FaultServer:
    return FaultServer(script, model_path=str(WEIGHTS))


def emit_of(streamed: bool) -> Any:
    return (lambda chunk: None) if streamed else None


@clients
@shapes
@pytest.mark.parametrize("fault", FAILING, ids=names(FAILING))
async def test_it_is_an_error_that_may_be_tried_again(
    client: str, fault: Fault, streamed: bool
) -> None:
    emit, asked = emit_of(streamed), request("q", model="fault")
    with server_of([fault]) as server:
        async with closing(CLIENTS[client](server)) as backend:
            with pytest.raises(BackendError) as caught:
                await backend.complete(asked, emit)
            assert caught.value.retriable and len(server.asks) == 1
            again = await backend.complete(asked, emit)
    (question,) = server.answered
    assert again.text == server.answer(question) and server.answered[question] == 1
    assert server.injected == {fault.name: 1}


@clients
@pytest.mark.parametrize(
    ("name", "least", "most"),
    [
        ("429 seconds", 0, 0), ("429 fraction", 0.002, 0.002), ("429 date", 0, 0),
        ("429 milliseconds", 0.002, 0.002), ("429 reset", 0.002, 0.002),
        ("429 in words", 0.002, 0.002), ("503 with Retry-After", 0, 0), ("429 bare", None, None),
    ],
)  # fmt: skip
async def test_the_time_to_wait_is_the_one_that_the_server_says(
    client: str, name: str, least: float | None, most: float | None
) -> None:
    fault = next(fault for fault in FAULTS if fault.name == name)
    with server_of([fault]) as server:
        async with closing(CLIENTS[client](server)) as backend:
            with pytest.raises(BackendError) as caught:
                await backend.complete(request("q", model="fault"))
    wait = caught.value.retry_after
    assert wait is None if least is None else wait == pytest.approx(most)


@clients
@shapes
@pytest.mark.parametrize("fault", HANGING, ids=names(HANGING))
async def test_cancelling_lets_go_of_a_server_that_hangs(
    client: str, fault: Fault, streamed: bool
) -> None:
    arrived, loop = asyncio.Event(), asyncio.get_running_loop()

    def script(ask: Any) -> Fault | None:
        loop.call_soon_threadsafe(arrived.set)
        return fault if ask.number == 0 else None

    asked = request("q", model="fault")
    with server_of(script) as server:
        async with closing(CLIENTS[client](server)) as backend:
            task = asyncio.ensure_future(backend.complete(asked, emit_of(streamed)))
            await arrived.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert (await backend.complete(asked)).samples[0].finish_reason == "stop"
