"""Uncounted calls: those that go without an account, as room is not short and nothing is shared.

To count the prefixes and the room of a call costs as much as all the rest of its way. None of that
is needed while everything that is under way or foreseen fits in the cache, whatever comes of it,
and no two prompts share a beginning that is worth sending ahead. When that ends, those that are
there are counted after all, so that they and the next ones find what they would have found.

Invariant: everything here runs on the I/O loop; no two calls that are here share a long beginning,
and the tokens of those that were sent are taken from the room until they are over.
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from appl.backend import PrefixCaching
from appl.runtime.scheduling.cache_room import Room
from appl.runtime.scheduling.prefixes import EXPECTED_ANSWER, LEAST
from appl.runtime.scheduling.server_times import SentRequest

if TYPE_CHECKING:
    from appl.runtime.answers.call import Call

_LATEST = 64
"""The calls that are over of which as many are remembered."""
_TURNS = 64
"""The turns that a conversation takes of which nothing is known, each as large as the first."""
_PARTS = 64
"""The most parts of a prompt that is foreseen; longer ones are counted."""


@dataclass(slots=True, eq=False)
class UncountedCall:
    """A call with the prompt ``ids`` of so many ``tokens``, which ``begins`` so if compared.

    With its answers it has ``size`` tokens. When it was sent, ``at`` a time, it took so much
    ``room``, for what may follow in its conversation, too; ``sent`` is that of one not alone.
    """

    ids: Sequence[int]
    tokens: int
    size: int
    begins: tuple[int, ...] | None = None
    room: int = 0
    at: float | None = None
    sent: SentRequest | None = None


class LeftOver(NamedTuple):
    """The calls that are to be counted: those that were sent, are in the queue, and foreseen.

    The first are there with the time when they were sent. Some of them are ``over`` at this server,
    perhaps without an outcome: such a call has gone on to another server.
    """

    sent: list[tuple[Call, float, SentRequest | None]]
    over: set[Call]
    ready: list[Call]
    foreseen: list[Call]


class UncountedCalls:
    """The calls of one run to the server of *room* that are not counted."""

    def __init__(self, caching: PrefixCaching, room: Room) -> None:
        self._caching, self._room = caching, room
        self._calls: dict[Call, UncountedCall] = {}
        # By address: another call may come in its place.
        self._foreseen: dict[str, tuple[Call, int]] = {}
        self._unread: UncountedCall | None = None  # nobody was there to compare it with
        self._begun: set[tuple[int, ...]] = set()
        self._asks_graphs = False
        self._latest: deque[tuple[weakref.ref[Call], float]] = deque(maxlen=_LATEST)

    def __contains__(self, call: Call) -> bool:
        return call in self._calls

    def see(self, call: Call) -> int | None:
        """The tokens of *call* that others may share; ``None`` if it shares them with one here.

        It is not foreseen any more.
        """
        request = call.request
        assert request is not None
        if self._foreseen:
            self.take_back(call)
        each, holds = self._calls.get(call), holds_an_answer(call)
        if each is None:
            ids: Sequence[int] = ()
            if self._calls or not holds:  # else its client encodes it, off the loop if it is long
                try:
                    ids = self._caching.prompt_tokens(request)
                except Exception:  # a prompt that cannot be encoded: its attempt will say so
                    ids = ()
            tokens = len(ids)
            answers = (request.sampling.max_tokens or EXPECTED_ANSWER) * request.n
            each = UncountedCall(ids, tokens, tokens + answers)
            if tokens >= LEAST and not self._is_apart(each):
                return None
            self._calls[call] = each
        return 0 if holds else each.tokens

    def _is_apart(self, each: UncountedCall) -> bool:
        """True if no other call that is here begins like *each*."""
        if not self._calls:
            self._unread = each
            return True
        before, self._unread = self._unread, None
        for one in (each,) if before is None else (before, each):
            begins = tuple(one.ids[:LEAST])
            if begins in self._begun:
                return False
            one.begins = begins
            self._begun.add(begins)
        return True

    def send(self, call: Call, now: float) -> bool:
        """Take room for *call*, which goes *now*; false if room may be short."""
        each = self._calls[call]
        alone = not self._room.uncounted
        room = each.size * self._turns(call)
        if not self._room.takes(room, self._caching):
            # What went on when it was sent may have ended meanwhile, or have a graph that tells.
            self._asks_graphs = True
            for other, its in self._calls.items():
                if its.room > its.size:
                    self._room.gives_back(its.room)
                    its.room = its.size * self._turns(other)
                    self._room.uncounted += its.room
            room = each.size * self._turns(call)
            if not self._room.takes(room, self._caching):
                return False
        each.room, each.at = room, now
        if not alone:
            each.sent = self._room.residency.times.send(now, each.tokens)
        return True

    def _turns(self, call: Call) -> int:
        """The most turns that the conversation of *call* may take from this one on."""
        frame = call.frame()
        root = None if frame is None else frame.root_of_prompt()
        if root is None or root.ended:
            return 1
        body = None if root.body is None else root.body()
        if not self._asks_graphs or root is not frame or body is None:
            return _TURNS
        _, ordinal, file, line = call.identity
        with suppress(Exception):  # no graph can be made of it
            counts = body.counts()
            line = line if file == body.file else None
            most = None if counts is None else counts.left(ordinal + 1, line)[1]
            return _TURNS if most is None else 1 + most
        return _TURNS

    def over(self, call: Call) -> UncountedCall | None:
        """Note that *call* has ended, and return it; ``None`` if it is not here."""
        each = self._calls.pop(call, None)
        if each is None:
            return None
        if each is self._unread:
            self._unread = None
        if each.begins is not None:
            self._begun.discard(each.begins)
        if each.at is not None:
            self._latest.append((weakref.ref(call), each.at))
            self._room.gives_back(each.room)
        return each

    def foresee(self, call: Call) -> bool:
        """Note that *call*, which waits for a part of its prompt, will come; false if not here."""
        node, answer = call.node, call.sampling.max_tokens or EXPECTED_ANSWER
        tokens = answer
        if node is None or node.length > _PARTS:
            return False
        while node is not None:
            tokens += len(node.part) if isinstance(node.part, str) else answer
            node = node.parent
        if not self._room.takes(tokens, self._caching):
            return False
        self._foreseen[call.address] = call, tokens
        return True

    def take_back(self, call: Call) -> None:
        """Note that *call*, which was foreseen, has come or will not come."""
        _, tokens = self._foreseen.pop(call.address, (call, 0))
        self._room.gives_back(tokens)

    def take_out(self) -> LeftOver:
        """Have no call here any more; those that are to be counted are returned."""
        latest = [(call, at, None) for ref, at in self._latest if (call := ref()) is not None]
        calls = self._calls.items()
        sent = [(call, each.at, each.sent) for call, each in calls if each.at is not None]
        ready = [call for call, each in calls if each.at is None]
        room = sum(each.room for each in self._calls.values())
        foreseen = self._foreseen.values()
        self._room.gives_back(room + sum(tokens for _, tokens in foreseen))
        over = {call for call, _, _ in latest}
        found = LeftOver([*latest, *sent], over, ready, [call for call, _ in foreseen])
        self._unread = None
        for each in (self._latest, self._calls, self._foreseen, self._begun):
            each.clear()
        return found


def holds_an_answer(call: Call) -> bool:
    """True if the prompt of *call* holds an answer: hardly any other begins like that."""
    return call.node is not None and call.node.has_hole
