"""Rate limits: requests in any period, tokens a minute.

Invariant: first come, first served; in no window of the period are more requests let through than
the limit, and never more tokens than a bucket of one minute holds, which fills up evenly.
"""

from __future__ import annotations

import asyncio
import importlib.util
from collections import deque
from types import SimpleNamespace
from typing import Any

from appl.runtime.scheduling.policy import Limits
from appl.runtime.scheduling.timers import Clock, wait_for, wake

_MINUTE = 60.0
_SHORTER = 1 - 1e-6
"""Factor of the period for asyncio-throttle, which counts a request at its very end, too."""


class Rate:
    """The rate at which one backend may be asked."""

    def __init__(self, limits: Limits, clock: Clock) -> None:
        self._clock = clock
        self._window = _Window(limits.requests, limits.period_s, clock) if limits.requests else None
        self._bucket = _Bucket(limits.tokens_per_minute) if limits.tokens_per_minute else None
        self._turn = asyncio.Lock()
        self._wakeup: asyncio.Future[None] | None = None
        self.by_tokens = self._bucket is not None

    async def take(self, tokens: int) -> None:
        """Wait until one more request for *tokens* may be sent."""
        # The lock makes a queue: only the first in it waits for the time, and the others for it.
        async with self._turn:
            while (ready := self._ready_at(tokens)) > self._clock.now():
                # Rung when tokens are given back: then it may be ready earlier than thought, and
                # the loop looks again.
                self._wakeup = asyncio.get_running_loop().create_future()
                await wait_for(self._clock, ready, self._wakeup)
            if self._window is not None:
                await self._window.begin()
            if self._bucket is not None:
                self._bucket.take(self._clock.now(), tokens)

    def ready_at(self) -> float:
        """The earliest time at which any request may be sent."""
        return self._ready_at(1)

    def settle(self, reserved: int, used: int) -> None:
        """Correct the count: of *reserved* tokens, so many have been *used*."""
        if self._bucket is not None:
            self._bucket.take(self._clock.now(), used - reserved)
            if self._wakeup is not None:
                wake(self._wakeup)

    def _ready_at(self, tokens: int) -> float:
        """The time at which a request for *tokens* may be sent, as far as is known now."""
        now = self._clock.now()
        ready = self._bucket.ready_at(now, tokens) if self._bucket is not None else now
        return max(ready, self._window.ready_at(now)) if self._window is not None else ready


class _Window:
    """The requests of any period, which asyncio-throttle lets begin.

    By itself it serves whoever looks first, and looks every ten milliseconds. Therefore one request
    at a time waits for it, and not before ``ready_at``: then it lets the request through at once.
    """

    def __init__(self, requests: int, period_s: float, clock: Clock) -> None:
        self._clock, self._period_s = clock, period_s
        # The module of asyncio-throttle, loaded anew, with *clock* in place of the machine's.
        spec: Any = importlib.util.find_spec("asyncio_throttle.throttler")
        module: Any = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        module.time = SimpleNamespace(monotonic=clock.now)
        module.asyncio = SimpleNamespace(
            sleep=lambda s: wait_for(
                clock, clock.now() + s, asyncio.get_running_loop().create_future()
            )
        )
        self._throttler = module.Throttler(requests, period_s * _SHORTER)
        self._begun = deque[float](maxlen=requests)

    def ready_at(self, now: float) -> float:
        """The time at which one more request may begin."""
        if len(self._begun) < (self._begun.maxlen or 0):
            return now
        return max(now, self._begun[0] + self._period_s)

    async def begin(self) -> None:
        """Wait until one more request may begin; it has then begun."""
        await self._throttler.acquire()
        self._begun.append(self._clock.now())


class _Bucket:
    """Tokens that may be asked for now; below zero when more was used than was asked for."""

    def __init__(self, per_minute: int) -> None:
        self._most = float(per_minute)
        self._level, self._at = self._most, float("-inf")

    def ready_at(self, now: float, tokens: int) -> float:
        """The time at which there are *tokens*; for more than it can hold, when it is full."""
        self._fill(now)
        missing = min(tokens, self._most) - self._level
        return now + max(missing, 0.0) * _MINUTE / self._most

    def take(self, now: float, tokens: int) -> None:
        """Take *tokens* out, or put them back when there are fewer than none."""
        self._fill(now)
        self._level = min(self._level - tokens, self._most)

    def _fill(self, now: float) -> None:
        if self._at < now:
            gained = (now - self._at) * self._most / _MINUTE if self._at > float("-inf") else 0.0
            self._level, self._at = min(self._level + gained, self._most), now
