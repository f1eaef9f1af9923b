"""The connections of this process to its servers, which outlive the runs that use them.

Invariant: a connection is used again only if the answer before was read to its end, on the loop
that it was made on, and in the process that made it.
"""

from __future__ import annotations

import asyncio
import os
import resource
import time
from collections import deque
from contextvars import Context

from appl.threads import lasting_loops
from appl_backends.http.connection import Connection
from appl_backends.http.route import Route

KEEP_S = 4.0
"""Seconds for which an idle connection is kept: servers close theirs after 5 s or more."""

_A_TURN = 16
"""The most connections that are begun in one turn of the loop."""


class Pool:
    """The connections of one loop by one route, at most *limit*.

    A connection must be made within *connect* seconds. Whoever comes first is served first.
    ``users`` is the number of clients, and ``inherited`` is true in a process that was forked.
    """

    def __init__(self, route: Route, limit: int, connect: float) -> None:
        self.loop = asyncio.get_running_loop()
        self.users = 0
        self.inherited = False
        self._route, self._limit, self._connect = route, limit, connect
        self._learned: dict[object, object] = {}
        self._open = 0  # with those that are being made
        self._making: set[asyncio.Task[Connection]] = set()
        self._idle: deque[Connection] = deque()
        self._waiting: deque[asyncio.Future[Connection]] = deque()
        self._wanted = 0  # how many in ``_waiting`` are not cancelled
        self._is_planned = self._is_swept = False

    @property
    def learned(self) -> dict[object, object]:
        """Facts about the server that clients keep here, until it closes a connection.

        A server that was started anew has closed all of them, and may be another one.
        """
        if not self._open or not all(connection.is_open for connection in self._idle):
            self._learned.clear()
        return self._learned

    def take_idle(self) -> Connection | None:
        """A connection that is open, to be given back; ``None`` if all are taken."""
        # The last connection that was given back comes first, so that the others grow old and are
        # closed when there are more than needed.
        while self._idle:
            found = self._idle.pop()
            if found.is_open and time.monotonic() - found.idle_since < KEEP_S:
                return found
            self._drop(found)
        return None

    async def take(self) -> Connection:
        """A connection, to be given back. Raises what :meth:`Route.connect` raises."""
        found = self.take_idle()
        if found is not None:
            return found
        waiter: asyncio.Future[Connection] = self.loop.create_future()
        self._waiting.append(waiter)
        self._wanted += 1
        self._make_connections()
        try:
            return await waiter
        except asyncio.CancelledError:
            # A connection may have been handed over before the cancellation arrived; it would be
            # lost with this task.
            if waiter.cancelled():
                self._wanted -= 1
            elif waiter.exception() is None:
                self._take_back(waiter.result(), waiter.result().is_open)
            raise

    def give(self, connection: Connection) -> None:
        """Take *connection* back: the next who waits gets it, or may make one."""
        connection.used = True
        self._take_back(connection, connection.finish())

    def leave(self) -> None:
        """Note that there is one user less; without any, a loop that will end keeps nothing."""
        self.users -= 1
        if not self._is_kept:
            self._sweep()

    @property
    def is_unused(self) -> bool:
        """True if nobody needs it any more."""
        return self.loop.is_closed() or not (self.users or self._open)

    @property
    def _is_kept(self) -> bool:
        """True if idle connections stay open."""
        return self.users > 0 or self.loop in lasting_loops

    def _take_back(self, connection: Connection, is_fit: bool) -> None:
        """Hand a connection that *is_fit* for a request to the next who waits, or keep it."""
        waiter = self._next() if is_fit and self._waiting else None
        if waiter is not None:
            waiter.set_result(connection)
        elif is_fit and (self.users or self._is_kept):
            connection.idle_since = time.monotonic()
            self._idle.append(connection)
            if not self._is_swept:
                self._sweep_later()
        else:
            self._drop(connection)
            self._make_connections()

    def _next(self) -> asyncio.Future[Connection] | None:
        """Whoever has waited longest. Those that are done were cancelled."""
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                self._wanted -= 1
                return waiter
        return None

    def _drop(self, connection: Connection) -> None:
        self._open -= 1
        if not self._open or not connection.is_open:  # nothing would tell of a new server, or did
            self._learned.clear()
        connection.close()

    # -- making connections

    def _make_connections(self) -> None:
        """Begin a few connections for those who wait, and more in the next turns of the loop.

        An answer that comes meanwhile frees a connection for one of them, who then needs no other.
        """
        self._is_planned = False
        for _ in range(_A_TURN):
            if not self._lacks_connections:
                return
            self._open += 1
            # The context of a call would live as long as the connection, so it gets an empty one.
            task = self.loop.create_task(self._made(), context=Context())
            self._making.add(task)
            task.add_done_callback(self._take_over, context=Context())
        if self._lacks_connections and not self._is_planned:
            self._is_planned = True
            self.loop.call_soon(self._make_connections, context=Context())

    @property
    def _lacks_connections(self) -> bool:
        return len(self._making) < self._wanted and self._open < self._limit

    async def _made(self) -> Connection:
        async with asyncio.timeout(self._connect):
            return await self._route.connect()

    def _take_over(self, task: asyncio.Task[Connection]) -> None:
        """Hand a new connection over, or the reason why there is none."""
        self._making.discard(task)
        error = ConnectionAbortedError("the loop ends") if task.cancelled() else task.exception()
        if error is None and task.result().is_open:
            self._take_back(task.result(), True)
            return
        # A server that hangs up at once is an error for who waits: to connect anew for as long as
        # it does so would be a storm.
        error = error or ConnectionResetError("the server hung up at once")
        self._open -= 1
        waiter = self._next()
        if waiter is not None:
            waiter.set_exception(error)
        self._make_connections()

    # -- closing

    def _sweep_later(self) -> None:
        self._is_swept = True
        self.loop.call_later(KEEP_S, self._sweep_again, context=Context())

    def _sweep_again(self) -> None:
        self._is_swept = False
        self._sweep()

    def _sweep(self) -> None:
        """Close the connections that are idle for long, or all that are idle if none is kept."""
        since = time.monotonic() - KEEP_S if self._is_kept else float("inf")
        while self._idle and self._idle[0].idle_since <= since:
            self._drop(self._idle.popleft())
        if self._idle:
            self._sweep_later()


_pools: dict[tuple[asyncio.AbstractEventLoop, Route, int, float], Pool] = {}
_of_parent: list[Pool] = []
"""Pools of the process that this one was forked from, whose connections must stay as they are."""


def pool_for(route: Route, limit: int, connect: float) -> Pool:
    """The pool of the running loop for *route*."""
    for key, pool in list(_pools.items()):
        if pool.is_unused:
            _pools.pop(key, None)
    key = (asyncio.get_running_loop(), route, limit, connect)
    found = _pools.get(key)
    if found is None:
        found = _pools[key] = Pool(route, limit, connect)
    return found


def most_connections() -> int:
    """Half of the number of files that this process may have open."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 2**20 if soft == resource.RLIM_INFINITY else soft // 2


def _forget() -> None:
    """In a forked child, leave the connections of the parent alone."""
    for pool in _pools.values():
        pool.inherited = True
    _of_parent.extend(_pools.values())
    _pools.clear()


os.register_at_fork(after_in_child=_forget)
