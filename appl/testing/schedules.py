"""Backends that answer when a test says so, in an order that a seed draws, or on a clock."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

from appl.backend import Emit, Request, Response
from appl.runtime.concurrency.loop_thread import io_thread
from appl.testing import Answer, Fake
from appl.testing.clock import VirtualClock


class Held(Fake):
    """Answers only on ``release(address)``, or ``release()`` for all waiting calls.

    An address may be released before its request. Each piece of a stream needs a release of its
    own.
    """

    def __init__(self, answer: Callable[[Request], Answer] | None = None, **profile: Any) -> None:
        super().__init__(answer or (lambda r: r.digest.hex()[:6]), **{"name": "held", **profile})
        self.waiting: dict[str, asyncio.Future[None]] = {}
        self.aborted: list[str] = []
        self._early: Counter[str] = Counter()

    async def complete(self, request: Request, emit: Emit | None = None) -> Response:
        """Wait for a release before each piece and before the end."""
        self.requests.append(request)
        try:
            return await self._held(request, emit)
        except asyncio.CancelledError:
            self.aborted.append(request.address)
            raise

    async def _held(self, request: Request, emit: Emit | None) -> Response:
        if emit is None:
            await self._gate(request.address)
            return self.answer(request)
        answer = self._answer(request)
        for chunk in self.chunks(request, answer):
            await self._gate(request.address)
            emit(chunk)
        await self._gate(request.address)
        return self.end(request, answer)

    async def _gate(self, address: str) -> None:
        if self._early[address]:
            self._early[address] -= 1
            return
        gate = self.waiting[address] = asyncio.get_running_loop().create_future()
        try:
            await gate
        finally:
            self.waiting.pop(address, None)

    def release(self, *addresses: str) -> None:
        """Release the answers at *addresses*; without any, all that wait."""
        for address in addresses:
            io_thread().send(partial(self._let, address))
        for gate in () if addresses else tuple(self.waiting.values()):
            gate.get_loop().call_soon_threadsafe(_open, gate)

    def _let(self, address: str) -> None:
        gate = self.waiting.get(address)
        if gate is None or gate.done():
            self._early[address] += 1
        else:
            gate.set_result(None)


def _open(gate: asyncio.Future[None]) -> None:
    if not gate.done():
        gate.set_result(None)


class Seeded(Held):
    """Releases one call at a time, drawn by *seed*, whenever no program can go on.

    Two seeds are two schedules; by the language's promises they give the same values.
    """

    def __init__(
        self, seed: int, answer: Callable[[Request], Answer] | None = None, **profile: Any
    ) -> None:
        super().__init__(answer, **{"name": "seeded", **profile})
        self._random = random.Random(seed)

    def on_idle(self, final: bool = True) -> bool:
        """Release one answer; false if none waits."""
        waiting = sorted(a for a, gate in self.waiting.items() if not gate.done())
        if not waiting:
            return False
        _open(self.waiting[self._random.choice(waiting)])
        return True


class Late(Fake):
    """Answers on *clock*, with *delay* seconds before each piece and before the end.

    In a run the clock is moved when no program can go on. ``present`` is the number of its current
    calls, ``most`` the largest number at once; ``cancelled`` are the addresses of cancelled calls.
    """

    def __init__(
        self,
        answer: Callable[[Request], Answer],
        clock: VirtualClock,
        delay: float | Callable[[Request], float] = 1.0,
        **profile: Any,
    ) -> None:
        super().__init__(answer, **{"name": "late", **profile})
        self.clock, self._delay = clock, delay
        self.present = self.most = 0
        self.cancelled: list[str] = []

    async def complete(self, request: Request, emit: Emit | None = None) -> Response:
        """Answer *request* after the delay."""
        self.requests.append(request)
        self.present += 1
        self.most = max(self.most, self.present)
        try:
            return await self._slowly(request, emit)
        except asyncio.CancelledError:
            self.cancelled.append(request.address)
            raise
        finally:
            self.present -= 1

    async def _slowly(self, request: Request, emit: Emit | None) -> Response:
        answer = self._answer(request)
        seconds = self._delay(request) if callable(self._delay) else self._delay
        for chunk in self.chunks(request, answer) if emit is not None else ():
            await self.clock.sleep(seconds)
            assert emit is not None
            emit(chunk)
        await self.clock.sleep(seconds)
        return self.end(request, answer)

    def on_idle(self, final: bool = True) -> bool:
        """Move the clock; false if nothing waits for it."""
        return self.clock.advance()
