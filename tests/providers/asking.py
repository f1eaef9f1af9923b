"""Requests for tests of clients, and servers that answer with what a test gives them."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from appl.backend import Request, Sampling
from appl.prompt import Message, Messages
from appl.testing import Fault, on_backend_loop, running
from tests.wire.servers import FaultServer

KEY = "sk-canary-0123456789abcdef"
JSON = {"Content-Type": "application/json"}
STREAM = {"Content-Type": "text/event-stream"}


def request(
    *said: str | Message, model: str = "m", n: int = 1, sample: int = 0, **options: Any
) -> Request:
    """A request; texts are the user's and the assistant's in turn."""
    roles = ("user", "assistant")
    messages = [
        each if isinstance(each, Message) else Message(roles[at % 2], each)  # type: ignore[arg-type]
        for at, each in enumerate(said or ("hello",))
    ]
    return Request("/a", 0, model, Messages.of(messages), Sampling(**options), n, sample)


def says(*answers: Any) -> FaultServer:
    """A server that answers with these JSON values, or texts, one after the other."""
    return FaultServer([_sends(each) for each in answers])


def streams(*events: Any, done: bool = True) -> FaultServer:
    """A server that answers once, with a stream of these events."""
    texts = [each if isinstance(each, str) else json.dumps(each) for each in events]
    texts += ["[DONE]"] if done else []
    body = "".join(f"data: {text}\n\n" for text in texts).encode()
    return FaultServer([Fault("given", 200, STREAM, body)])


def _sends(answer: Any) -> Fault:
    body = answer if isinstance(answer, str) else json.dumps(answer)
    return Fault("given", 200, JSON, body.encode())


def chat(message: Any = "ok", finish: str | None = "stop", **more: Any) -> dict[str, Any]:
    """A chat completion with one choice."""
    if isinstance(message, str):
        message = {"role": "assistant", "content": message}
    return {"id": "c1", "model": "m", "choices": [choice(message, finish)], **more}


def choice(message: Any, finish: str | None = "stop", index: int = 0) -> dict[str, Any]:
    """One choice of a chat completion."""
    return {"index": index, "message": message, "finish_reason": finish}


def delta(index: int = 0, finish: str | None = None, **delta: Any) -> dict[str, Any]:
    """An event of a stream."""
    return {"id": "c1", "model": "m",
            "choices": [{"index": index, "delta": delta, "finish_reason": finish}]}  # fmt: skip


@asynccontextmanager
async def closing(*backends: Any) -> AsyncIterator[Any]:
    """The first of *backends*, all of them closed at the end."""
    try:
        yield backends[0]
    finally:
        for backend in backends:
            await backend.aclose()


@contextmanager
def using(backend: Any, **options: Any) -> Iterator[Any]:
    """A run on *backend*, which is closed at its end."""
    with running(backend, **options):
        yield backend
    on_backend_loop(backend.aclose)


def names(faults: Iterable[Fault]) -> list[str]:
    """What the faults are called, for the names of tests."""
    return [fault.name for fault in faults]
