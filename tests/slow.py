"""Clients over real sockets that send slowly, do not read, or go away."""

from __future__ import annotations

import asyncio
import contextlib
import select
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

PATIENCE = 60.0
_SMALL = 4096


def asked(
    path: str, body: bytes, headers: Mapping[str, str], method: str = "POST", length: int = -1
) -> bytes:
    """A request, whose body may say that it has another *length*."""
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    lines += [f"Content-Length: {len(body) if length < 0 else length}", "", ""]
    return "\r\n".join(lines).encode() + body


@asynccontextmanager
async def connected(port: int) -> AsyncIterator[socket.socket]:
    """A connection that keeps little of what nobody has read."""
    link = socket.socket()
    link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _SMALL)
    link.setblocking(False)
    loop = asyncio.get_running_loop()
    try:
        await loop.sock_connect(link, ("127.0.0.1", port))
        yield link
    finally:
        link.close()


async def ended(link: socket.socket) -> bool:
    """True once the server has reset *link*, of which nothing is read meanwhile."""
    watch = select.poll()
    watch.register(link, 0)  # errors and hang-ups are always told
    found = await asyncio.to_thread(watch.poll, PATIENCE * 1000)
    return bool(found)


async def received(reader: asyncio.StreamReader) -> bytes:
    """All that comes until the server closes or resets the connection."""
    found = b""
    with contextlib.suppress(ConnectionResetError):
        while piece := await reader.read(1 << 16):
            found += piece
    return found


async def send_slowly(port: int, whole: bytes, pause: float) -> bytes:
    """All that comes while *whole* is sent a byte at a time, with *pause* seconds in between."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    answer = asyncio.create_task(received(reader))
    try:
        for byte in whole:
            writer.write(bytes([byte]))
            done, _ = await asyncio.wait([answer], timeout=pause)
            if done:
                break
        async with asyncio.timeout(PATIENCE):
            return await answer
    finally:
        answer.cancel()
        writer.close()


async def read_slowly(link: socket.socket, pieces: int, pause: float) -> bytes:
    """All of an answer that ends its connection; *pieces* times in it there is a *pause*."""
    loop, found = asyncio.get_running_loop(), b""
    for number in range(10**9):
        piece = await loop.sock_recv(link, 1 << 16)
        if not piece:
            break
        found += piece
        if number < pieces:
            await asyncio.wait([loop.create_future()], timeout=pause)
    return found
