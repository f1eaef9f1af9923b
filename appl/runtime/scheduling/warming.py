"""Prefix first: what waiting calls have in common is sent ahead of them, once.

Invariant: everything here runs on the I/O loop; a call that arrived is handed out once by ``next``
unless it has ended before, and is ``over`` once.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

from appl.backend import PrefixCaching
from appl.runtime.call import Call
from appl.runtime.crossing import io_thread
from appl.runtime.pending import Value
from appl.runtime.scheduling.holding import Why
from appl.runtime.scheduling.order import Order
from appl.runtime.scheduling.prefixes import Footprint, Prefixes

_LARGE = 256
_LOOKS = 20
_WARMING_S = 60.0


class PrefixFirst:
    """Stands between the ready queue and the workers of a server that caches prefixes.

    Calls that arrive together are looked at together: at once, or where prompts begin with much
    that is cold, when no more have come for *gather* seconds. What goes on from an answer is not
    waited for: hardly anybody else has the same, and the server would be idle. Calls whose common
    beginning is cold wait until it has been sent and computed; no more different prompts are
    handed out than the cache holds. *go* is called when ``next`` may have something again; *probe*
    is awaited once, before the first prompt is looked at.
    """

    def __init__(
        self,
        caching: PrefixCaching,
        order: Order,
        go: Callable[[], None],
        probe: Callable[[], Coroutine[Any, Any, None]],
        gather: float = 0.001,
    ) -> None:
        self._caching, self._order, self._go, self._gather = caching, order, go, gather
        self._probe: Callable[[], Coroutine[Any, Any, None]] | None = probe
        self._prefixes = Prefixes(caching)
        self._arrived: list[Call] = []
        self._prints: dict[Call, Footprint] = {}
        self._held: dict[int, list[Call]] = {}
        self._free: deque[Call] = deque()
        self._full: Call | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.gathering = False

    @property
    def waiting(self) -> bool:
        """Whether there is a call to hand out that is not in the queue any more."""
        return bool(self._free) or self._full is not None

    def arrive(self, call: Call) -> None:
        """*call* has been added to the ready queue."""
        self._arrived.append(call)
        if self.gathering:
            return
        self.gathering = True
        io = io_thread()
        io.workers += 1
        if self._probe is not None:
            probe, self._probe = self._probe, None
            self._spawn(self._learn(probe()))
        else:
            io.loop.call_soon(self._look)

    def next(self) -> Call | None:
        """The next call to send; ``None`` when there is none, or none that there is room for."""
        while not self.gathering:
            call = self._take()
            if call is None:
                return None
            each = self._prints.get(call)
            if call.outcome is not None:
                self.over(call)
            elif each is None:
                return call
            elif not self._prefixes.fits(each):
                self._full = call
                return None
            elif not self._hold(call, each):
                self._prefixes.sent(each)
                return call
        return None

    def over(self, call: Call) -> None:
        """*call* has ended."""
        each = self._prints.pop(call, None)
        if each is not None:
            self._prefixes.done(each, isinstance(call.outcome, Value))

    def holdings(self) -> Iterator[tuple[Call, Why | None]]:
        """The calls that are neither in the queue nor with a worker; why, if they may not go."""
        if self._full is not None:
            yield self._full, "cache"
        for call in self._free:
            yield call, None
        for calls in self._held.values():
            for call in calls:
                yield call, "prefix"

    # -- what arrives

    async def _learn(self, probing: Coroutine[Any, Any, None]) -> None:
        """Ask the server what it is first."""
        try:
            await probing
        finally:
            self._look()

    def _look(self, looks: int = 0) -> None:
        """See what has arrived; as long as prompts are long and more come, wait for more."""
        calls, self._arrived = self._arrived, []
        cold = 0
        for call in calls:
            if call.outcome is None and call.request is not None:
                try:
                    each = self._prefixes.add(call.request)
                except Exception:  # a prompt that cannot be encoded: its attempt will say so
                    continue
                self._prints[call] = each
                if cold < _LARGE and not _goes_on(call):
                    cold = max(cold, self._prefixes.cold(each))
        if cold >= _LARGE and looks < _LOOKS:
            io_thread().loop.call_later(self._gather, self._look, looks + 1)
            return
        self.gathering = False
        io_thread().workers -= 1
        self._go()

    # -- what goes

    def _take(self) -> Call | None:
        if self._free:
            return self._free.popleft()
        if self._full is not None:
            call, self._full = self._full, None
            return call
        return self._order.take()

    def _hold(self, call: Call, each: Footprint) -> bool:
        """Keep *call* back if the beginning of its prompt is being computed, or should be first."""
        self._prefixes.admit(each)
        key = self._awaited(each)
        if key is None:
            end = self._prefixes.segment(each)
            if not end:
                return False
            key = each.blocks[end - 1]
            self._held[key] = []
            io_thread().workers += 1
            self._spawn(self._warm(call, each, end))
        self._held[key].append(call)
        return True

    def _awaited(self, each: Footprint) -> int | None:
        if not self._held:
            return None
        return next((block for block in each.blocks if block in self._held), None)

    async def _warm(self, call: Call, each: Footprint, end: int) -> None:
        """Have the first *end* blocks computed, then let those go who wait for them."""
        assert call.request is not None
        try:
            async with asyncio.timeout(_WARMING_S):
                await self._caching.warm(call.request, self._prefixes.shared(each, end))
        except Exception:
            pass  # the calls themselves will say what is wrong
        finally:
            self._prefixes.warmed(each.blocks[:end])
            held = self._held.pop(each.blocks[end - 1])
            for one in held:
                self._prints[one].ahead = end
            self._free.extend(held)
            io_thread().workers -= 1
            self._go()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = io_thread().loop.create_task(work, context=contextvars.Context())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _goes_on(call: Call) -> bool:
    """Whether the prompt of *call* holds an answer."""
    return call.node is not None and call.node.hole is not None
