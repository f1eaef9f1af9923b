"""Real servers that refuse every call, or are not there: calls end when their patience is over."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from appl import gen, ppl
from appl.errors import BackendError
from appl.testing import Policy, Retries, Run, on_backend_loop
from appl_backends.openai import OpenAI

PATIENCE_S = 2.0


@contextmanager
def refusing(status: int, *headers: str) -> Iterator[str]:
    """The address of a server that answers each request alike."""
    head = "\r\n".join([f"HTTP/1.1 {status} No", *headers, "Content-Length: 2"])

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while asked := (await reader.readuntil(b"\r\n\r\n")).lower():
                size = int(asked.partition(b"content-length:")[2].split(b"\r\n")[0])
                await reader.readexactly(size)
                writer.write(f"{head}\r\n\r\n{{}}".encode())
        writer.close()

    async def begin() -> asyncio.Server:
        return await asyncio.start_server(answer, "127.0.0.1", 0, backlog=1000)

    server = on_backend_loop(begin)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    finally:
        on_backend_loop(server.close)


@contextmanager
def nobody() -> Iterator[str]:
    """An address at which connections are refused."""
    with contextlib.closing(socket.socket()) as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{taken.getsockname()[1]}/v1"


@ppl
def ends_of(width: int) -> list[str]:
    "Well?"
    answers, found = [gen() for _ in range(width)], []
    for answer in answers:
        try:
            found.append(str(answer))
        except BackendError as error:
            found.append(f"{type(error).__name__}: {error}")
    return found


def ends_at(address: str, width: int) -> tuple[list[str], float]:
    """How so many calls end, and after how many seconds the last one."""
    backend = OpenAI(base_url=address, api_key="k", model="m")
    policy = Policy(retries=Retries(patience_s=PATIENCE_S))
    with Run(backend, policy=policy, concurrency=200):
        began = time.monotonic()
        found = ends_of(width)
        took = time.monotonic() - began
    on_backend_loop(backend.aclose)
    return found, took


@pytest.mark.parametrize(("wait", "width"), [("99999999999", 600), ("0", 200), ("0", 1)])
def test_calls_at_a_server_that_is_busy_for_ever_end_with_what_it_said(
    wait: str, width: int
) -> None:
    with refusing(429, f"Retry-After: {wait}") as address:
        found, took = ends_at(address, width)
    assert {end.partition(":")[0] for end in found} == {"BackendBusy"}
    assert all("answered 429" in end and "retries.patience" in end for end in found)
    assert took <= 1.2 * PATIENCE_S + 2


def test_calls_at_a_server_that_is_not_there_end_with_its_name() -> None:
    with nobody() as address:
        found, took = ends_at(address, 200)
    assert {end.partition(":")[0] for end in found} == {"BackendUnavailable"}
    assert all("cannot be reached" in end for end in found)
    assert took <= 1.2 * PATIENCE_S + 2


def test_calls_at_a_server_that_fails_inside_end_with_what_it_said() -> None:
    with refusing(503) as address:
        found, took = ends_at(address, 200)
    assert all(end.startswith("BackendUnavailable: openai") and " 503" in end for end in found)
    assert took <= 1.2 * PATIENCE_S + 2
