"""The choice of candidates by score, shared prompts and coverage: a local search.

The exact choice is an integer program. This one begins with many candidates and with none, removes,
adds and exchanges single ones as long as that helps, and in small trees whole branches, too.

Invariant: ``value`` is the sum that the integer program maximizes, computed anew in the tests.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence

_LEAST = 1e-12
"""A smaller gain is none: it may be an error of rounding."""
_EXCHANGED = 200
"""Exchanges are tried among so many candidates at most."""
_AROUND = 4
"""The search begins with so many times the candidates that may be kept, those with the best scores.
"""
_STARTS = 24
"""Among so few candidates the search begins with each of them, too."""
_GROUPS = 100
"""In a tree with more branchings, no groups of candidates are tried."""


class Tree:
    """Candidates with their shares of the score, the steps of their prompts, and their kinds."""

    def __init__(
        self,
        scores: Sequence[float],
        steps: Sequence[Sequence[Hashable]],
        kinds: Sequence[Hashable],
        share: float,
        cover: float,
    ) -> None:
        self._scores, self._kinds = scores, kinds
        numbers: dict[tuple[int, Hashable], int] = {}
        self._paths: list[list[int]] = []
        for each in steps:
            node, path = -1, []
            for step in each:
                node = numbers.setdefault((node, step), len(numbers))
                path.append(node)
            self._paths.append(path)
        below: dict[int, set[int]] = {}
        for place, path in enumerate(self._paths):
            for node in path:
                below.setdefault(node, set()).add(place)
        for place, kind in enumerate(kinds):
            below.setdefault(-1 - kinds.index(kind), set()).add(place)
        self.groups = list(dict.fromkeys(frozenset(each) for each in below.values()))
        self._node_cost = share / max(len(numbers), 1)
        self._kind_gain = cover / max(len(set(kinds)), 1)

    def score(self, place: int) -> float:
        """The share of the score of the candidate at *place*."""
        return self._scores[place]

    def value(self, kept: Iterable[int]) -> float:
        """The value of keeping the candidates at these places."""
        places = list(kept)
        nodes = {node for place in places for node in self._paths[place]}
        kinds = {self._kinds[place] for place in places}
        score = sum(self._scores[place] for place in places)
        return score - self._node_cost * len(nodes) + self._kind_gain * len(kinds)

    def selection(self, width: int) -> set[int]:
        """The places of at least one and at most *width* candidates of nearly the highest value."""
        every = sorted(range(len(self._scores)), key=lambda place: -self._scores[place])
        starts: list[Iterable[int]] = [every[: _AROUND * width], ()]
        if len(every) <= _STARTS:
            starts += [(place,) for place in every]
        found = [_Selection(self, start) for start in starts]
        for each in found:
            each.improve(width)
        return max((each.kept for each in found), key=self.value)


class _Selection:
    """Some candidates of a tree, with how many of them need each node and are of each kind."""

    def __init__(self, tree: Tree, kept: Iterable[int]) -> None:
        self._tree, self.kept = tree, set[int]()
        self._nodes, self._kinds = Counter[int](), Counter[Hashable]()
        for place in kept:
            self._add(place)

    def improve(self, width: int) -> None:
        """Remove, add and exchange candidates as long as that helps, or there are too many."""
        while len(self.kept) > width:
            self._remove(max(self.kept, key=lambda place: (self._loss(place), -place)))
        while self._removed() or self._added(width) or self._exchanged() or self._regrouped(width):
            pass

    def _regrouped(self, width: int) -> bool:
        """Keep or drop several candidates under one node, if that helps; none alone may do so."""
        if len(self._tree.groups) > _GROUPS:
            return False
        before = set(self.kept)
        value = self._tree.value(before)
        for group in self._tree.groups:
            for wanted in self._variants(group, width):
                if wanted and self._tree.value(wanted) > value + _LEAST:
                    for place in self.kept - wanted:
                        self._remove(place)
                    for place in wanted - self.kept:
                        self._add(place)
                    return True
        return False

    def _variants(self, group: frozenset[int], width: int) -> Iterator[set[int]]:
        """Yield other selections: with none of *group*, its best, or one of the others less."""
        best = sorted(group, key=lambda place: -self._tree.score(place))
        rest = self.kept - group
        yield rest
        for count in range(1, len(best) + 1):
            wanted = rest | {*best[:count]}
            if len(wanted) <= width:
                yield wanted
            elif len(wanted) == width + 1:
                for place in rest:
                    yield wanted - {place}

    def _removed(self) -> bool:
        if len(self.kept) < 2:
            return False
        worst = max(self.kept, key=lambda place: (self._loss(place), -place))
        if self._loss(worst) <= _LEAST:
            return False
        self._remove(worst)
        return True

    def _added(self, width: int) -> bool:
        rest = [place for place in range(len(self._tree._scores)) if place not in self.kept]
        if not rest or len(self.kept) >= width:
            return False
        best = max(rest, key=lambda place: (self._gain(place), -place))
        if self.kept and self._gain(best) <= _LEAST:
            return False
        self._add(best)
        return True

    def _exchanged(self) -> bool:
        """Replace one candidate by another if that helps; the first exchange that does."""
        rest = [place for place in range(len(self._tree._scores)) if place not in self.kept]
        rest = sorted(rest, key=lambda place: -self._gain(place))[:_EXCHANGED]
        for place in sorted(self.kept, key=lambda place: (-self._loss(place), place))[:_EXCHANGED]:
            loss = self._loss(place)
            self._remove(place)
            for other in rest:
                if self._gain(other) + loss > _LEAST:
                    self._add(other)
                    return True
            self._add(place)
        return False

    def _gain(self, place: int) -> float:
        """By how much the value rises if *place* is kept, too."""
        tree = self._tree
        nodes = sum(self._nodes[node] == 0 for node in tree._paths[place])
        gain = tree._kind_gain if self._kinds[tree._kinds[place]] == 0 else 0.0
        return tree._scores[place] - tree._node_cost * nodes + gain

    def _loss(self, place: int) -> float:
        """By how much the value rises if *place* is kept no longer."""
        tree = self._tree
        nodes = sum(self._nodes[node] == 1 for node in tree._paths[place])
        gain = tree._kind_gain if self._kinds[tree._kinds[place]] == 1 else 0.0
        return tree._node_cost * nodes - tree._scores[place] - gain

    def _add(self, place: int) -> None:
        self.kept.add(place)
        self._nodes.update(self._tree._paths[place])
        self._kinds[self._tree._kinds[place]] += 1

    def _remove(self, place: int) -> None:
        self.kept.remove(place)
        self._nodes.subtract(self._tree._paths[place])
        self._kinds[self._tree._kinds[place]] -= 1
