"""The order of calls to a server that keeps the computed beginnings of prompts.

Calls that arrive together are looked at together. What several of them begin with is sent alone
before them where that pays, and conversations that go on by turns are let in while the cache has
room for them.

Invariant: everything here runs on the I/O loop, but for the note that an activation has ended; a
call that was added is taken once, unless it has ended before, and what it holds is given back when
it is over, at the latest when its run is.
"""

from __future__ import annotations

import asyncio
import contextvars
import os
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain
from math import inf
from typing import TYPE_CHECKING, cast
from weakref import ReferenceType, WeakValueDictionary, ref

from appl.backend import PrefixCaching, Request
from appl.runtime.concurrency.loop_thread import io_thread
from appl.runtime.concurrency.promise import Value
from appl.runtime.scheduling.call_status import Why
from appl.runtime.scheduling.order import CallQueue
from appl.runtime.scheduling.policy import EXPECTED_ANSWER
from appl.runtime.scheduling.prefix_order.arrivals import LARGE, Arrivals
from appl.runtime.scheduling.prefix_order.beginnings import (
    Beginnings,
    ServerProfile,
    blocks_of,
    shared_tokens,
)
from appl.runtime.scheduling.prefix_order.room import (
    BLOCK,
    FIRST_TURNS,
    LONG_WAIT_S,
    CachedConversation,
    Kind,
    Line,
    OrderedCall,
    Room,
)
from appl.runtime.scheduling.timers import LoopClock, Timer

if TYPE_CHECKING:
    from appl.runtime.answers.call import Call, CallBody, CallFrame


_rooms: WeakValueDictionary[tuple[int, ...], Room] = WeakValueDictionary()
os.register_at_fork(after_in_child=_rooms.clear)


class PrefixOrder:
    """The order of the calls of *queue* to the server of *caching*.

    Runs that ask the same server at the same time count its room together. When the last of them
    ends, everything is forgotten.
    """

    def __init__(self, caching: PrefixCaching, queue: CallQueue) -> None:
        self._caching, self._queue = caching, queue
        self._clock = queue.policy.clock or LoopClock()
        # Runs of one clock share it; what the key is of lives as long as the room.
        shared_by = queue.server, queue.policy.clock, io_thread()
        self._key = tuple(map(id, shared_by))
        self.room = _rooms.get(self._key) or Room(shared_by=shared_by)
        _rooms[self._key] = self.room
        self._line = Line(self.room, self._look)
        self._beginnings = Beginnings(self.room.known, ServerProfile())
        self._arrivals = Arrivals(queue, self._see, self._looked)
        self._asks: dict[Call, OrderedCall] = {}
        self._conversations: dict[str, CachedConversation] = {}
        self._ended: list[CachedConversation] = []
        self._warming: dict[int, list[OrderedCall]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._ready: deque[OrderedCall] = deque()
        # A call that has the server to itself is not compared with others, unless some come while
        # it waits or is with the server. Of the latest one the prompt is known afterwards.
        self._alone: Call | None = None
        self._sent_alone: Call | None = None
        self._answered_alone: ReferenceType[Call] | None = None
        self._reads_graphs = self._is_blocked = False
        self._timer: Timer | None = None
        queue.attach(lambda: self.busy, self.close)

    @property
    def size(self) -> int:
        """The number of calls that wait, 0 while none of them may go."""
        if self._alone is not None:
            return 1
        if not self._asks or self._is_blocked or self._arrivals.is_gathering:
            return 0
        return len(self._ready) + self._line.size

    @property
    def busy(self) -> bool:
        """True if calls are about to be compared with each other."""
        return self._arrivals.is_busy

    # -- as an order

    def add(self, call: Call) -> None:
        """Note that *call* is ready."""
        is_first = self._alone is None and self._sent_alone is None and not self._asks
        if is_first and self._arrivals.is_at_rest:
            self._alone, self._is_blocked = call, False
        else:
            self._compare_alone()
            self._arrivals.add(call)

    def _compare_alone(self) -> None:
        """Have the call that is alone, or was the latest one, compared with those that come."""
        alone, self._alone = self._alone, None
        sent, self._sent_alone = self._sent_alone, None
        answered, self._answered_alone = self._answered_alone, None
        if answered is not None and (call := answered()) is not None and call.request is not None:
            _, blocks = self._encoded(call.request)
            self.room.known.add(blocks, self.room.tokens)
        if sent is not None and (ask := self._ask(sent)) is not None:
            ask.is_sent = True
            self._line.let_in(ask)
        if alone is not None:
            self._arrivals.add(alone)

    def take(self) -> Call | None:
        """The next call to send; ``None`` when there is none, or none that there is room for."""
        if self._alone is not None:
            if self._goes_at_once(self._alone):
                call = self._sent_alone = self._alone
                self._alone = None
                return call
            self._compare_alone()
        if self._arrivals.is_gathering:
            return None
        while (ask := self._next()) is not None:
            if ask.call.outcome is not None:
                self._end(ask)
            elif not self._waits_for_beginning(ask):
                ask.is_sent = True
                self._beginnings.remove(ask)
                return cast("Call", ask.call)
        self._is_blocked = True
        self._look_later()
        return None

    def _next(self) -> OrderedCall | None:
        if self._ready:
            return self._ready.popleft()
        tokens, now = self._caching.cache_tokens, self._clock.now()
        self.room.tokens = inf if tokens is None else tokens
        room = self.room
        if not self._reads_graphs and room.used * FIRST_TURNS * FIRST_TURNS > room.tokens:
            # From now on: those inside may not fit when each takes many more turns than expected.
            self._reads_graphs = True
            for conversation in self._conversations.values():
                self._foresee(conversation)
            self._line.sort()
            self.room.is_stale = True
        return self._line.next(now)

    def over(self, call: Call, since: float) -> None:
        """Note that *call*, which was taken, is over: answered, failed, or gone elsewhere."""
        if call is self._sent_alone:
            self._sent_alone = None
            self._answered_alone = ref(call) if isinstance(call.outcome, Value) else None
        elif (ask := self._asks.get(call)) is not None:
            if isinstance(call.outcome, Value):
                self.room.known.add(ask.blocks, self.room.tokens)
            self._end(ask)

    def _end(self, ask: OrderedCall) -> None:
        """Give back what *ask* holds."""
        del self._asks[ask.call]
        if not ask.is_sent:
            self._beginnings.remove(ask)
        self._line.over(ask, self._clock.now())
        self._end_if_last(ask.conversation)
        self._is_blocked = False
        self.room.tell()

    def waiting(self) -> Iterator[tuple[Call, Why | None]]:
        """The calls that wait, with the reason for which one may not go."""
        if self._alone is not None:
            yield self._alone, None
        for ask in self._ready:
            yield ask.call, None
        room: Why | None = "cache" if self._is_blocked else None
        if self._arrivals.is_gathering:
            room = "gathering"
        for ask in self._line if self._line.size else ():
            yield ask.call, room
        for ask in chain.from_iterable(self._warming.values()):
            yield ask.call, "prefix"
        for call in self._arrivals:
            yield call, "connect" if self._arrivals.is_connecting else "gathering"

    def close(self) -> None:
        """Give back all room, as the run is over."""
        self._arrivals.close()
        if self._timer is not None:
            self._timer.cancel()
        self._line.leave(self._conversations.values())
        for those in (self._conversations, self._asks, self._ready):
            those.clear()
        self._alone = self._sent_alone = None
        if not self.room.lines and _rooms.get(self._key) is self.room:
            del _rooms[self._key]  # the server may be another one when it is asked the next time

    # -- what arrives

    def _goes_at_once(self, call: Call) -> bool:
        """True if nobody waits for others that begin like *call*, which is alone."""
        if call.request is None or _holds_an_answer(call):
            return True
        with suppress(Exception):  # it cannot be encoded, as the attempt will say
            return len(self._caching.prompt_tokens(call.request)) < LARGE
        return True

    def _see(self, call: Call) -> int:
        """Have *call* wait in line; returns the number of cold tokens that its prompt begins with.

        Hardly any other prompt begins with the same answer: of one that holds one it is 0.
        """
        ask = self._ask(call) if call.outcome is None else None
        if ask is None:
            return 0
        self._beginnings.add(ask)
        self._line.add(ask)
        if _holds_an_answer(call):
            return 0
        return len(ask.ids) - BLOCK * self.room.known.count(ask.blocks)

    def _ask(self, call: Call) -> OrderedCall | None:
        """The entry of *call*, with its tokens and its conversation."""
        request, frame = call.request, call.frame()
        if request is None:
            return None
        root = frame.root_of_prompt() if frame is not None else None
        conversation = self._conversation(call, root)
        ids, blocks = self._encoded(request)
        tokens = len(ids) + (request.sampling.max_tokens or EXPECTED_ANSWER) * request.n
        ask = self._asks[call] = OrderedCall(
            call, conversation, ids, blocks, tokens, self._clock.now()
        )
        body = conversation.body
        is_own = body is not None and _body_of(frame) is body
        conversation.made = max(conversation.made + 1, is_own * (call.identity.ordinal + 1))
        conversation.line = call.line if is_own and call.file == body.file else None
        conversation.has_ended = root is None or root.ended
        self._foresee(conversation)
        return ask

    def _foresee(self, conversation: CachedConversation) -> None:
        """Note what is known of the turns of *conversation* that are to come."""
        counts = None
        if self._reads_graphs and conversation.body is not None:
            with suppress(Exception):  # no graph can be made of it, or there are no graphs
                counts = conversation.body.counts()
        least, most = (
            (0, None) if counts is None else counts.remaining(conversation.made, conversation.line)
        )
        if counts is None or len(counts.models) > 1:
            least = 0  # of several models some may be asked elsewhere
        present = conversation.turn + (not conversation.running)
        conversation.length = min(
            max(FIRST_TURNS, present + least), inf if most is None else present + most
        )
        coming = self._queue.coming[conversation.address]
        least = max(least, coming)
        if conversation.has_ended:
            most = coming
        conversation.least, conversation.most = (
            present + least,
            inf if most is None else present + max(least, most),
        )
        conversation.is_last = most == 0

    def _encoded(self, request: Request) -> tuple[Sequence[int], Sequence[int]]:
        """The ids and the blocks of the prompt of *request*."""
        try:
            ids = self._caching.prompt_tokens(request)
            return ids, blocks_of(request, ids, self._caching)
        except Exception:  # it cannot be encoded, as the attempt will say
            return (), ()

    def _conversation(self, call: Call, root: CallFrame | None) -> CachedConversation:
        """The conversation of *root*, the activation whose prompt *call* goes on with."""
        address = call.address.rpartition("/")[0] if root is None else root.address
        conversation = self._conversations.get(address)
        if conversation is not None:
            return conversation
        body = _body_of(root)
        names = [part.rpartition(".")[0] for part in address.split("/")]
        function = (call.file, "") if body is None else (body.file, body.qualname)
        kind = self.room.kinds.setdefault((*names, *function), Kind())
        conversation = CachedConversation(address, kind, self._rank(address), body)
        self._conversations[address] = conversation
        if root is not None:
            # On its program's thread: what it notes is done on the I/O loop.
            root.when_ended(partial(io_thread().send, partial(self._note_end, conversation)))
        return conversation

    def _rank(self, address: str) -> int | None:
        """The rank of the nearest conversation around *address* that was let in."""
        while address:
            address = address.rpartition("/")[0]
            around = self._conversations.get(address)
            if around is not None and around.rank is not None:
                return around.rank
        return None

    def _note_end(self, conversation: CachedConversation) -> None:
        """Note that the activation of *conversation* has ended."""
        if self._arrivals.is_looking:  # perhaps at a call of it
            self._ended.append(conversation)
        elif self._conversations.get(conversation.address) is conversation:
            conversation.has_ended = True
            self._foresee(conversation)
            self._end_if_last(conversation)
            self.room.tell()

    def _end_if_last(self, conversation: CachedConversation) -> None:
        if conversation.is_last and not conversation.open:
            del self._conversations[conversation.address]
            self.room.end(conversation)

    # -- what goes

    def _waits_for_beginning(self, ask: OrderedCall) -> bool:
        """True if the beginning of *ask* is being computed, or should be before it is sent."""
        # A prompt may begin with several beginnings that are being computed. It waits for one of
        # them at a time, and comes here again when that is there.
        warming = self._warming
        key = next((block for block in ask.blocks if block in warming), None) if warming else None
        if key is None:
            beginning = self._beginnings.of(ask)
            always = self._queue.policy.warm == "always"
            if beginning is None or not (always or beginning.pays(len(self._asks))):
                return False
            key = ask.blocks[beginning.end - 1]
            self._warming[key] = []
            work, context = self._warm(ask, beginning.end), contextvars.Context()
            task = io_thread().loop.create_task(work, context=context)
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        self._warming[key].append(ask)
        return True

    async def _warm(self, ask: OrderedCall, end: int) -> None:
        """Have the first *end* blocks of *ask* computed, then release the calls that wait."""
        try:
            tokens = shared_tokens(ask, end, self._asks.values())
            async with asyncio.timeout(LONG_WAIT_S):
                await self._caching.warm(ask.call.request, tokens)
        except Exception:
            pass
        # In every case, or the calls would wait for ever: they are sent without it if need be.
        finally:
            self.room.known.add(ask.blocks[:end], self.room.tokens)
            for waiting in self._warming.pop(ask.blocks[end - 1]):
                # Noted with the call: if the cache has dropped the blocks by then, they are not
                # sent ahead of it a second time.
                waiting.ahead = max(waiting.ahead, end)
                if waiting.call in self._asks:  # its run is not over
                    self._ready.append(waiting)
            self._look()

    def _looked(self) -> None:
        """Note what has ended while calls were looked at, and have those sent that may go."""
        if not self._arrivals.is_looking:
            ended, self._ended = self._ended, []
            for conversation in ended:
                self._note_end(conversation)
        self._look()

    def _look(self) -> bool:
        """Have ``take`` called soon; false if it cannot be at present."""
        self._is_blocked = False
        return self._queue.look()

    def _look_later(self) -> None:
        """Look again when one has waited for too long, or room that is kept lapses."""
        if self._timer is not None:
            self._timer.cancel()
        when = self._line.look_at() if self._line.size else inf
        if when < inf:
            self._timer = self._clock.at(when, self._looked)


def _body_of(frame: CallFrame | None) -> CallBody | None:
    """The function whose activation *frame* is, while somebody holds it."""
    return frame.body() if frame is not None and frame.body is not None else None


def _holds_an_answer(call: Call) -> bool:
    return call.node is not None and call.node.has_hole
