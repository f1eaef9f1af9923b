"""Pairs the calls of two runs.

Invariant: each call is in one pair; calls at the same address with the same content are always
paired, and a call that only moved is found by its content before it counts as changed.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

from appl.tracing.reading.trace import RecordedCall

_OCCURRENCE = re.compile(r"\.\d+(?=/|\Z)")


_KEYS: tuple[Callable[[RecordedCall], Hashable], ...] = (
    lambda call: (call.address, call.content),
    lambda call: (call.address.rpartition("/")[0], call.content) if call.content else call.address,
    lambda call: (
        (_OCCURRENCE.sub("", call.address), call.content) if call.content else call.address
    ),
    lambda call: call.address,
    lambda call: call.content or call.address,
)
"""The keys by which calls are paired, in this order: the same address and content; the same scope
and content, so another ordinal; the same functions and content, so other occurrences; the same
address; the same content anywhere."""


@dataclass(frozen=True, slots=True)
class Pair:
    """One call in two runs; ``None`` where a run does not have it."""

    a: RecordedCall | None
    b: RecordedCall | None

    @property
    def call(self) -> RecordedCall:
        """The call in the second run, or in the first if it is not in the second."""
        call = self.b or self.a
        assert call is not None
        return call

    @property
    def address(self) -> str:
        """Its address."""
        return self.call.address

    @property
    def moved(self) -> bool:
        """True if it is at another address in the second run."""
        return self.a is not None and self.b is not None and self.a.address != self.b.address


def aligned(a: Sequence[RecordedCall], b: Sequence[RecordedCall]) -> list[Pair]:
    """The calls of *a* and *b* in pairs, in the order of *b*; calls of *a* alone come last."""
    unpaired, partner = dict.fromkeys(range(len(a))), dict[int, int]()
    for key in _KEYS:
        by_key: dict[Hashable, deque[int]] = {}
        for i in unpaired:
            by_key.setdefault(key(a[i]), deque()).append(i)
        for i, call in enumerate(b):
            candidates = None if i in partner else by_key.get(key(call))
            if candidates:
                partner[i] = candidates.popleft()
                del unpaired[partner[i]]
    pairs = [Pair(a[partner[i]] if i in partner else None, call) for i, call in enumerate(b)]
    return pairs + [Pair(a[i], None) for i in unpaired]
