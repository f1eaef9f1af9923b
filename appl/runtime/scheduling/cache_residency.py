"""Cache residency: the prompts that the server's cache should keep between two calls.

A cache that drops what was used least recently is bad for conversations that go on by turns and are
together larger than the cache: each has been dropped when its next turn comes. So the prompt of an
activation keeps its room until the activation asks again, with as much more as it will come to need
(see ``DemandForecast``). Where there is no room for all, those that began first go on, and the
others wait.

Invariant: everything here runs on the I/O loop; a prompt that is kept counts as admitted, until it
is released once.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from appl.runtime.scheduling.demand_forecast import Age, DemandForecast, activation_of
from appl.runtime.scheduling.prefixes import Cache, Footprint
from appl.runtime.scheduling.timers import Clock

if TYPE_CHECKING:
    from appl.runtime.answers.call import Call

_FEW = 64

_Whose = tuple[DemandForecast, str]
"""A run's forecast of the server, and the address of an activation there."""


@dataclass(slots=True, eq=False)
class _KeptPrompt:
    """The latest prompt of an activation that goes on; room is kept for it ``until`` then."""

    whose: _Whose
    call: Call
    each: Footprint
    age: Age
    until: float

    def __lt__(self, other: _KeptPrompt) -> bool:
        return self.age > other.age  # the youngest is first in a heap


class Residents:
    """The activations of all runs that go on after an answer, and whose prompts *cache* keeps.

    Room is kept for ``keep_s`` seconds of *clock* at most: if an activation does something else for
    longer, such as a slow tool, its prompt is computed again if others need the room.
    """

    def __init__(self, cache: Cache, clock: Clock, keep_s: float = 1.0) -> None:
        self._cache, self._clock, self._keep_s = cache, clock, keep_s
        self._kept: OrderedDict[_Whose, _KeptPrompt] = OrderedDict()  # first to lapse first
        self._youngest: list[_KeptPrompt] = []
        self._unswept = 0

    def keep(self, forecast: DemandForecast, call: Call, each: Footprint) -> None:
        """Keep the room of the answered *call* if its activation goes on; else release it."""
        self._unswept += 1
        if not each.admitted:
            return
        if not _still_runs(call):
            self._cache.release(each)
            return
        whose = forecast, activation_of(call)
        self._drop(whose)
        until = self._clock.now() + self._keep_s
        kept = self._kept[whose] = _KeptPrompt(whose, call, each, forecast.age_of(call), until)
        self._expect(kept)
        heapq.heappush(self._youngest, kept)
        if self._unswept > _FEW + len(self._kept):  # else ended ones stay where room is never short
            self._tidy()

    def ask_again(self, forecast: DemandForecast, call: Call) -> None:
        """Release what the activation of *call* kept: the call brings a prompt of its own."""
        self._drop((forecast, activation_of(call)))

    def take_back(self, forecast: DemandForecast, call: Call) -> None:
        """Note that *call* will not come: its activation may need less than expected."""
        kept = self._kept.get((forecast, activation_of(call)))
        if kept is not None:
            self._expect(kept)

    def make_room(self, age: Age, each: Footprint, tokens: int | None) -> bool:
        """Make room for *each*, of *age*, by having younger ones give way; false if in vain.

        In all there is room for so many *tokens*.
        """
        fits = self._cache.fits
        if fits(each, tokens):
            return True
        self._sweep()
        while not fits(each, tokens):
            # The heap is not changed when something is released: stale entries are dropped here.
            while self._youngest and not self._is_kept(self._youngest[0]):
                heapq.heappop(self._youngest)
            if not self._youngest or self._youngest[0].age <= age:
                return False
            self._drop(heapq.heappop(self._youngest).whose)
        return True

    def lapses(self) -> float | None:
        """The time at which the next kept room lapses by itself; ``None`` if none is kept."""
        return next(iter(self._kept.values())).until if self._kept else None

    def let_go(self, forecast: DemandForecast | None = None) -> None:
        """Release all kept room of the run that has *forecast*, or of all runs."""
        for whose in list(self._kept):
            if forecast is None or whose[0] is forecast:
                self._drop(whose)
        self._tidy()

    def _expect(self, kept: _KeptPrompt) -> None:
        """Reduce the expected growth: a part of the forecast may have been taken back since."""
        more, each = kept.each.more, kept.each
        if more:
            self._cache.expect(each, min(more, kept.whose[0].more(kept.call, each)))

    def _sweep(self) -> None:
        """Release what has lapsed, and now and then what ended without asking again."""
        now = self._clock.now()
        while self._kept and next(iter(self._kept.values())).until <= now:
            self._drop(next(iter(self._kept)))
        if 4 * self._unswept >= len(self._kept):
            self._tidy()

    def _tidy(self) -> None:
        """Release what ended without asking again, and rebuild the heap without stale entries."""
        self._unswept = 0
        for whose in [at for at, kept in self._kept.items() if not _still_runs(kept.call)]:
            self._drop(whose)
        self._youngest = list(self._kept.values())
        heapq.heapify(self._youngest)

    def _is_kept(self, kept: _KeptPrompt) -> bool:
        return self._kept.get(kept.whose) is kept

    def _drop(self, whose: _Whose) -> None:
        kept = self._kept.pop(whose, None)
        if kept is not None:
            self._cache.release(kept.each)


def _still_runs(call: Call) -> bool:
    """True if the activation that issued *call* still runs, and so may ask again."""
    frame = call.frame()
    return frame is not None and not frame.ended
