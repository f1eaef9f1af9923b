"""The run's end of its socket: it listens on the I/O loop, without a thread of its own.

Invariant: bytes from strangers never raise, never block the loop and take only bounded memory. A
forked child has no part in it. The socket's file is removed when the run is over.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import socket
import threading
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from weakref import WeakSet

from appl.errors import ControlError
from appl.parts.control import folder, protocol
from appl.parts.control.peer import is_mine
from appl.runtime.concurrency.loop_thread import io_thread

Answer = Callable[[dict[str, object]], object]
MOST_CLIENTS = 8
IDLE_S = 60.0
SHORT_S = 0.25
"""Seconds between two looks at the servers that are to listen: who is closed by then never does."""
_AT_ONCE = 65_536
_QUEUE = 64
_REST_S = 1.0
_servers: WeakSet[ControlServer] = WeakSet()


class ControlServer:
    """Listens for clients of a run; *answer* makes the replies and is called on the I/O loop.

    A client that says nothing for *idle* seconds is disconnected. If there are too many clients,
    the one that was silent longest is.
    """

    def __init__(self, answer: Answer, *, idle: float = IDLE_S) -> None:
        self._answer, self.idle = answer, idle
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._clients: OrderedDict[_ClientConnection, None] = OrderedDict()
        self._closed = False
        self._pid = os.getpid()
        self.path: Path | None = None

    # -- from any thread

    def open(self) -> None:
        """Start to listen. Raises ``ControlError`` or ``OSError`` if that is impossible."""
        # This runs on the I/O loop, or on any thread in tests; close() may come first or meanwhile.
        # Whoever gets the lock first decides: either the socket is stored, and close() removes it,
        # or it is discarded below.
        if self._closed:
            return
        _sweep(tuple(folder.candidates()))
        path = folder.own_folder() / folder.new_name()
        listening = _listen(path)
        with self._lock:
            if not self._closed:
                self._socket, self.path = listening, path
                self._loop = io_thread().loop
                _servers.add(self)
                io_thread().send(lambda: self._listen_on(listening))
                return
        listening.close()
        path.unlink(missing_ok=True)

    def open_later(self) -> None:
        """Start to listen in a moment, if that is possible and this is not closed by then."""
        _later.add(self)

    def close(self) -> None:
        """Disconnect all clients and remove the file; only the first call has an effect."""
        _later.drop(self)
        with self._lock:
            # A forked child must not remove the file of its parent, which still listens.
            if self._closed or os.getpid() != self._pid:
                return
            self._closed = True
            path, listening = self.path, self._socket
        if path is not None and listening is not None:
            with contextlib.suppress(OSError):
                path.unlink()
            # The loop watches the sockets, so they are closed on the loop, after their readers are
            # removed: a number of a closed socket may belong to another file a moment later.
            io_thread().send(lambda: self._close_all(listening))

    # -- on the I/O loop

    def _listen_on(self, listening: socket.socket) -> None:
        if listening.fileno() >= 0 and self._loop is not None:
            self._loop.add_reader(listening.fileno(), self._accept, listening)

    def _close_all(self, listening: socket.socket) -> None:
        if self._loop is not None and listening.fileno() >= 0:
            self._loop.remove_reader(listening.fileno())
        listening.close()
        for client in tuple(self._clients):
            client.leave()

    def _accept(self, listening: socket.socket) -> None:
        loop = self._loop
        assert loop is not None
        for _ in range(_QUEUE):
            try:
                accepted, _address = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError:  # no more files may be opened: later, perhaps
                loop.remove_reader(listening.fileno())
                loop.call_later(_REST_S, self._listen_on, listening)
                return
            if not is_mine(accepted):
                accepted.close()
                continue
            accepted.setblocking(False)
            if len(self._clients) >= MOST_CLIENTS:
                next(iter(self._clients)).leave()
            self._clients[_ClientConnection(self, accepted, loop)] = None

    def heard(self, client: _ClientConnection) -> None:
        """Note that *client* was active."""
        self._clients.move_to_end(client)

    def left(self, client: _ClientConnection) -> None:
        """Forget *client*, whose connection is closed."""
        self._clients.pop(client, None)

    def reply(self, line: bytes) -> bytes:
        """The reply to the request *line*."""
        try:
            return protocol.reply(self._answer(protocol.read_request(line)))
        except ControlError as error:
            return protocol.refusal(error)
        except Exception as error:  # of ours: its text may hold anything
            kind = type(error).__name__
            return protocol.refusal(ControlError(f"the run cannot answer: {kind}", "internal"))

    # -- in a forked child

    def forget(self) -> None:
        """Close this process's copies of the sockets; loop and file belong to the parent."""
        self._lock = threading.Lock()
        if self._socket is not None:
            self._socket.close()
        for client in self._clients:
            client.socket.close()


class _OpenedLater:
    """The servers that start to listen at one of the next looks, which the I/O loop takes.

    A server waits for the whole time between two looks, so it listens after at most two of them.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._added: dict[ControlServer, None] = {}
        self._due: dict[ControlServer, None] = {}
        self._looks = False

    def add(self, server: ControlServer) -> None:
        """Open *server* later; from any thread."""
        with self._lock:
            self._added[server] = None
            begins, self._looks = not self._looks, True
        if begins:
            io_thread().send(self._look_later)

    def drop(self, server: ControlServer) -> None:
        """Do not open *server* any more; from any thread."""
        with self._lock:
            self._added.pop(server, None)
            self._due.pop(server, None)

    def _look_later(self) -> None:
        io_thread().loop.call_later(SHORT_S, self._look)

    def _look(self) -> None:
        with self._lock:
            due, self._due, self._added = self._due, self._added, {}
            self._looks = goes_on = bool(self._due)
        for server in due:
            with contextlib.suppress(ControlError, OSError):
                server.open()
        if goes_on:
            self._look_later()


_later = _OpenedLater()


class _ClientConnection:
    """One connection: reads a request, writes its reply, and only then reads on."""

    __slots__ = ("_in", "_last", "_loop", "_out", "_server", "_timer", "socket")

    def __init__(
        self, server: ControlServer, sock: socket.socket, loop: asyncio.AbstractEventLoop
    ) -> None:
        self._server, self.socket, self._loop = server, sock, loop
        self._in, self._out = bytearray(), b""
        self._last = False
        self._timer = loop.call_later(server.idle, self.leave)
        loop.add_reader(sock.fileno(), self._read)

    def leave(self) -> None:
        """Close the connection; only the first call has an effect."""
        self._timer.cancel()
        number = self.socket.fileno()
        if number >= 0:
            self._loop.remove_reader(number)
            self._loop.remove_writer(number)
            self.socket.close()
        self._server.left(self)

    def _read(self) -> None:
        try:
            data = self.socket.recv(_AT_ONCE)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            data = b""
        if not data:
            self.leave()
            return
        self._in += data
        self._next()

    def _next(self) -> None:
        """Answer the next complete request."""
        end = self._in.find(b"\n")
        if end < 0 and len(self._in) <= protocol.LONGEST_REQUEST:
            return
        if end < 0 or end > protocol.LONGEST_REQUEST:
            most = protocol.LONGEST_REQUEST
            error = ControlError(f"a request has at most {most} bytes", "too-long")
            self._last, self._out = True, protocol.refusal(error)
        else:
            line = bytes(self._in[:end])
            del self._in[: end + 1]
            self._out = self._server.reply(line)
        self._server.heard(self)
        self._timer.cancel()
        self._timer = self._loop.call_later(self._server.idle, self.leave)
        self._loop.remove_reader(self.socket.fileno())
        self._loop.add_writer(self.socket.fileno(), self._write)

    def _write(self) -> None:
        try:
            sent = self.socket.send(self._out[:_AT_ONCE])
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            self.leave()
            return
        self._out = self._out[sent:]
        if self._out:
            return
        if self._last:
            self.leave()
            return
        self._loop.remove_writer(self.socket.fileno())
        self._loop.add_reader(self.socket.fileno(), self._read)
        if self._in:
            self._next()


def _listen(path: Path) -> socket.socket:
    """A listening socket at *path*. The file gets its name only once the socket listens."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    # The socket is made under another name and renamed once it listens. Thus a socket with its
    # final name at which nobody listens is surely a leftover, and may be removed by anybody.
    begun = f"{path.parent}/.{path.stem}"
    try:
        listener.setblocking(False)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(begun)
        listener.bind(begun)
        os.chmod(begun, 0o600)
        listener.listen(_QUEUE)
        os.rename(begun, path)
    except BaseException:
        listener.close()
        Path(begun).unlink(missing_ok=True)
        raise
    return listener


@functools.cache
def _sweep(folders: tuple[Path, ...]) -> None:
    """Remove what dead processes left in *folders*, once a process."""
    folder.sweep()


def _forget() -> None:
    global _later
    _later = _OpenedLater()  # another thread may have held the lock of the old one
    for server in tuple(_servers):
        server.forget()


os.register_at_fork(after_in_child=_forget)
