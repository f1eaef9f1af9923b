"""Tree search: which candidates of a level to go on with, so that they share their prompts.

A tree search asks for many continuations of many unfinished answers, and goes on with the best. A
server computes what their prompts have in common once, as long as its cache has room. ``keep``
gives up a little of the scores for more of that (after ETS, Hooper and others, arXiv 2502.13575).

Invariant: the result is a function of the arguments alone, so a replay keeps the same candidates.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TypeVar, cast

from appl.errors import InvalidOption
from appl.parts.search.selection import Tree
from appl.prompt.chain import PromptNode
from appl.runtime.concurrency.future import finished
from appl.runtime.prompts.prompt_context import PromptContext

__all__ = ["keep"]

T = TypeVar("T")

_ALIKE = 0.05
"""The cosine distance up to which two vectors mean the same, as in the paper."""


def keep(
    candidates: Iterable[T],
    scores: Iterable[float],
    width: int,
    *,
    share: float = 0.0,
    cover: float = 1.0,
    alike: Callable[[T], Hashable] | Iterable[Sequence[float]] | None = None,
    path: Callable[[T], Iterable[Hashable]] | None = None,
) -> list[T]:
    """At most *width* of the *candidates*, best first, with high *scores* and shared prompts.

    Without *share* they are those with the highest scores. With it, those are kept for which the
    sum of three terms is largest::

        scores of those kept           (0 for the lowest, all together 1)
      - share * nodes of their prompts (as a part of the nodes of all candidates)
      + cover * kinds among them       (as a part of all kinds)

    They are often fewer than *width*. Ask for several continuations of each then, so that the
    search is as wide as before. With a *share* up to 2 most candidates are kept, as the two other
    terms can be as large; with 3 few. Measure what it does for a search: on the embedded engine 2
    saved a seventh of the time, and 3 saved 45% at the same quality; keeping the three best without
    *share* did as well (``benchmarks/results/tree-search.txt``).

    The prompt of a candidate is a path in a tree: of a ``PromptContext`` its nodes, of a text its
    lines, of a tuple or list its items; *path* names the steps of anything else. Two candidates are
    of one kind if they mean the same: *alike* is a function whose value is then the same, or the
    vectors of the candidates, as ``appl.embed`` makes them. By default they are alike if their
    last steps say the same words. Raises ``InvalidOption``.
    """
    found = list(finished(candidates))
    values = _values(scores, len(found))
    _check(width, share, cover)
    if len(found) <= 1 or share == 0:
        order = sorted(range(len(found)), key=lambda place: -values[place])
        return [found[place] for place in order[:width]]
    steps = [_steps(candidate, path) for candidate in found]
    tree = Tree(_shares(values), steps, _kinds(found, steps, alike), share, cover)
    kept = tree.selection(width)
    return [found[place] for place in sorted(kept, key=lambda place: -values[place])]


def _values(scores: Iterable[float], count: int) -> list[float]:
    """The scores as numbers."""
    given = list(finished(scores))
    if len(given) != count:
        raise InvalidOption(f"keep(): {count} candidates have {len(given)} scores")
    try:
        values = [float(score) for score in given]
    except (TypeError, ValueError, OverflowError):
        raise InvalidOption(f"keep(scores={given!r:.80}): scores are numbers") from None
    if not all(map(math.isfinite, values)):
        raise InvalidOption(
            "keep(): a score is no finite number; give one that failed the lowest score, or leave "
            "it out"
        )
    return values


def _check(width: int, share: float, cover: float) -> None:
    if not isinstance(width, int) or isinstance(width, bool) or width < 1:
        raise InvalidOption(f"keep(width={width!r:.40}) is a number of candidates, at least 1")
    for name, value in (("share", share), ("cover", cover)):
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not 0 <= value < math.inf:
            raise InvalidOption(f"keep({name}={value!r:.40}) is a number, and not negative")


def _shares(values: Sequence[float]) -> list[float]:
    """The parts of one that *values* are above the lowest; equal ones have equal parts."""
    largest = max(map(abs, values)) or 1.0  # differences of the largest floats have no sum
    least = min(values) / largest
    above = [value / largest - least for value in values]
    total = math.fsum(above)
    return [part / total if total > 0 else 1 / len(values) for part in above]


def _steps(candidate: object, path: Callable[[T], Iterable[Hashable]] | None) -> list[Hashable]:
    """The steps of the prompt of *candidate*, the first one first."""
    if path is not None:
        return [_step(step) for step in finished(path(cast(T, candidate)))]
    if isinstance(candidate, PromptContext):
        nodes: list[Hashable] = []
        node: PromptNode | None = candidate.prompt.tip
        while node is not None:
            nodes.append((node.role, node.part if isinstance(node.part, str) else node))
            node = node.parent
        return nodes[::-1]
    if isinstance(candidate, tuple | list):
        return [_step(step) for step in candidate]
    text = finished(candidate)
    if isinstance(text, str):
        return list(text.splitlines())
    raise InvalidOption(
        f"keep(): the prompt of {candidate!r:.80} is not known; candidates are texts, tuples of "
        "steps or PromptContexts, or keep(path=...) names the steps of each"
    )


def _kinds(
    found: Sequence[T],
    steps: Sequence[Sequence[Hashable]],
    alike: Callable[[T], Hashable] | Iterable[Sequence[float]] | None,
) -> list[Hashable]:
    """The kind of each candidate: the same value for those that mean the same.

    A vector is of the kind of the first one before it that is near, or else of its own.
    """
    if alike is None:
        return [_words(each[-1]) if each else None for each in steps]
    if callable(alike):
        return [_step(alike(candidate)) for candidate in found]
    vectors = list(finished(alike))
    if len(vectors) != len(found):
        raise InvalidOption(f"keep(): {len(found)} candidates have {len(vectors)} vectors")
    units: list[list[float]] = []
    for vector in vectors:
        try:
            parts = [float(part) for part in vector]
        except (TypeError, ValueError, OverflowError):
            parts = []
        length = math.hypot(*parts)
        if not parts or len(parts) != len(vectors[0]) or not math.isfinite(length):
            raise InvalidOption(
                f"keep(alike={vector!r:.80}): a function of a candidate, or for each candidate a "
                "vector of finite numbers, all of one length"
            )
        units.append([part / length for part in parts] if length else parts)
    leaders: list[int] = []
    clusters: list[Hashable] = []
    for place, unit in enumerate(units):
        near = (
            leader
            for leader in leaders
            if 1 - math.fsum(map(float.__mul__, unit, units[leader])) <= _ALIKE
        )
        leader = next(near, place)
        if leader == place:
            leaders.append(place)
        clusters.append(leader)
    return clusters


def _step(value: object) -> Hashable:
    """*value* itself, or what it says where it cannot be compared as a key."""
    value = finished(value)
    try:
        hash(value)
    except TypeError:
        return repr(value)
    return value


def _words(step: Hashable) -> Hashable:
    if isinstance(step, tuple) and isinstance(step[-1], PromptNode):
        return step
    return " ".join(str(step).casefold().split())
