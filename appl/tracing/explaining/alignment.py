"""Pairs the calls of two runs.

Invariant: each call is in one pair; calls at the same address with the same content are always
paired, and a call that only moved is found by its content before it counts as changed.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass

from appl.tracing.reading.trace import RecordedCall

_OCCURRENCE = re.compile(r"\.\d+(?=/|\Z)")


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
    """The calls of *a* and *b* in pairs, in the order of *b*; calls of *a* alone come last.

    Calls are paired by, in this order: the same address and content; the same scope and content, so
    another ordinal; the same functions and content, so other occurrences; the same address; the
    same content anywhere.
    """
    unpaired, partner = dict.fromkeys(range(len(a))), dict[int, int]()
    for key in (_in_place, _in_scope, _in_function, _at_address, _of_content):
        _claim(a, b, unpaired, partner, key)
    pairs = [Pair(a[partner[i]] if i in partner else None, call) for i, call in enumerate(b)]
    return pairs + [Pair(a[i], None) for i in unpaired]


def _claim(
    a: Sequence[RecordedCall],
    b: Sequence[RecordedCall],
    unpaired: dict[int, None],
    partner: dict[int, int],
    key: Callable[[RecordedCall], Hashable],
) -> None:
    """Pair the calls with the same *key* that are not paired yet, in the order of both runs."""
    by_key = _by_key(a, unpaired, key)
    for i, call in enumerate(b):
        if i in partner:
            continue
        candidates = by_key.get(key(call))
        if candidates:
            partner[i] = candidates.popleft()
            del unpaired[partner[i]]


def _by_key(
    calls: Sequence[RecordedCall], unpaired: Iterable[int], key: Callable[[RecordedCall], Hashable]
) -> dict[Hashable, deque[int]]:
    by_key: dict[Hashable, deque[int]] = {}
    for i in unpaired:
        by_key.setdefault(key(calls[i]), deque()).append(i)
    return by_key


def _in_place(call: RecordedCall) -> Hashable:
    return call.address, call.content


def _in_scope(call: RecordedCall) -> Hashable:
    return (call.address.rpartition("/")[0], call.content) if call.content else call.address


def _in_function(call: RecordedCall) -> Hashable:
    return (_OCCURRENCE.sub("", call.address), call.content) if call.content else call.address


def _at_address(call: RecordedCall) -> Hashable:
    return call.address


def _of_content(call: RecordedCall) -> Hashable:
    return call.content or call.address
