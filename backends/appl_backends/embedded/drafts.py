"""Drafts of answers: the tokens that are likely to come, and how many of them it pays to try.

Invariant: a draft decides no token. It says what a pass may compute in advance, and the engine
keeps of that what it would have chosen anyway.
"""

from __future__ import annotations

import bisect
import threading
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from appl_backends.embedded.products import small_products
from appl_backends.embedded.tokenizer import written_call

if TYPE_CHECKING:
    from appl.backend import Request, Sample
    from appl_backends.embedded.tokenizer import Encoded, Tokenizer

OWN, FOREIGN = 32, 4
"""The tokens of the first pass: of an answer at the same place, and of one at another place.

One of them is known, the others are tried."""
LONGEST = 64
REFUSALS, REST, LONGEST_REST = 2, 8, 64
"""After so many refusals in a row, if they cost more than was gained before, so many tokens have to
be as in the draft before it is tried again; twice as many each time that this happens once more."""
DEBT, CREDIT = 2.0, 4.0
"""The passes that drafts of a line may cost before they rest, and the most that they may have
gained in advance."""


def passes(tried: int) -> float:
    """The time that a pass takes longer with *tried* more tokens, in passes over one token.

    Measured on the shipped model at batch 1, with and without kernels for small products: a pass
    over 4 tokens takes 1.1 and 1.9, over 8 takes 1.8 and 2.3, over 32 takes 5.3 and 4.6.
    """
    return max(0.0, (tried - 2) / 7) if small_products() else 0.7 + tried / 11


@dataclass(slots=True)
class DraftPace:
    """The tokens of the next pass with a draft, as that of the last ones worked out.

    It doubles when all of a draft was right. Otherwise it halves, or is twice what was right if
    that is less.

    ``wait`` is the number of tokens that have to be as in the draft before it is tried; once drafts
    at the same place were right, they are tried together with the prompt. The answers to one line
    of a program share a pace: what one learns is of use to the next. ``balance`` is the number of
    passes that were saved of late, negative where drafts cost more than they saved.
    """

    own: bool
    length: int
    wait: int
    refusals: int = 0
    judged: bool = False
    balance: float = 0.0

    @classmethod
    def of(cls, own: bool) -> DraftPace:
        """The pace to begin with; *own* if the draft is of the same place in the program."""
        return cls(True, OWN, 1) if own else cls(False, FOREIGN, FOREIGN)

    def strays(self) -> None:
        """Begin short, as an answer is another than its draft before any was tried."""
        if not self.judged:
            self.length = FOREIGN

    def judge(self, tried: int, accepted: int) -> None:
        """Take note that of *tried* tokens so many were *accepted*."""
        self.judged = True
        saved = accepted - passes(tried)
        self.balance = min(self.balance + saved, CREDIT)
        if accepted == tried:
            self.length = min(2 * self.length, LONGEST)
            self.wait, self.refusals = 0 if self.own else 1, 0
            return
        self.length = max(FOREIGN, min(self.length // 2, 2 * accepted))
        self.refusals = 0 if saved >= 0 else self.refusals + 1
        if self.refusals:
            self.wait = max(self.wait, 1)
        if self.refusals >= REFUSALS and self.balance <= -DEBT:
            self.length, self.wait = FOREIGN, min(max(REST, 2 * self.wait), LONGEST_REST)
            self.balance = 0.0


class DraftCursor:
    """A place in the draft *ids*: where an answer is that has so far been compared with it."""

    __slots__ = ("_at", "_ids", "_last", "_places", "_same", "pace")

    def __init__(self, ids: Sequence[int], pace: DraftPace) -> None:
        self._ids, self.pace = ids, pace
        self._at = self._same = 0
        self._last: int | None = None
        self._places: dict[tuple[int, int], list[int]] | None = None

    def see(self, token: int) -> None:
        """Go on with *token*, the next one of the answer.

        Where it is another than in the draft, the draft goes on behind the nearest place that has
        the last two tokens; without one, as if one token had been replaced.
        """
        at, last, self._last = self._at, self._last, token
        self._at += 1
        if at < len(self._ids) and self._ids[at] == token:
            self._same += 1
            return
        self._same = 0
        self.pace.strays()
        if last is not None and (place := self._nearest((last, token))) is not None:
            self._at, self._same = place, 2

    def next(self, most: int) -> list[int]:
        """The next tokens to try, *most* at most; none while it does not pay."""
        if self._same < self.pace.wait:
            return []
        return list(self._ids[self._at : self._at + min(self.pace.length - 1, most)])

    def _nearest(self, pair: tuple[int, int]) -> int | None:
        """The place behind *pair* that is nearest to this one."""
        if self._places is None:
            self._places = defaultdict(list)
            for end, two in enumerate(pairwise(self._ids), 2):
                self._places[two].append(end)
        places = self._places.get(pair)
        if not places:
            return None
        right = bisect.bisect_left(places, self._at)
        return min(places[max(right - 1, 0) : right + 1], key=lambda end: abs(end - self._at))


class Drafts:
    """Makes the cursors of requests, and knows how the drafts of each line of programs did.

    The paces of the latest lines are kept.
    """

    MOST = 256

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._paces: dict[tuple[str, bool], DraftPace] = {}
        # Requests become tasks on threads of a pool, several at once.
        self._lock = threading.Lock()

    def cursors(self, request: Request, prompt: Encoded, tokens: int) -> list[DraftCursor]:
        """A cursor for each sample of *request* of which there is a draft.

        No draft is longer than an answer of so many *tokens* can be.
        """
        assert request.draft is not None, "it has a draft"
        pace = self.pace(request.address, request.draft.own)
        samples = request.draft.samples[: request.n]
        return [DraftCursor(self._ids(request, prompt, each, tokens), pace) for each in samples]

    def pace(self, address: str, own: bool) -> DraftPace:
        """The pace of the calls whose address is *address* but for the numbers in it."""
        names = (part.rpartition(".") for part in address.split("/"))
        key = "/".join(name or number for name, _, number in names), own
        with self._lock:
            found = self._paces.pop(key, None) or DraftPace.of(own)
            self._paces[key] = found
            if len(self._paces) > self.MOST:
                del self._paces[next(iter(self._paces))]
        return found

    def _ids(self, request: Request, prompt: Encoded, sample: Sample, tokens: int) -> list[int]:
        """The tokens with which the model would write *sample*."""
        known, most = self._tokenizer, tokens * self._tokenizer.longest
        if sample.tool_calls:
            call = written_call(sample.tool_calls[0])
            return [known.call, *known.encode(call[:most])[:tokens], known.end]
        ids = known.option(request.messages, prompt, sample.text[:most])[:tokens]
        return [*ids, known.end]
