"""The order of calls to a provider that keeps beginnings of prompts, and charges for it.

Each request is told how its prompt is used again just before it is sent: by calls that wait, by
calls that were sent, and by the graph of its function. Of calls that share a long beginning the
first one goes ahead, as the others can read the beginning only when its answer has begun.

Invariant: everything here runs on the I/O loop; a call that was added is taken once, unless it has
ended before. Nothing here changes what is asked.
"""

from __future__ import annotations

import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol

from appl.backend import Border, Request, Reuse
from appl.runtime.concurrency.promise import Value
from appl.runtime.scheduling.beginnings import Beginnings
from appl.runtime.scheduling.order import CallQueue, plain_order
from appl.runtime.scheduling.timers import LoopClock, Timer

if TYPE_CHECKING:
    from appl.prompt import Messages
    from appl.runtime.answers.call import Call
    from appl.runtime.scheduling.call_status import Why

_MOST = 65_536
"""The most beginnings and conversations that are remembered; the least recently used go first."""
_BYTES = 4
"""The bytes of a token, about."""
_SHORT = 1024
"""The characters below which a text is surely too short to be kept."""
_SAVED = 1000
"""The least tokens that must be saved for others to wait until the first call's answer begins."""
_LOOKED_AT = 256
"""The most calls that wait for parts of their prompts which are looked at."""
_LOOKS = 20
"""The most times that calls wait for others which come one after the other."""
_SENT = "reuse.sent"
_BORDERS = "reuse.borders"


class CacheProfile(Protocol):
    """The rule of a provider's cache, as far as the order of calls needs it."""

    @property
    def least(self) -> int:
        """The least tokens of a beginning that is kept."""

    @property
    def ttl(self) -> float:
        """The seconds for which it is kept."""

    @property
    def leads(self) -> bool:
        """True if it can be read only when the answer of the request that wrote it has begun."""


@dataclass(slots=True)
class _Prompt:
    """The prompt of a call that waits: where others may leave it, and a hash for each such place.

    ``leads`` are the hashes of what it goes ahead with.
    """

    call: Call
    borders: Sequence[Border]
    blocks: Sequence[int]
    profile: CacheProfile
    ahead: int = 0
    leads: list[int] = field(default_factory=list)


class _Tokens:
    """Beginnings that a provider charges for, by their estimated tokens."""

    least = 1024

    def tokens(self, ask: _Prompt, start: int, end: int) -> int:
        """The tokens of *ask* up to block *end*: what is kept begins with the prompt."""
        return ask.borders[end - 1].tokens


class CacheMemory:
    """The beginnings of the prompts sent to one provider, each with the time of its last use.

    ``sent`` are those that a request has told the provider to keep, ``seen`` others, with the
    number of requests that began so.
    """

    def __init__(self) -> None:
        self.now: Callable[[], float] = time.monotonic
        self.ttl = 300.0
        self.sent: OrderedDict[int, float] = OrderedDict()
        self.prompts: OrderedDict[int, tuple[int, float]] = OrderedDict()
        self.call_counts: OrderedDict[str, int] = OrderedDict()

    def count(self, blocks: Sequence[int], ahead: int = 0) -> int:
        """The number of *blocks* that the provider has, from the first on; *ahead* at least.

        One may have been told to keep a longer beginning alone, which holds the shorter ones.
        """
        since = self.now() - self.ttl
        for at in range(len(blocks) - 1, ahead - 1, -1):
            if self.sent.get(blocks[at], since - 1) >= since:
                return at + 1
        return ahead

    def note(self, prompt: _Prompt, reuse: Reuse) -> None:
        """Note that *prompt* is sent, with *reuse*."""
        now, digests = self.now(), {border.digest for border in reuse.borders}
        for border, block in zip(prompt.borders, prompt.blocks, strict=True):
            if border.message >= reuse.begun:  # else an earlier request of its own counted it
                often = self.prompts.get(block, (0, 0.0))[0]
                _put(self.prompts, block, (often + 1, now))
            if border.digest in digests:
                _put(self.sent, block, now)


def _put(table: OrderedDict[Any, Any], key: object, value: object) -> None:
    table[key] = value
    table.move_to_end(key)
    if len(table) > _MOST:
        table.popitem(last=False)


class ReuseOrder:
    """The order of the calls of *queue*; *rule_of* gives the rule for a request's model.

    The calls of a run go in their plain order, but for those that wait for a beginning. One with a
    long prompt goes when no others have come for ``gather_s`` seconds of the policy, so that those
    that come together are known together.
    """

    def __init__(
        self,
        queue: CallQueue,
        memory: CacheMemory,
        rule_of: Callable[[Request], CacheProfile | None],
    ) -> None:
        self._queue, self._memory, self._rule_of = queue, memory, rule_of
        if queue.policy.clock is not None:
            memory.now = queue.policy.clock.now
        self._plain = plain_order(queue.policy)
        self._clock = queue.policy.clock or LoopClock()
        self._new: list[Call] = []
        self._timer: Timer | None = None
        self._looks = 0
        self._prompts: dict[Call, _Prompt] = {}
        self._beginnings: Beginnings[_Prompt] = Beginnings(memory, _Tokens())
        self._released: deque[Call] = deque()
        self._leading: dict[int, list[_Prompt]] = {}
        self._leaders: dict[Call, _Prompt] = {}
        queue.attach(lambda: bool(self._new) and queue.policy.clock is None, self.close)

    @property
    def size(self) -> int:
        """The number of calls that may go now."""
        return self._plain.size + len(self._released)

    def add(self, call: Call) -> None:
        """Note that *call* is ready."""
        request = call.request
        messages = request.messages if request is not None else None
        # Most prompts are one short message: the plain order is the fastest way for them.
        is_short = messages is None or (messages.parent is None and messages.size < _SHORT)
        prompt = None if is_short and not call.sampling.tools else self._prompt(call)
        if prompt is None:
            self._plain.add(call)
            return
        self._prompts[call] = prompt
        self._beginnings.add(prompt)
        gather_s = self._queue.policy.gather_s
        if not gather_s:
            self._plain.add(call)
            return
        self._new.append(call)
        if self._timer is None:
            self._gather(gather_s, 1)

    def _gather(self, gather_s: float, count: int) -> None:
        """Have the new calls go unless more than *count* have come by then."""
        look = partial(self._look, gather_s, count)
        self._timer = self._clock.at(self._clock.now() + gather_s, look)

    def _look(self, gather_s: float, count: int) -> None:
        self._looks += 1
        if len(self._new) > count and self._looks < _LOOKS:
            self._gather(gather_s, len(self._new))
            return
        self._timer, self._looks = None, 0
        new, self._new = self._new, []
        for call in new:
            self._plain.add(call)
        self._queue.look()

    def take(self) -> Call | None:
        """The next call to send; ``None`` when all that wait do so for a beginning."""
        if not self._prompts:
            return self._plain.take()
        while True:
            call = self._released.popleft() if self._released else self._plain.take()
            prompt = self._prompts.get(call) if call is not None and self._prompts else None
            if call is None or prompt is None:
                return call
            if call.outcome is None and self._waits(prompt):
                continue
            del self._prompts[call]
            self._beginnings.remove(prompt)
            if call.outcome is None:
                self._tell(prompt)
            return call

    def over(self, call: Call, since: float) -> None:
        """Note that *call*, which was taken, is over."""
        self._plain.over(call, since)
        prompt = self._leaders.pop(call, None) if self._leaders else None
        if prompt is not None:
            if not isinstance(call.outcome, Value):  # nothing was kept, as far as anybody knows
                for block in prompt.leads:
                    self._memory.sent.pop(block, None)
            self._release(prompt)

    def waiting(self) -> Iterator[tuple[Call, Why | None]]:
        """The calls that wait, with the reason for which one may not go."""
        for call in self._new:
            yield call, "gathering"
        for call in self._released:
            yield call, None
        yield from self._plain.waiting()
        for prompts in self._leading.values():
            for prompt in prompts:
                yield prompt.call, "prefix"

    def close(self) -> None:
        """Let go of everything, as the run is over."""
        if self._timer is not None:
            self._timer.cancel()
        for those in (self._new, self._prompts, self._released, self._leading, self._leaders):
            those.clear()

    # -- what goes ahead

    def _waits(self, prompt: _Prompt) -> bool:
        """True if the beginning of *prompt* is on its way; else it may go ahead with it itself."""
        if not prompt.profile.leads:
            return False
        leading, memory = self._leading, self._memory
        memory.ttl = prompt.profile.ttl
        for block in reversed(prompt.blocks) if leading else ():
            if block in leading:
                leading[block].append(prompt)
                return True
        beginning = self._beginnings.of(prompt)
        if beginning is not None and (
            self._queue.policy.warm == "always" or beginning.saved >= _SAVED
        ):
            waiting = self._beginnings.waiting
            cold = memory.count(prompt.blocks)
            prompt.leads = [b for b in prompt.blocks[cold:] if waiting[b] > 1]
            leading.update((block, []) for block in prompt.leads)
            self._leaders[prompt.call] = prompt
        return False

    def _release(self, prompt: _Prompt) -> None:
        """Let the calls go that wait for what *prompt* went ahead with."""
        leads, prompt.leads = prompt.leads, []
        for block in leads:
            self._released += [waiting.call for waiting in self._leading.pop(block, ())]
        if leads:
            self._queue.look()

    # -- what is known

    def _prompt(self, call: Call) -> _Prompt | None:
        """The borders in the prompt of *call*; ``None`` if no provider keeps so little of one."""
        request = call.request
        if request is None or request.messages is None:
            return None
        profile = self._rule_of(request)
        if profile is None:
            return None
        tools = sum(map(len, request.sampling.tools))
        size = profile.least * _BYTES - tools
        link: Messages | None = request.messages
        while link is not None and size > 0:
            size -= 3 * link.size
            link = link.parent
        if size > 0:  # the texts are surely shorter
            return None
        borders = _borders(request.messages)
        base = hash((request.model, request.sampling.tools, request.sampling.schema))
        usable = [border for border in borders if border.tokens + tools // _BYTES >= profile.least]
        return _Prompt(call, usable, [hash((base, border.digest)) for border in usable], profile)

    def _tell(self, prompt: _Prompt) -> None:
        """Tell the request of *prompt*, which is to be sent, how the prompt is used again."""
        request = prompt.call.request
        assert request is not None and request.messages is not None
        memory, now = self._memory, self._memory.now()
        begun, since = _begun(request.messages)
        used = [
            self._use(border, block, now, border.message < begun)
            for border, block in zip(prompt.borders, prompt.blocks, strict=True)
        ]
        borders = tuple(border for border in used if border.sent or border.to_come)
        gap = now - since if begun else None
        begins = partial(self._release, prompt) if prompt.leads else None
        request.reuse = Reuse(borders, self._goes_on(prompt.call), gap, begun, begins)
        memory.note(prompt, request.reuse)
        request.messages.cache[_SENT] = now

    def _use(self, border: Border, block: int, now: float, own: bool) -> Border:
        """*border* with what is known of other prompts that begin so.

        It was seen once by the conversation itself if it is its *own*.
        """
        memory = self._memory
        to_come = self._beginnings.waiting[block]
        often, last = memory.prompts.get(block, (0, 0.0))
        often -= own
        sent = memory.sent.get(block)
        is_cached = sent is not None and now - sent <= memory.ttl
        gap = now - last if often > 0 and not to_come else None
        if often > 0 and not to_come:  # what has come twice is expected once more
            to_come = 1
        return Border(
            border.message,
            border.offset,
            border.digest,
            border.tokens,
            int(is_cached),
            to_come,
            gap,
        )

    def _goes_on(self, call: Call) -> bool | None:
        """Whether a later call will begin with the whole prompt of *call*."""
        if any(_continues(other, call) for other in islice(self._queue.incomplete, _LOOKED_AT)):
            return True
        frame = call.frame()
        if frame is None:  # the prompt has gone with it
            return None if call.away else False
        root = frame.root_of_prompt()
        body, counts = root.body() if root.body is not None else None, None
        own = frame.body() if frame.body is not None else None
        is_own = own is not None and own is body
        calls = max(  # in the conversation of the call
            self._memory.call_counts.get(root.address, 0) + 1, is_own * (call.identity.ordinal + 1)
        )
        _put(self._memory.call_counts, root.address, calls)
        if self._queue.coming[root.address]:
            return True
        if root.ended:
            return False
        if body is not None:
            with suppress(Exception):  # no graph can be made of it, or there are no graphs
                counts = body.counts()
        if counts is None:
            return None
        is_in_body = is_own and body is not None and call.file == body.file
        least, most = counts.remaining(calls, call.line if is_in_body else None)
        # A loop that may go on for ever is expected to go on; a typed answer may only be asked for
        # once more.
        endless = most is None and call.schema is None and not call.sampling.choices
        return True if least or endless else False if most == 0 else None


def _continues(other: Call, call: Call) -> bool:
    """True if the prompt of *other* goes on from that of *call*."""
    node, end = other.node, call.node
    if end is None:
        return False
    while node is not None and node.length > end.length:
        node = node.parent
    return node is end


def _begun(messages: Messages) -> tuple[int, float]:
    """The length in messages of an earlier request of this conversation, and its time."""
    link, steps = messages.parent, 64
    while link is not None and steps:
        sent = link.cache.get(_SENT)
        if sent is not None:
            assert isinstance(sent, float)
            return link.length, sent
        link, steps = link.parent, steps - 1
    return 0, 0.0


def _borders(messages: Messages) -> list[Border]:
    """The places in the prompt at which others may leave it: the ends of statements and messages.

    What was found is kept with each link, so that only what is new in a conversation is read.
    """
    fresh = list[Any]()
    link: Messages | None = messages
    while link is not None and _BORDERS not in link.cache:
        fresh.append(link)
        link = link.parent
    cached: Any = None if link is None else link.cache[_BORDERS]
    before, digest, size = ([], blake2b(digest_size=16), 0) if cached is None else cached
    for fresh_link in reversed(fresh):
        digest, own = digest.copy(), list[Border]()
        size = _read(fresh_link, digest, size, own)
        before = [*before[-_MOST_CACHED:], *own]
        fresh_link.cache[_BORDERS] = before, digest, size
    return list(before)


_MOST_CACHED = 256
"""The most borders of earlier messages that are considered."""


def _read(link: Messages, digest: Any, size: int, borders: list[Border]) -> int:
    """Continue *digest* with the message of *link*, and note the borders in it; returns the bytes.

    Only plain texts have borders inside.
    """
    outline, number = link.outline, link.length - 1
    plain = not (outline.media or outline.tool_calls or outline.tool_call_id)
    digest.update(f"\0{outline.role}\0{outline.name or ''}\0".encode("utf-8", "surrogatepass"))
    if not plain:
        digest.update(link.digest)
    text = link.message.content
    at, spans = 0, link.spans if plain else ()
    for length in spans[::2] or (len(text),):
        piece = text[at : at + length].encode("utf-8", "surrogatepass")
        digest.update(piece)
        at, size = at + length, size + len(piece)
        if length:
            borders.append(Border(number, at, digest.copy().digest(), size // _BYTES))
    if not borders:  # no text, but calls of tools
        borders.append(Border(number, at, digest.copy().digest(), size // _BYTES))
    return size
