"""A server with a prefix cache on a virtual clock: the cost of prompts, and their reuse.

Invariant: a step computes prompts or makes one token of each answer. The cache never holds more
than its room, and nothing in use is dropped.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter, OrderedDict, deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from appl.backend import Emit, Profile, Request, Response, Sample, Usage
from appl.errors import PromptTooLong
from appl.prompt import Messages
from appl.runtime.scheduling.order import CallQueue, Order
from appl.runtime.scheduling.prefix_order import PrefixOrder
from appl.runtime.world import Programs
from appl.testing.clock import VirtualClock

__all__ = ["RadixServer"]

_BLOCK = 32
_CHUNK = 8192
_GLANCE_S = 0.001


@dataclass(eq=False, slots=True)
class _QueuedRequest:
    """A request that waits or runs: its prompt, its future answer, and the rest of it."""

    ids: list[int]
    blocks: list[int]
    answer: list[int]
    remaining: int
    over: asyncio.Future[None]
    cached: int = 0

    @property
    def tail(self) -> int:
        """The number of tokens after its last block."""
        return len(self.ids) % _BLOCK + len(self.answer)


class RadixServer:
    """A backend that takes as long on *clock* as a server that keeps computed prefixes.

    A word is a token, and an answer is as long as permitted. Its cache holds *room* tokens.
    Requests are computed in their order, in chunks of 8,192 tokens, and the least recently used
    tokens are dropped. *prefill* tokens of prompts are computed per second; a step that makes one
    token of each answer takes *step_s*, and *call_s* for each of them (defaults: an 8B model on one
    H200). *trip_s* is the time of a request beside what the server computes. Prompts of one batch
    share what they begin with; if not *together*, it is computed for each of them, as by servers
    that know a beginning only once it has been computed. In a run the clock is moved when no
    program can go on, and none of another run that uses this server. ``computed`` counts the tokens
    that were not in the cache, ``steps`` those of decoding.
    """

    def __init__(
        self,
        clock: VirtualClock,
        room: int,
        *,
        prefill: float = 35_000,
        step_s: float = 0.008,
        call_s: float = 0.00003,
        trip_s: float = 0.0,
        together: bool = True,
    ) -> None:
        self.profile = Profile("radix", frozenset({"prefix_cache"}))
        self.clock, self.cache_tokens = clock, room
        self._prefill, self._step_s, self._call_s = prefill, step_s, call_s
        self._trip_s, self._together = trip_s, together
        self._cache: OrderedDict[int, None] = OrderedDict()
        self._used: Counter[int] = Counter()
        self._waiting: deque[_QueuedRequest] = deque()
        self._running: list[_QueuedRequest] = []
        self._numbers = itertools.count(1)
        self._stepping = False
        self._runs: list[Programs] = []
        self._glances = False
        self.computed = self.steps = 0

    # -- as a backend

    def order(self, queue: CallQueue) -> Order:
        """The order that a server with a prefix cache has."""
        return PrefixOrder(self, queue)

    def prompt_tokens(self, request: Request) -> Sequence[int]:
        """A number for each word."""
        return _ids(request.messages)

    async def warm(self, request: Request, tokens: int) -> None:
        """Compute the beginning of the prompt of *request*."""
        await self._ask(_ids(request.messages)[:tokens], [])

    async def complete(self, request: Request, emit: Emit | None = None) -> Response:
        """Answer *request* with words that no other answer has."""
        words = [f"w{next(self._numbers)}" for _ in range(request.sampling.max_tokens or 1)]
        ids = _ids(request.messages)
        cached = await self._ask(ids, list(map(hash, words)))
        return Response((Sample(" ".join(words), "stop"),), Usage(len(ids), len(words), cached))

    def watched_by(self, programs: Programs) -> None:
        """Add *programs*, those of one more run."""
        self._runs.append(programs)

    def on_idle(self, final: bool = True) -> bool:
        """Move the clock; false if nothing waits for it, or another run goes on."""
        rest = not final or all(run.rests for run in self._runs)
        if rest and self.clock.advance():
            return True
        self._runs = [run for run in self._runs if not run.over]
        if len(self._runs) > 1 and not self._glances:  # who is told may be another than who moves
            self._glances = True
            asyncio.get_running_loop().call_later(_GLANCE_S, self._recheck)
        return False

    def _recheck(self) -> None:
        self._glances = False
        for run in self._runs:
            run.look_soon()

    def flush(self) -> None:
        """Forget all that was computed, while nobody asks."""
        self._cache.clear()

    async def aclose(self) -> None:
        """Do nothing: it holds no resources."""

    # -- as a server

    async def _ask(self, ids: list[int], answer: list[int]) -> int:
        """Answer with *answer*; returns the number of tokens of *ids* that were in the cache."""
        if len(ids) + len(answer) > self.cache_tokens:
            raise PromptTooLong(f"{len(ids)} tokens, and room for {self.cache_tokens}")
        if self._trip_s:
            await self.clock.sleep(self._trip_s)
        over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        request = _QueuedRequest(ids, _blocks(ids), answer, len(answer), over)
        self._waiting.append(request)
        if not self._stepping:
            self._stepping = True
            self.clock.at(self.clock.now(), self._step)
        await over
        return request.cached

    def _step(self) -> None:
        tokens, fresh = self._admitted()
        now = self.clock.now()
        if fresh:
            self.computed += tokens
            after = tokens / self._prefill + self._step_s
            self.clock.at(now + after, lambda: self._computed(fresh))
        elif self._running:
            self.steps += 1
            after = self._step_s + self._call_s * len(self._running)
            self.clock.at(now + after, lambda: self._generated(list(self._running)))
        else:
            self._stepping = False

    def _admitted(self) -> tuple[int, list[_QueuedRequest]]:
        """The requests to compute next, and the number of their tokens outside of the cache."""
        tokens, admitted = 0, list[_QueuedRequest]()
        while self._waiting and tokens < _CHUNK:
            first = self._waiting[0]
            if first.over.done():  # it was cancelled
                self._waiting.popleft()
                continue
            hit = first.cached = _BLOCK * sum(
                1 for _ in itertools.takewhile(self._cache.__contains__, first.blocks)
            )
            if self._running and self._held_with(first) > self.cache_tokens:
                break
            self._running.append(self._waiting.popleft())
            self._used.update(first.blocks)
            if self._together:
                self._keep(first.blocks)
            admitted.append(first)
            tokens += len(first.ids) - hit
        return tokens, admitted

    def _held_with(self, added: _QueuedRequest) -> int:
        """The number of tokens in use if *added* is added."""
        fresh = sum(block not in self._used for block in added.blocks)
        tails = sum(request.tail for request in (*self._running, added))
        return _BLOCK * (len(self._used) + fresh) + tails

    def _keep(self, blocks: Sequence[int]) -> None:
        for block in reversed(blocks):  # the ends of prompts are dropped before their beginnings
            self._cache[block] = None
            self._cache.move_to_end(block)
        while len(self._cache) * _BLOCK > self.cache_tokens:
            unused = (block for block in self._cache if block not in self._used)
            oldest = next(unused, None)
            if oldest is None:
                return
            del self._cache[oldest]

    def _free(self, blocks: Sequence[int]) -> None:
        for block in blocks:
            self._used[block] -= 1
            if not self._used[block]:
                del self._used[block]

    def _computed(self, those: list[_QueuedRequest]) -> None:
        if not self._together:
            for request in those:
                self._keep(request.blocks)
        self._generated(those)

    def _generated(self, those: list[_QueuedRequest]) -> None:
        for waiting in those:
            waiting.remaining -= 1
            if waiting.remaining <= 0 or waiting.over.done():
                self._running.remove(waiting)
                self._free(waiting.blocks)
                self._keep(_blocks([*waiting.ids, *waiting.answer]))
                if not waiting.over.done():
                    waiting.over.set_result(None)
        self.clock.at(self.clock.now(), self._step)


def _ids(messages: Messages | None) -> list[int]:
    if messages is None:
        return []
    cached: Any = messages.cache.get("radix")
    if cached is None:
        cached = [*_ids(messages.parent), *map(hash, messages.message.content.split())]
        messages.cache["radix"] = cached
    ids: list[int] = cached
    return ids


def _blocks(ids: Sequence[int]) -> list[int]:
    """One number per block, for itself and everything before it."""
    blocks, before = [], 0
    for at in range(0, len(ids) - _BLOCK + 1, _BLOCK):
        before = hash((before, *ids[at : at + _BLOCK]))
        blocks.append(before)
    return blocks
