"""Whose prompts the server's cache should keep between two calls, because they go on.

A cache that drops what was used least recently serves conversations badly that go on by turns and
are together larger than it is: each has been dropped when its next turn comes. So what an
activation has asked keeps its room until it asks again, with as much more as it will come to need:
what its calls that wait for answers will say, or what others of its kind grew by. Where there is no
room for all, those that began first go on, and the others wait.

Invariant: everything here runs on the I/O loop; what is kept is counted as admitted, until it is
let go of once.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count

from appl.runtime.answers.call import Call
from appl.runtime.scheduling.order import program_of
from appl.runtime.scheduling.prefixes import Footprint, Prefixes
from appl.runtime.scheduling.timers import Clock

Age = tuple[int, int]
"""When the program of a call, then its activation, was first seen: smaller is older."""

_MOST = 65_536
_ANSWER = 256
_FEW = 64
_FORGET = 0.99  # an activation that grew much more than others is halved after 70 of them


@dataclass(slots=True)
class _Seen:
    """When a program or an activation was first seen, and how many tokens it began to ask with.

    The first ``parts`` parts of its prompt, of which some wait for answers, have ``letters``
    letters and will have ``answers`` tokens of answers.
    """

    number: int
    tokens: int = 0
    latest: Sequence[int] = ()
    parts: int = 0
    letters: int = 0
    answers: int = 0

    def goes_on(self, blocks: Sequence[int]) -> bool:
        """Whether a prompt of *blocks* begins with the one before it."""
        last = len(self.latest) - 1
        return 0 <= last < len(blocks) and blocks[last] == self.latest[last]


@dataclass(slots=True, eq=False)
class _Kept:
    """The latest prompt of an activation that goes on; room is kept for it ``until`` then."""

    call: Call
    each: Footprint
    age: Age
    until: float

    def __lt__(self, other: _Kept) -> bool:
        return self.age > other.age  # the youngest is first in a heap


class Residents:
    """The activations that have asked and go on, whose prompts the cache of *prefixes* keeps.

    Room is kept for ``keep_s`` seconds of *clock* at most: who does something else for longer, as
    a slow tool, has its prompt computed again if others need the room.
    """

    def __init__(self, prefixes: Prefixes, clock: Clock, keep_s: float = 1.0) -> None:
        self._prefixes, self._clock, self._keep_s = prefixes, clock, keep_s
        self._kept: OrderedDict[str, _Kept] = OrderedDict()  # by activation, first to lapse first
        self._youngest: list[_Kept] = []
        self._seen: OrderedDict[str, _Seen] = OrderedDict()
        self._grown: dict[str, float] = {}
        self._numbers = count()
        self._unswept = 0
        self._letters = self._tokens = 0

    def foresees(self, call: Call) -> None:
        """*call* waits for a part of its prompt: its activation will go on with it."""
        node, answer = call.node, call.sampling.max_tokens or _ANSWER
        seen = self._first_seen(activation_of(call))
        end = node.length if node is not None else 0
        while node is not None and node.length > seen.parts:
            if isinstance(node.part, str):
                seen.letters += len(node.part)
            else:
                seen.answers += answer
            node = node.parent
        seen.parts = max(seen.parts, end)

    def arrives(self, call: Call, each: Footprint) -> None:
        """*call* with the prompt *each* is looked at for the first time."""
        self._first_seen(program_of(call))
        activation = activation_of(call)
        kind, tokens = _kind_of(activation), len(each.ids) + each.answers
        seen = self._first_seen(activation)
        grown = self._grown.get(kind, 0.0)
        if not seen.tokens:
            self._measure(call, each)
        if not seen.goes_on(each.blocks):
            seen.tokens = tokens
            self._grown[kind] = grown * _FORGET
        elif tokens - seen.tokens > grown:
            self._grown[kind] = tokens - seen.tokens
        seen.latest = each.blocks
        foreseen = seen.answers + seen.letters * self._tokens // max(1, self._letters)
        each.more = max(0, int(self._grown[kind]) - (tokens - seen.tokens), foreseen - tokens)

    def _measure(self, call: Call, each: Footprint) -> None:
        """How many tokens texts have, from the prompt of *call*."""
        link = call.request.messages if call.request is not None else None
        while link is not None:
            self._letters += link.size
            link = link.parent
        self._tokens += len(each.ids)

    def age_of(self, call: Call) -> Age:
        """How old the program and the activation of *call* are."""
        of_program, own = self._first_seen(program_of(call)), self._first_seen(activation_of(call))
        return of_program.number, own.number

    def _first_seen(self, address: str) -> _Seen:
        found = self._seen.get(address)
        if found is None:
            found = self._seen[address] = _Seen(next(self._numbers))
            if len(self._seen) > _MOST:
                self._seen.popitem(last=False)
        else:
            self._seen.move_to_end(address)
        return found

    def keep(self, call: Call, each: Footprint) -> None:
        """*call* was answered: its room is kept if its activation goes on, and let go of if not."""
        self._unswept += 1
        if not each.admitted:
            return
        if not _still_runs(call):
            self._prefixes.release(each)
            return
        activation = activation_of(call)
        self._drop(activation)
        kept = _Kept(call, each, self.age_of(call), self._clock.now() + self._keep_s)
        self._kept[activation] = kept
        heapq.heappush(self._youngest, kept)
        if self._unswept > _FEW + len(self._kept):  # also where nobody ever needs their room
            self._tidy()

    def asks_again(self, call: Call) -> None:
        """*call* came: it brings a prompt of its own in place of what its activation kept."""
        self._drop(activation_of(call))

    def make_room(self, age: Age, each: Footprint) -> bool:
        """Whether there is room for *each*, which is so old, once younger ones give way."""
        fits = self._prefixes.fits
        if fits(each):
            return True
        self._sweep()
        while not fits(each):
            while self._youngest and not self._is_kept(self._youngest[0]):
                heapq.heappop(self._youngest)
            if not self._youngest or self._youngest[0].age <= age:
                return False
            self._drop(activation_of(heapq.heappop(self._youngest).call))
        return True

    def lapses(self) -> float | None:
        """When the next room that is kept lapses by itself; ``None`` when none is."""
        return next(iter(self._kept.values())).until if self._kept else None

    def let_go(self) -> None:
        """Keep room for nobody any more."""
        for activation in list(self._kept):
            self._drop(activation)

    def _sweep(self) -> None:
        """Let go of what has lapsed, and now and then of what ended without asking again."""
        now = self._clock.now()
        while self._kept and next(iter(self._kept.values())).until <= now:
            self._drop(next(iter(self._kept)))
        if 4 * self._unswept >= len(self._kept):
            self._tidy()

    def _tidy(self) -> None:
        """Forget what ended without asking again, and what others have taken the place of."""
        self._unswept = 0
        for activation in [at for at, kept in self._kept.items() if not _still_runs(kept.call)]:
            self._drop(activation)
        self._youngest = list(self._kept.values())
        heapq.heapify(self._youngest)

    def _is_kept(self, kept: _Kept) -> bool:
        return self._kept.get(activation_of(kept.call)) is kept

    def _drop(self, activation: str) -> None:
        kept = self._kept.pop(activation, None)
        if kept is not None:
            self._prefixes.release(kept.each)


def activation_of(call: Call) -> str:
    """The address of the activation that issued *call*."""
    return call.address.rpartition("/")[0]


def _kind_of(activation: str) -> str:
    """``/main/agent`` of ``/main.0/agent.7``: what activations of the same functions share."""
    return "/".join(each.rpartition(".")[0] for each in activation.split("/"))


def _still_runs(call: Call) -> bool:
    """Whether the activation that issued *call* still runs, and so may ask again."""
    frame = call.frame()
    return frame is not None and not frame.ended
