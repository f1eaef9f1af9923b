"""Links from each number to a few others, kept in two arrays.

Invariant: the links of number *n* are ``all[ends[n] : ends[n + 1]]``.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from itertools import accumulate


class Links:
    """The links of each number, added in the order of the numbers."""

    def __init__(self) -> None:
        self.ends, self.all = array("q", [0]), array("q")

    @classmethod
    def sized(cls, counts: Iterable[int]) -> Links:
        """Links with these counts for each number, all of them still 0."""
        links = cls()
        links.ends.extend(accumulate(counts))
        links.all = array("q", [0]) * links.ends[-1]
        return links

    def __len__(self) -> int:
        return len(self.ends) - 1

    def add(self, others: Iterable[int]) -> None:
        """Add the links of the next number."""
        self.all.extend(others)
        self.ends.append(len(self.all))

    def of(self, number: int) -> Sequence[int]:
        """The links of *number*."""
        return self.all[self.ends[number] : self.ends[number + 1]]

    def turned(self) -> Links:
        """The same links in the other direction."""
        counts = array("q", [0]) * len(self)
        for other in self.all:
            counts[other] += 1
        links = Links.sized(counts)
        free, into, first = links.ends[:-1], links.all, 0
        for number, until in enumerate(self.ends[1:]):
            for other in self.all[first:until]:
                into[free[other]] = number
                free[other] += 1
            first = until
        return links
