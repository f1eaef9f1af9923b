"""Prefix first: the common beginning of waiting calls is sent ahead of them, once.

Invariant: everything here runs on the I/O loop; a call that arrived is handed out once by ``next``
unless it has ended before, and is ``over`` once.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, cast

from appl.backend import PrefixCaching
from appl.runtime.concurrency.loop_thread import io_thread
from appl.runtime.concurrency.promise import Value
from appl.runtime.scheduling.arrivals import LARGE, Arrivals
from appl.runtime.scheduling.cache_room import Room, room_of
from appl.runtime.scheduling.call_status import Why
from appl.runtime.scheduling.conversation_queue import ConversationQueue
from appl.runtime.scheduling.order import Order
from appl.runtime.scheduling.policy import Policy
from appl.runtime.scheduling.prefixes import Footprint, Prefixes
from appl.runtime.scheduling.server_times import SentRequest, ServerTimes
from appl.runtime.scheduling.timers import LoopClock
from appl.runtime.scheduling.uncounted import UncountedCalls, holds_an_answer
from appl.runtime.scheduling.warming_cost import SharedBeginning, pays

if TYPE_CHECKING:
    from appl.runtime.answers.call import Call
    from appl.runtime.answers.text import Text

_WARMING_S = 60.0


@dataclass(slots=True)
class _HeldBack:
    """The calls that wait until a *task* has sent their common beginning ahead of them."""

    task: asyncio.Task[None]
    calls: list[Call] = field(default_factory=list)


class PrefixFirst:
    """Stands between the ready queue and the workers of a server that caches prefixes.

    Calls that arrive together are looked at together (see ``Arrivals``). Calls that go on from an
    answer are not waited for: hardly any other call has the same answer, and the server would be
    idle. Calls whose common beginning is cold wait until it has been sent and computed, where that
    pays (see ``warming_cost.py``).

    No more different prompts are handed out than the cache holds, together with those that go on
    (see ``Residency``); those of other runs that ask *whose* server are among them.

    *go* is called when ``next`` may have something again; it returns true if ``next`` will be
    asked. *probe* is awaited once, before the first prompt is looked at.
    """

    room: Room
    prefixes: Prefixes
    queue: ConversationQueue
    times: ServerTimes
    uncounted: UncountedCalls

    def __init__(
        self,
        caching: PrefixCaching,
        order: Order,
        go: Callable[[], bool],
        probe: Callable[[], Coroutine[object, object, None]],
        policy: Policy,
        whose: object,
    ) -> None:
        self._caching, self._order, self._go, self._policy = caching, order, go, policy
        self._whose, self._clock = whose, policy.clock or LoopClock()
        self.joined = False
        self.arrivals = Arrivals(policy, probe, self._see, self._looked)
        self._late: list[Call] = []
        self._first: Call | None = None
        self.prints: dict[Call, Footprint] = {}
        self._held: dict[int, _HeldBack] = {}
        self._free: deque[Call] = deque()

    @property
    def waiting(self) -> bool:
        """True if there is a call to hand out that is not in the queue any more."""
        return bool(self._free or (self.prints and len(self.queue)))

    def arrive(self, call: Call) -> None:
        """Look soon at *call*, which has been added to the ready queue."""
        if not self.joined:
            self._join()
        # The first one that comes is looked at when it is taken. By then the calls that the program
        # has sent in one go are all there; if there are others, they are looked at together.
        if self._first is None and self._order.size == 1 and self.arrivals.resting:
            self._first = call
            self._go()
            return
        self._look_at_first()
        self.arrivals.add(call)

    def _look_at_first(self) -> None:
        """Have the first one looked at together with others."""
        first, self._first = self._first, None
        if first is not None:
            self.arrivals.add(first)

    def _looked(self) -> None:
        """Send what was looked at, and what came while others were looked at."""
        self._free.extend(self._late)
        self._late.clear()
        self._go()

    def foresee(self, call: Call) -> None:
        """Note that *call* will arrive when all parts of its prompt are there."""
        if not self.joined:
            self._join()
        if self.queue.calls or not self.uncounted.foresee(call):
            self._count_all()
            self.queue.foresee(call)

    def take_back(self, call: Call) -> None:
        """Note that *call*, which was foreseen, will not arrive."""
        self.uncounted.take_back(call)
        self.queue.take_back(call)
        self.room.tell()

    def next(self) -> Call | None:
        """The next call to send; ``None`` when there is none, or none that there is room for."""
        first = self._first
        if first is not None and first.outcome is None and self._goes_at_once(first):
            self._first = None
            return self._order.take()
        if first is not None:
            self._look_at_first()
        call = self._take()
        while call is not None:
            each = self.prints.get(call)
            # It came while others were looked at. It waits for its own look: else it would go out
            # before it is known that others share its beginning.
            if self.arrivals.looking and call in self.arrivals:
                self._late.append(call)
                call = None
                break
            if call.outcome is not None:
                self.over(call)
                call = self._take()
                continue
            if each is None:
                if call not in self.uncounted or self.uncounted.send(call, self._clock.now()):
                    break
                self.uncounted.over(call)
                self._count_all()
                each = self._enter(call)
            if each is None:
                break
            if self.queue.enters(call, each) and not self._hold(call, each):
                now = self._clock.now()
                each.sent = self.times.send(now, self.prefixes.lead(each, now))
                break
            call = self._take()
        # Other runs wait for their turn, and this one has had its own; if it waits too, somebody's
        # end wakes the first of all.
        if self.joined and self.room.waiting and not (self.prints and len(self.queue)):
            self.room.tell()
        return call

    def over(self, call: Call) -> None:
        """Note that *call* has ended."""
        each = self.prints.pop(call, None)
        if each is None:
            uncounted = self.uncounted.over(call)
            if uncounted is not None and uncounted.sent is not None:
                self._learn(call, uncounted.sent, uncounted.tokens)
            return
        self.prefixes.over(each)
        answered = isinstance(call.outcome, Value)
        if answered:
            self.room.cache.warmed(each.blocks, self._caching.cache_tokens)
        if each.sent is not None:
            self._learn(call, each.sent, len(each.ids))
        self.queue.over(call, each, answered)

    def _learn(self, call: Call, sent: SentRequest, tokens: int) -> None:
        """Learn from the time of a prompt of *tokens* that is over, if the server tells of them."""
        outcome, cached, answer = call.outcome, None, None
        if isinstance(outcome, Value):
            usage = cast("Text", outcome.value).usage
            cached, answer = usage.cached_tokens, usage.completion_tokens
        if cached is None or answer is None:
            self.times.forget(sent)
        else:
            cold = tokens - cached if tokens > cached else 0
            self.times.learn(sent, self._clock.now(), cold, answer)

    # -- beside other runs

    def pause(self) -> None:
        """Begin nothing from now on; other runs do not wait for what was to begin."""
        if self.joined:
            self.queue.paused = True
            self.room.tell()

    def resume(self) -> None:
        """Begin calls again."""
        if self.joined:
            self.queue.paused = False

    def leave(self) -> None:
        """Give back all room, as the run is over, and forget calls that ended before a look."""
        if not self.joined:
            return
        self.arrivals.hasten()
        for call in [call for call in self.prints if call.outcome is not None]:
            self.over(call)
        self._free = deque(call for call in self._free if call.outcome is None)
        for each in self.prints.values():
            self.room.cache.release(each)
        for _, _, sent in self.uncounted.take_out().sent:
            if sent is not None:
                self.times.forget(sent)
        self.queue.leave()

    def _join(self) -> None:
        """Ask for room together with the other runs that ask the same server."""
        self.joined, caching, policy = True, self._caching, self._policy
        self.room = room_of(caching, policy, self._whose)
        self.prefixes = Prefixes(caching, self.room.cache)
        self.times = self.room.residency.times
        self.uncounted = UncountedCalls(caching, self.room)
        foresees, memory = policy.foresee, policy.turns if policy.foresee else None
        self.queue = ConversationQueue(
            self.room, caching, policy.clock, self._go, foresees, self.arrivals, memory
        )
        self.room.join(self.queue)

    def held(self) -> Iterable[Call]:
        """The calls neither in the queue nor with a worker."""
        busy = self._free or self._late or self._held or self.prints
        return [call for call, _ in self.holdings()] if busy else ()

    def holdings(self) -> Iterator[tuple[Call, Why | None]]:
        """The calls neither in the queue nor with a worker; the reason if they may not go."""
        for call in self.queue if self.prints else ():  # only counted calls wait there
            yield call, "cache"
        for call in chain(self._free, self._late):
            yield call, None
        for held in self._held.values():
            for call in held.calls:
                yield call, "prefix"

    # -- what arrives

    def _see(self, call: Call) -> int:
        """Encode the prompt of *call*; returns the number of cold tokens that it begins with."""
        if call.outcome is not None or call.request is None:
            self.take_back(call)
            return 0
        tokens = None if self.queue.calls else self.uncounted.see(call)
        if tokens is not None:
            return tokens
        self._count_all()
        each = self._enter(call)
        return 0 if each is None or holds_an_answer(call) else self.prefixes.cold(each)

    def _enter(self, call: Call) -> Footprint | None:
        """Count the prompt of *call* among those that wait, and learn from it."""
        assert call.request is not None
        try:
            each = self.prefixes.add(call.request)
        except Exception:  # a prompt that cannot be encoded: its attempt will say so
            self.queue.take_back(call)
            return None
        self.prints[call] = each
        self.queue.arrive(call, each)
        return each

    def _goes_at_once(self, call: Call) -> bool:
        """True if *call* is not counted, and goes without others being waited for."""
        if self.queue.calls:
            return False
        tokens = self.uncounted.see(call)
        if tokens is None or tokens >= LARGE:
            return False
        return self.uncounted.send(call, self._clock.now())

    def _count_all(self) -> None:
        """Count from now on, also what is not counted so far."""
        sent, over, ready, foreseen = self.uncounted.take_out()
        for call, at, request in sent:
            each = self._enter(call)
            if each is not None:
                each.sent = request
                self.prefixes.lead(each, at)
                self.queue.let_in(call, each)
                if call in over or call.outcome is not None:
                    self.over(call)
        for call in foreseen:
            self.queue.foresee(call)
        for call in ready:
            if call not in self.arrivals:
                self.arrivals.add(call)  # by slices of time, as there may be very many

    # -- what goes

    def _take(self) -> Call | None:
        if self.arrivals.gathering:
            return None
        if self._free:
            return self._free.popleft()
        if not (self.prints and len(self.queue)):  # only counted calls wait there
            return self._order.take()
        while (call := self._order.take()) is not None:
            each = self.prints.get(call)
            if each is None or call in self.arrivals:
                return call
            self.queue.wait(call, each)
        return self.queue.take()

    def _hold(self, call: Call, each: Footprint) -> bool:
        """Keep *call* back if the beginning of its prompt is being computed, or should be first."""
        # A prompt may begin with several segments that are being computed. It waits for one of
        # them at a time, and comes here again when that is there.
        key = self._awaited(each)
        if key is None:
            shared = self.prefixes.beginning(each)
            if shared is None or not self._pays(each, shared):
                return False
            key = each.blocks[shared.end - 1]
            io = io_thread()
            io.workers += 1
            warming = self._warm(call, each, shared)
            task = io.loop.create_task(warming, context=contextvars.Context())
            self._held[key] = _HeldBack(task)
        self._held[key].calls.append(call)
        return True

    def _pays(self, each: Footprint, shared: SharedBeginning) -> bool:
        """True if the *shared* beginning of *each* should be sent ahead."""
        if self._policy.warm == "always":
            return True
        since = self.prefixes.led_since(each, shared)
        computed = since is not None and (
            self._clock.now() >= since + self.times.expected(shared.tokens)
        )
        return not computed and pays(shared, len(self.prints), self.times)

    def _awaited(self, each: Footprint) -> int | None:
        if not self._held:
            return None
        return next((block for block in each.blocks if block in self._held), None)

    async def _warm(self, call: Call, each: Footprint, shared: SharedBeginning) -> None:
        """Have the *shared* beginning computed, then release the calls that wait for it."""
        assert call.request is not None
        end, sent = shared.end, self.times.send(self._clock.now(), shared.tokens)
        try:
            async with asyncio.timeout(_WARMING_S):
                await self._caching.warm(call.request, self.prefixes.shared(each, end))
            self.times.learn(sent, self._clock.now(), shared.tokens)
        except Exception:  # the calls themselves will say what is wrong
            self.times.forget(sent)
        # In every case, or the calls would wait for ever: they are sent without it if need be.
        finally:
            self.room.cache.warmed(each.blocks[:end], self._caching.cache_tokens)
            held = self._held.pop(each.blocks[end - 1]).calls
            for one in held:
                its = self.prints.get(one)
                if its is not None:  # its run is not over
                    # Noted with the call: if the cache has dropped the blocks by then, they are
                    # not sent ahead of it a second time.
                    its.ahead = max(its.ahead, end)
            self._free.extend(held)
            io_thread().workers -= 1
            self._go()
