"""The demand forecast: the age of activations, and the growth of their prompts that is to come.

The next calls of an activation are known where they wait for answers already: their prompts show
how it goes on. Where a program reads each answer first, the growth is learned from activations of
the same kind.

Invariant: everything here runs on the I/O loop; the forecast of a call that then went elsewhere is
taken back.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from appl.runtime.scheduling.order import program_of
from appl.runtime.scheduling.prefixes import Footprint

if TYPE_CHECKING:
    from appl.runtime.answers.call import Call

Age = tuple[int, int]
"""The numbers of the program of a call and of its activation; smaller is older."""

_MOST = 65_536
_ANSWER = 256
_FORGET = 0.99  # an activation that grew much more than others is halved after 70 of them


class _Coming(NamedTuple):
    """A prompt to come, of so many parts, some of which wait for answers.

    The other parts have ``letters`` letters, and the answers will have ``answers`` tokens.
    """

    parts: int
    letters: int
    answers: int
    address: str


@dataclass(slots=True)
class _Seen:
    """A program or an activation: its number in the order of coming, and its first prompt's tokens.

    ``coming`` are the prompts that it will ask with, shorter ones first.
    """

    number: int
    tokens: int = 0
    latest: Sequence[int] = ()
    coming: list[_Coming] = field(default_factory=list)

    def goes_on(self, blocks: Sequence[int]) -> bool:
        """True if a prompt of *blocks* begins with the one before it."""
        last = len(self.latest) - 1
        return 0 <= last < len(blocks) and blocks[last] == self.latest[last]


class DemandForecast:
    """The forecast of what the activations of one run will need of one server.

    They are numbered with *numbers*. Without *foresees* it only learns: the naive twin.
    """

    def __init__(self, numbers: Iterator[int], foresees: bool = True) -> None:
        self._numbers, self._foresees = numbers, foresees
        self._seen: OrderedDict[str, _Seen] = OrderedDict()
        self._grown: dict[str, float] = {}
        self._letters = self._tokens = 0

    def foresee(self, call: Call) -> None:
        """Note that *call*, which waits for a part of its prompt, will come."""
        node, answer = call.node, call.sampling.max_tokens or _ANSWER
        if node is None or not self._foresees:
            return
        coming, length = self._first_seen(activation_of(call)).coming, node.length
        at = bisect_right(coming, length, key=_parts)
        parts, letters, answers, _ = coming[at - 1] if at else _NOTHING
        # Only the parts beyond the longest known prompt before it are counted: an agent of many
        # steps would otherwise count its whole chain at each of them.
        while node is not None and node.length > parts:
            if isinstance(node.part, str):
                letters += len(node.part)
            else:
                answers += answer
            node = node.parent
        coming.insert(at, _Coming(length, letters, answers, call.address))

    def take_back(self, call: Call) -> None:
        """Note that *call* will not come."""
        seen = self._seen.get(activation_of(call))
        if seen is None or call.node is None:
            return
        coming, length = seen.coming, call.node.length
        at = bisect_left(coming, length, key=_parts)
        while at < len(coming) and coming[at].parts == length:
            if coming[at].address == call.address:
                del coming[at]
                return
            at += 1

    def arrive(self, call: Call, each: Footprint) -> None:
        """Look at *call* with the prompt *each* for the first time."""
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
        if seen.coming and call.node is not None:
            come = bisect_right(seen.coming, call.node.length, key=_parts)
            del seen.coming[: max(0, come - 1)]  # of those that have come the longest is enough
        each.more = self.more(call, each)

    def more(self, call: Call, each: Footprint) -> int:
        """The number of tokens that the activation of *call* will come to need besides *each*."""
        activation = activation_of(call)
        seen, tokens = self._first_seen(activation), len(each.ids) + each.answers
        _, letters, answers, _ = seen.coming[-1] if seen.coming else _NOTHING
        foreseen = answers + letters * self._tokens // max(1, self._letters)
        learned = int(self._grown.get(_kind_of(activation), 0.0)) - (tokens - seen.tokens)
        return max(0, learned, foreseen - tokens)

    def age_of(self, call: Call) -> Age:
        """The age of the program and of the activation of *call*."""
        of_program, own = self._first_seen(program_of(call)), self._first_seen(activation_of(call))
        return of_program.number, own.number

    def _measure(self, call: Call, each: Footprint) -> None:
        """Learn from the prompt of *call* how many letters a token has."""
        link = call.request.messages if call.request is not None else None
        while link is not None:
            self._letters += link.size
            link = link.parent
        self._tokens += len(each.ids)

    def _first_seen(self, address: str) -> _Seen:
        found = self._seen.get(address)
        if found is None:
            found = self._seen[address] = _Seen(next(self._numbers))
            if len(self._seen) > _MOST:
                self._seen.popitem(last=False)
        else:
            self._seen.move_to_end(address)
        return found


_NOTHING = _Coming(0, 0, 0, "")


def _parts(coming: _Coming) -> int:
    return coming.parts


def activation_of(call: Call) -> str:
    """The address of the activation that issued *call*."""
    return call.address.rpartition("/")[0]


def _kind_of(activation: str) -> str:
    """The kind of an activation: ``/main/agent`` for ``/main.0/agent.7``."""
    return "/".join(each.rpartition(".")[0] for each in activation.split("/"))
