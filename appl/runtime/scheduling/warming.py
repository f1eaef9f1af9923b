"""Prefix first: the common beginning of waiting calls is sent ahead of them, once.

Invariant: everything here runs on the I/O loop; a call that arrived is handed out once by ``next``
unless it has ended before, and is ``over`` once.
"""

from __future__ import annotations

import asyncio
import contextvars
import heapq
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from functools import partial
from itertools import chain, count
from typing import TYPE_CHECKING, Any

from appl.backend import PrefixCaching
from appl.runtime.concurrency.loop_thread import io_thread
from appl.runtime.concurrency.promise import Value
from appl.runtime.scheduling.cache_room import Room, RoomTurn, room_of
from appl.runtime.scheduling.call_status import Why
from appl.runtime.scheduling.demand_forecast import Age, DemandForecast
from appl.runtime.scheduling.order import Order, program_of
from appl.runtime.scheduling.policy import Policy
from appl.runtime.scheduling.prefixes import Footprint, Prefixes
from appl.runtime.scheduling.timers import LoopClock, Timer

if TYPE_CHECKING:
    from appl.runtime.answers.call import Call

_LARGE = 256
_LOOKS = 20
_SLICE_S = 0.005
_BETWEEN_S = 0.002
_WARMING_S = 60.0


class PrefixFirst:
    """Stands between the ready queue and the workers of a server that caches prefixes.

    Calls that arrive together are looked at together: at once, or if prompts begin with many cold
    tokens, when no more have come for ``gather_s`` seconds. Calls that go on from an answer are not
    waited for: hardly any other call has the same answer, and the server would be idle. Of very
    many calls those of some programs are encoded and go, then the next ones. Calls whose common
    beginning is cold wait until it has been sent and computed.

    No more different prompts are handed out than the cache holds, together with those that go on
    (see ``Residents``). While there are too many, the calls of programs that began first go first;
    those of other runs that ask *whose* server are among them.

    *go* is called when ``next`` may have something again; it returns true if ``next`` will be
    asked. *probe* is awaited once, before the first prompt is looked at. ``looking`` is true while
    some calls that arrived were not looked at yet, ``gathering`` while none is handed out because
    of that, ``probing`` while the server is being asked about itself. ``admitted`` calls have
    room; while ``paused`` none is handed out.
    """

    _room: Room
    _prefixes: Prefixes
    _forecast: DemandForecast

    def __init__(
        self,
        caching: PrefixCaching,
        order: Order,
        go: Callable[[], bool],
        probe: Callable[[], Coroutine[Any, Any, None]],
        policy: Policy,
        whose: object,
    ) -> None:
        self._caching, self._order, self._go, self._policy = caching, order, go, policy
        self._probe: Callable[[], Coroutine[Any, Any, None]] | None = probe
        self._clock, self._whose = policy.clock or LoopClock(), whose
        self._joined = self.paused = False
        self._arrived: deque[Call] = deque()
        self._unseen: set[Call] = set()
        self._late: list[Call] = []
        self._prints: dict[Call, Footprint] = {}
        self._held: dict[int, list[Call]] = {}
        self._free: deque[Call] = deque()
        self._parked: list[tuple[int, Age, int, Call]] = []
        self._numbers = count()
        self._lapse: Timer | None = None
        self._next_look: Timer | None = None
        self.admitted = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self.looking = self.gathering = self.probing = False

    @property
    def busy(self) -> bool:
        """True if calls are looked at, or will be without a test moving its clock."""
        return self.looking and (self._next_look is None or self._policy.clock is None)

    @property
    def waiting(self) -> bool:
        """True if there is a call to hand out that is not in the queue any more."""
        return bool(self._free or self._parked)

    def arrive(self, call: Call) -> None:
        """Look soon at *call*, which has been added to the ready queue."""
        self._join()
        self._arrived.append(call)
        self._unseen.add(call)
        if self.looking:
            return
        self.looking = self.gathering = True
        io = io_thread()
        io.workers += 1  # a look is to come, which ``_look`` counts back when it is the last one
        if self._probe is not None:
            probe, self._probe = self._probe, None
            self._spawn(self._learn(probe()))
        else:
            io.loop.call_soon(self._look)

    def foresee(self, call: Call) -> None:
        """Note that *call* will arrive when all parts of its prompt are there."""
        self._join()
        self._forecast.foresee(call)

    def take_back(self, call: Call) -> None:
        """Note that *call*, which was foreseen, will not arrive."""
        self._forecast.take_back(call)
        self._room.residents.take_back(self._forecast, call)
        self._room.tell()

    def next(self) -> Call | None:
        """The next call to send; ``None`` when there is none, or none that there is room for."""
        call = self._take()
        while call is not None:
            each = self._prints.get(call)
            # It came while others were looked at. It waits for its own look: else it would go out
            # before it is known that others share its beginning.
            if call in self._unseen:
                self._late.append(call)
                call = None
                break
            if call.outcome is not None:
                self.over(call)
            elif each is None:
                break
            elif not self._has_room(call, each):
                self._park(call, -next(self._numbers))  # it was first, and stays first
                self._room.wait(self)
                return None
            elif not self._hold(call, each):
                self._prefixes.sent(each)
                break
            call = self._take()
        # Other runs wait for their turn, and this one has had its own.
        if self._joined:
            self._room.tell()
        return call

    def over(self, call: Call) -> None:
        """Note that *call* has ended."""
        each = self._prints.pop(call, None)
        if each is None:
            return
        had_room, room = each.admitted, self._room
        self.admitted -= had_room
        self._prefixes.sent(each)
        if isinstance(call.outcome, Value):
            room.cache.warmed(each.blocks, self._caching.cache_tokens)
            room.residents.keep(self._forecast, call, each)
        else:
            room.cache.release(each)
        if had_room:
            room.tell()

    # -- beside other runs

    def turn(self) -> RoomTurn | None:
        """The turn of its next call that had no room; ``None`` when there is none."""
        while self._parked and self._parked[0][-1].outcome is not None:
            self.over(heapq.heappop(self._parked)[-1])
        if not self._parked:
            return None
        priority, age, *_ = self._parked[0]
        return self.admitted > 0, priority, age

    def look(self) -> bool:
        """Look soon for calls that may go; false when it cannot at present."""
        return self._go()

    def pause(self) -> None:
        """Begin nothing from now on; other runs do not wait for what was to begin."""
        self.paused = True
        if self._joined:
            self._room.tell()

    def leave(self) -> None:
        """Give back all room, as the run is over, and forget calls that ended before a look."""
        if not self._joined:
            return
        if self._next_look is not None and self._policy.clock is not None:
            self._next_look.cancel()  # nobody need move that clock any more
            io_thread().loop.call_soon(self._look, _LOOKS)
        for call in [call for call in self._prints if call.outcome is not None]:
            self.over(call)
        self._free = deque(call for call in self._free if call.outcome is None)
        self.turn()
        for each in self._prints.values():
            self._room.cache.release(each)
        self.admitted = 0
        self._room.residents.let_go(self._forecast)
        if self._lapse is not None:
            self._lapse.cancel()
            self._lapse = None
        self._room.leave(self)

    def _join(self) -> None:
        """Ask for room together with the other runs that ask the same server."""
        if self._joined:
            return
        self._joined, whose, clock = True, self._whose, self._policy.clock
        self._room = Room(None, clock) if whose is None else room_of(whose, clock)
        self._prefixes = Prefixes(self._caching, self._room.cache)
        self._forecast = DemandForecast(self._room.numbers, self._policy.foresee)
        self._room.join(self)

    def holdings(self) -> Iterator[tuple[Call, Why | None]]:
        """The calls neither in the queue nor with a worker; the reason if they may not go."""
        for *_, call in sorted(self._parked):
            yield call, "cache"
        for call in chain(self._free, self._late):
            yield call, None
        for calls in self._held.values():
            for call in calls:
                yield call, "prefix"

    # -- what arrives

    async def _learn(self, probing: Coroutine[Any, Any, None]) -> None:
        """Ask the server about itself, before the first look."""
        self.probing = True
        try:
            await probing
        finally:
            self.probing = False
            self._look()

    def _look(self, looks: int = 0) -> None:
        """Look at what has arrived; while prompts are long and more come, wait for more."""
        self._next_look = None
        clock = self._clock
        # Encoding long prompts takes time, and the loop has other work. So this works for a slice
        # of time, but not across a program's calls, which are to be compared with each other.
        cold, program, until = 0, "", clock.now() + _SLICE_S
        while self._arrived and (clock.now() < until or program_of(self._arrived[0]) == program):
            call = self._arrived.popleft()
            cold, program = max(cold, self._see(call)), program_of(call)
        gather_s = self._policy.gather_s
        # Others with the same long beginning may be on their way from the program. To wait for a
        # millisecond costs less than to compute the beginning twice.
        if not self._arrived and cold >= _LARGE and looks < _LOOKS and gather_s:
            self.gathering = True
            self._look_later(gather_s, looks + 1)
            return
        self.gathering = False
        self._free.extend(self._late)
        self._late.clear()
        if self._arrived:
            self._look_later(_BETWEEN_S, looks)  # in between, those that were looked at are sent
        else:
            self.looking = False
            io_thread().workers -= 1
        self._go()

    def _look_later(self, seconds: float, looks: int) -> None:
        when = self._clock.now() + seconds
        self._next_look = self._clock.at(when, partial(self._look, looks))

    def _see(self, call: Call) -> int:
        """Encode the prompt of *call*; returns the number of cold tokens that it begins with."""
        self._unseen.remove(call)
        if call.outcome is not None or call.request is None:
            return 0
        try:
            each = self._prefixes.add(call.request)
        except Exception:  # a prompt that cannot be encoded: its attempt will say so
            return 0
        self._prints[call] = each
        self._forecast.arrive(call, each)
        return 0 if _holds_an_answer(call) else self._prefixes.cold(each)

    # -- what goes

    def _take(self) -> Call | None:
        if self.gathering:
            return None
        if self._free:
            return self._free.popleft()
        if not self._parked:
            return self._order.take()
        while (call := self._order.take()) is not None:
            self._park(call, next(self._numbers))
        return heapq.heappop(self._parked)[-1]

    def _park(self, call: Call, number: int) -> None:
        """Have *call* wait for room: behind those of higher priority, and of older programs."""
        age = self._forecast.age_of(call)
        heapq.heappush(self._parked, (-call.priority, age, number, call))

    def _has_room(self, call: Call, each: Footprint) -> bool:
        """True if the cache has room for *call*; if not, ``go`` is called when it may have."""
        if each.admitted:
            return True
        residents, age = self._room.residents, self._forecast.age_of(call)
        residents.ask_again(self._forecast, call)  # first: it may need just the room that it kept
        if not self._room.is_turn(self, (self.admitted > 0, -call.priority, age)):
            return False
        if residents.make_room(age, each, self._caching.cache_tokens):
            return True
        if self._room.idle:  # nobody is served by its waiting
            residents.let_go()
            return True
        # Room that is kept for an activation which is busy elsewhere comes free by time alone.
        lapses = residents.lapses()
        if lapses is not None and self._lapse is None:
            self._lapse = self._clock.at(lapses, self._lapsed)
        return False

    def _lapsed(self) -> None:
        self._lapse = None
        self._go()

    def _hold(self, call: Call, each: Footprint) -> bool:
        """Keep *call* back if the beginning of its prompt is being computed, or should be first."""
        self.admitted += not each.admitted
        self._room.cache.admit(each)
        # A prompt may begin with several segments that are being computed. It waits for one of
        # them at a time, and comes here again when that is there.
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
        """Have the first *end* blocks computed, then release the calls that wait for them."""
        assert call.request is not None
        try:
            async with asyncio.timeout(_WARMING_S):
                await self._caching.warm(call.request, self._prefixes.shared(each, end))
        except Exception:
            pass  # the calls themselves will say what is wrong
        # In every case, or the calls would wait for ever: they are sent without it if need be.
        finally:
            self._room.cache.warmed(each.blocks[:end], self._caching.cache_tokens)
            held = self._held.pop(each.blocks[end - 1])
            for one in held:
                its = self._prints.get(one)
                if its is not None:  # its run is not over
                    # Noted with the call: if the cache has dropped the blocks by then, they are
                    # not sent ahead of it a second time.
                    its.ahead = max(its.ahead, end)
            self._free.extend(held)
            io_thread().workers -= 1
            self._go()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = io_thread().loop.create_task(work, context=contextvars.Context())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _holds_an_answer(call: Call) -> bool:
    """True if the prompt of *call* holds an answer."""
    return call.node is not None and call.node.hole is not None
