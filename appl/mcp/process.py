"""A server in a process of its own, with its standard input and output as transport.

Invariant: no line of it takes more memory than a message may, whatever it writes, and its process
ends with the connection. The library's own transport keeps a line of any length.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections import deque
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any, TextIO

from appl.mcp.exchange import MESSAGE_BYTES, Exchange

_HELD = 4 << 20  # bytes of lines that wait to be read, from which on the server has to wait
_SKIPPED = 256 << 20  # bytes of one line after which the server is given up
_GRACE = 2.0  # seconds for each step of the shutdown
_LAST_WORDS = 1.0  # seconds after the end of the process in which its output may still come


@contextlib.asynccontextmanager
async def process_transport(
    words: Sequence[str],
    env: Mapping[str, str],
    cwd: str | os.PathLike[str] | None,
    errlog: TextIO,
    exchange: Exchange,
) -> AsyncGenerator[tuple[Any, Any], None]:
    """The streams of the server that *words* start. Raises ``OSError`` or ``ValueError``."""
    transport, server = await asyncio.get_running_loop().subprocess_exec(
        lambda: ServerProcess(exchange),
        *words,
        stderr=errlog,
        env=env,
        cwd=cwd,
        start_new_session=True,  # so that its children can be ended with it
    )
    try:
        yield server, server.input
    finally:
        await server.stop(transport)


class ServerProcess(asyncio.SubprocessProtocol):
    """The messages that a server's process writes; ``input`` takes those that go to it.

    All of it runs on the loop that has started the process.
    """

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._loop = asyncio.get_running_loop()
        self._line, self._skipped = bytearray(), 0
        self._came: deque[Any] = deque()  # lines, or messages in place of one that was too long
        self._held = 0
        self._over = False
        self._reader: asyncio.Future[None] | None = None
        self._pipe: asyncio.ReadTransport | None = None
        self._gone = self._loop.create_future()
        self.input = _Input(exchange, self._loop)

    # -- told by the loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.SubprocessTransport)
        writes, reads = (transport.get_pipe_transport(fd) for fd in (0, 1))
        assert isinstance(writes, asyncio.WriteTransport), "its input is a pipe"
        assert isinstance(reads, asyncio.ReadTransport), "its output is a pipe"
        self.input.pipe, self._pipe = writes, reads

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if self._over:
            return
        first, *others = data.split(b"\n")
        self._add(first)
        for part in others:
            if not self._skipped and self._line.strip():
                self._put(bytes(self._line), len(self._line))
            self._skipped, self._line = 0, bytearray()
            self._add(part)

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        if fd == 1:
            self._end()
        elif fd == 0:
            self.input.lose()

    def process_exited(self) -> None:
        self._gone.set_result(None)
        # A child of its own may hold the pipe open, and would keep all calls waiting.
        self._loop.call_later(_LAST_WORDS, self._end)

    def pause_writing(self) -> None:
        self.input.pause()

    def resume_writing(self) -> None:
        self.input.resume()

    # -- lines

    def _add(self, part: bytes) -> None:
        if self._skipped:
            self._skipped += len(part)
            if self._skipped > _SKIPPED:
                self._end()
        else:
            self._line += part
            if len(self._line) > MESSAGE_BYTES:
                why = f"it has more than {MESSAGE_BYTES >> 20} MiB"
                self._put(self._exchange.refused(bytes(self._line), why), 0)
                self._skipped, self._line = len(self._line), bytearray()

    def _put(self, item: Any, size: int) -> None:
        if item is None or self._over:
            return
        self._came.append(item)
        self._held += size
        self._read(self._held <= _HELD)
        self._wake()

    def _read(self, on: bool) -> None:
        """Have the loop read the pipe, or leave what comes in it, so that the server waits."""
        if self._pipe is not None and not self._pipe.is_closing():
            if on:
                self._pipe.resume_reading()
            else:
                self._pipe.pause_reading()

    def _end(self) -> None:
        self._over = True
        self._read(False)
        self._wake()

    def _wake(self) -> None:
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)

    # -- the stream of messages, as the library's sessions read it

    def __aiter__(self) -> ServerProcess:
        return self

    async def __anext__(self) -> Any:
        """The next message. Raises ``StopAsyncIteration`` when no more can come."""
        while True:
            while self._came:
                message = self._message(self._came.popleft())
                if message is not None:
                    return message
            if self._over:
                raise StopAsyncIteration
            self._reader = self._loop.create_future()
            await self._reader

    def _message(self, item: Any) -> Any:
        if not isinstance(item, bytes):
            return item
        self._held -= len(item)
        self._read(self._held <= _HELD and not self._over)
        return self._exchange.line(item)

    async def receive(self) -> Any:
        """The same by another name."""
        return await self.__anext__()

    async def aclose(self) -> None:
        """Leave what has not been read."""
        self._end()

    async def __aenter__(self) -> ServerProcess:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.aclose()

    # -- its end

    async def stop(self, transport: asyncio.SubprocessTransport) -> None:
        """Close its input; end the process and its children if that is not enough."""
        self._end()
        self._read(True)  # what it still writes is dropped, so that a full pipe does not keep it
        await self.input.aclose()
        for ending in (signal.SIGTERM, signal.SIGKILL, None):
            await asyncio.wait([self._gone], timeout=_GRACE)
            if self._gone.done():
                break
            if ending is not None:
                with contextlib.suppress(OSError):
                    os.killpg(transport.get_pid(), ending)
        transport.close()


class _Input:
    """The messages that go to a server, as the library's sessions write them."""

    def __init__(self, exchange: Exchange, loop: asyncio.AbstractEventLoop) -> None:
        self._exchange, self._loop = exchange, loop
        self.pipe: asyncio.WriteTransport | None = None
        self._lost = False
        self._room: asyncio.Future[None] | None = None

    async def send(self, item: Any) -> None:
        """Write *item*; waits while the server does not read."""
        if self._lost or self.pipe is None or self.pipe.is_closing():
            raise self._exchange.closed
        self._exchange.sent(item)
        text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
        self.pipe.write(text.encode() + b"\n")
        if self._room is not None:
            await asyncio.shield(self._room)

    def pause(self) -> None:
        """Have who writes wait."""
        self._room = self._loop.create_future()

    def resume(self) -> None:
        """Let go on who writes."""
        room, self._room = self._room, None
        if room is not None and not room.done():
            room.set_result(None)

    def lose(self) -> None:
        """Take no more: the server has closed its input."""
        self._lost = True
        self.resume()

    async def aclose(self) -> None:
        """Close the input, after what was written."""
        self.lose()
        if self.pipe is not None:
            self.pipe.close()

    async def __aenter__(self) -> _Input:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.aclose()
