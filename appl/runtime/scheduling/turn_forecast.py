"""The turns that a conversation will still take, as far as others of its kind have shown.

A turn is a question of an activation, with what went into its prompt since the one before. How
many are to come is estimated as survival is in medicine (the product-limit estimate): from all
activations of the kind, also those that still go on, in this run and in recorded ones. What the
graph of a program says of its calls is sure, and is kept to.

Invariant: nothing here reads a clock or does I/O; the scheduler and a simulator use it alike.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from itertools import repeat
from math import ceil, inf
from typing import Any, NamedTuple, Protocol

_FAR = 64
_UNLIKELY = 0.02
_FIRST_TURNS, _LONGER = 8, 2
_PRIOR = 0.5
_FEW_GAPS = 8
_GAPS = 200
_ROUNDING, _SLACK = 1.02, 0.02
_NEWS, _DRIFT = 1.1, 1.02
_MOST_RECORDED = 1000

LINGER = 0.8
"""The chance that one that ends keeps its room for one turn of the others more."""


class TurnBounds(NamedTuple):
    """The least and the most turns of a conversation."""

    least: int
    most: int


UNTOLD = TurnBounds(0, 1 << 30)
"""The turns of a program that tells nothing of them."""


class Course(NamedTuple):
    """The turns that a conversation is expected to take.

    For each of them ``turns`` has the number of growths until then, and the chance that room is
    taken. ``chances`` is the sum of these chances, ``growths`` that of growths times chance.
    """

    turns: Sequence[tuple[float, float]]
    chances: float
    growths: float


class TurnMemory(Protocol):
    """The turns of the conversations of earlier runs, stored outside of the process."""

    def load(self) -> Mapping[str, Mapping[str, Any]]:
        """The records of all kinds by name; none if they cannot be read. On any thread."""

    def keep(self, kinds: Mapping[str, KindHistory]) -> None:
        """Have *kinds* stored by the next ``store``."""

    def store(self) -> None:
        """Store what is to be kept, if it can be stored."""


class KindHistory:
    """The turns, the growth and the gaps of all activations of one kind.

    ``began[k]`` of them began turn k, ``ended[k]`` ended after it. ``away`` are those that are busy
    for longer than it has paid to keep their prompts.
    """

    __slots__ = (
        "_courses",
        "_drift",
        "_ends",
        "_events",
        "_keep",
        "_news",
        "_pause",
        "_pauses",
        "away",
        "began",
        "ended",
        "gaps",
        "growth",
    )

    def __init__(self) -> None:
        self.began: list[int] = []
        self.ended: list[int] = []
        self.growth: float | None = None
        self.gaps: deque[float] = deque(maxlen=_GAPS)
        self._pause, self._pauses, self.away = 0.0, 0, 0
        self._events = self._drift = self._ends = self._news = 0
        self._courses: dict[tuple[int, TurnBounds], Course] = {}
        self._keep: tuple[int, float, float] = 0, 0.0, 0.0

    def begin(self, turn: int, growth: float) -> bool:
        """Count an activation that begins *turn*, whose prompt has grown by *growth* tokens.

        Returns true if what is expected of the others has changed much.
        """
        longer = turn >= len(self.began)
        self._count(self.began, turn)
        if not turn:
            return False
        first = self.growth is None
        self.growth = growth if self.growth is None else 0.9 * self.growth + 0.1 * growth
        return first or (longer and not self._ends)

    def end(self, turns: int) -> bool:
        """Count an activation that has ended after so many *turns*; returns what ``begin`` does."""
        if not turns:
            return False
        self._count(self.ended, turns - 1)
        self._ends += 1
        if self._ends < _NEWS * self._news:
            return False
        self._news = self._ends
        self._courses.clear()
        return True

    def _count(self, counts: list[int], at: int) -> None:
        self._events += 1
        if at >= len(counts) or self._events > _DRIFT * self._drift:
            self._drift = self._events
            self._courses.clear()
        counts.extend([0] * (at + 1 - len(counts)))
        counts[at] += 1

    def paused(self, seconds: float) -> None:
        """Count a gap of *seconds* between an answer and the next turn."""
        if len(self.gaps) == _GAPS:
            self._pause -= self.gaps[0]
        self.gaps.append(seconds)
        self._pause += seconds
        self._pauses += 1

    def course(self, turn: int, told: TurnBounds = UNTOLD) -> Course:
        """The course of one that is certain to take *turn*, from there on.

        *told* are the turns that its program takes in all, as far as its graph tells.
        """
        found = self._courses.get((turn, told))
        if found is None:
            found = self._courses[turn, told] = _course(self.survival(turn, told))
        return found

    def survival(self, turn: int, told: TurnBounds = UNTOLD) -> Sequence[float]:
        """The chances that *turn*, which is certain, and each of those behind it come.

        What the graph is sure of holds; in between count those that have taken turns, and before
        anybody has ended, as many more may come as anybody has taken.
        """
        least, most = told
        most = min(turn + _FAR, max(most, turn + 1))
        if not self._ends:
            guess = max(_FIRST_TURNS, _LONGER * len(self.began), least)
            return [1.0] * (min(guess, most) - turn)
        found, chance = list[float](), 1.0
        while chance > _UNLIKELY and turn < most:
            found.append(chance)
            turn += 1
            chance *= 1.0 if turn < least else 1 - self._hazard(turn - 1)
        return found

    def _hazard(self, turn: int) -> float:
        """The chance that *turn* is the last; those that have yet to decide do not count."""
        ended, went_on = _at(self.ended, turn), _at(self.began, turn + 1)
        return (ended + _PRIOR / (_FIRST_TURNS + turn)) / (ended + went_on + _PRIOR)

    def keep_s(self, recompute_s: float) -> float:
        """The time for which it pays to keep a prompt that takes *recompute_s* to compute again.

        Keeping it costs its room for that time, dropping it costs computing it: whichever stop
        was the cheapest over all gaps so far. Those who are away count as if they never came back,
        or the first gaps to end, which are the short ones, would stand for all.
        """
        count = len(self.gaps) + self.away
        if count < _FEW_GAPS:
            return recompute_s
        known, limit, seconds = self._keep
        near = limit / _NEWS <= recompute_s <= limit * _NEWS
        if not near or self._pauses + self.away - known > (_NEWS - 1) * count:
            seconds = best_stop([*sorted(self.gaps), *repeat(inf, self.away)], recompute_s)
            self._keep = self._pauses + self.away, recompute_s, seconds
        return seconds

    def mean_gap_s(self) -> float:
        """The mean gap, 0 while none is known."""
        return self._pause / len(self.gaps) if self.gaps else 0.0

    def record(self) -> dict[str, object]:
        """The history as plain data; of very many activations only their shares are kept."""
        share = min(1.0, _MOST_RECORDED / max([1, *self.began[:1]]))
        return {
            "began": [ceil(share * count) for count in self.began],
            "ended": [ceil(share * count) for count in self.ended],
            "growth": self.growth,
            "gaps": [round(gap, 4) for gap in list(self.gaps)],
        }

    def add(self, record: Mapping[str, Any]) -> None:
        """Add the history of a recorded run; ``ValueError`` if it is none."""
        for own, other in ((self.began, record["began"]), (self.ended, record["ended"])):
            own.extend([0] * (len(other) - len(own)))
            for turn, count in enumerate(other):
                own[turn] += int(count)
        if self.growth is None and record["growth"] is not None:
            self.growth = float(record["growth"])
        for gap in record["gaps"]:
            self.paused(float(gap))
        self._ends = self._news = sum(self.ended)
        self._events = self._drift = self._ends + sum(self.began)
        self._courses.clear()


def _course(survival: Sequence[float]) -> Course:
    """The course of one whose chances to come to each turn are *survival*.

    Those that end have not left yet when others take their next turn: the paces differ. Without
    this they would make room a turn too early.
    """
    turns, left = list[tuple[float, float]](), 1.0
    for at, chance in enumerate((*survival, 0.0)):
        lingers = LINGER * max(0.0, left - chance)
        there = chance + lingers
        turns.append(((chance * at + lingers * (at - 1)) / there if there else 0.0, there))
        left = chance
    chances = sum(chance for _, chance in turns)
    return Course(turns, chances, sum(growths * chance for growths, chance in turns))


def best_stop(gaps: Sequence[float], recompute_s: float) -> float:
    """The time after which a prompt is dropped at the least cost, over sorted *gaps*.

    A gap that is shorter costs itself, a longer one that time and *recompute_s*.
    """
    best, seconds, below = recompute_s, 0.0, 0.0
    for number, gap in enumerate(gaps, 1):
        if gap > recompute_s:
            break
        below += gap
        cost = (below + (len(gaps) - number) * (gap + recompute_s)) / len(gaps)
        if cost < best:
            best, seconds = cost, gap
    return _ROUNDING * seconds + _SLACK * recompute_s


def _at(counts: Sequence[int], at: int) -> int:
    return counts[at] if at < len(counts) else 0
