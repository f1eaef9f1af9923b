"""``prefer="deadline"``: the cheapest backend with which a program is predicted to end in time.

What is to come is known from an earlier run of the program (which calls, which answers each waited
for, how long they were), or from its functions' graphs (how many calls follow on this prompt). Each
call that is placed has all that is to come planned anew: every call gets the cheapest backend, and
calls on paths that would end late get quicker ones, where a second costs least.

Invariant: a plan never chooses a backend that predicts an end after the deadline where another one
does not; if none ends in time, calls on the longest path get the quickest, and others the cheapest.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from math import inf, sqrt
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from appl.runtime.answers.call import Call
    from appl.runtime.answers.models import Spot

_MEASURED = 64
"""The last answers of a backend by which its duration is predicted."""
_AHEAD = 48
"""The most calls that are planned at once; those after them count by their share of the time."""
_PAIRS = 16
"""Up to so many calls, pairs of changes are tried, too."""
_SPREAD = 1.6
"""By how many standard deviations of its answers a backend is taken to be slower than usual, where
one call is left; where more follow each other, their deviations make up for each other in part.
"""
_STEADY = 0.005
"""A plan holds for so large a part of the time that is left, if no answer comes meanwhile."""
_LONG = 16
"""A plan of more calls holds, whatever comes, for one call in so many."""
_UNKNOWN = 1e24
"""The cost of a call whose price is not known: more than any known one."""
_UNSURE = 0.1
"""The standard deviation of a backend of which little is known, as a share of its duration."""


class ExpectedCall(NamedTuple):
    """A call of an earlier run: its ``tokens`` and ``seconds``, and the calls it waited for.

    ``delay`` are seconds between the last of those and its begin; ``place`` is who answered. What
    nobody measured is ``None``: tokens that no server counted, seconds of an answer from a record.
    """

    tokens: int | None
    prompt_tokens: int | None
    seconds: float | None
    place: str
    needs: tuple[str, ...]
    delay: float


class Forecast(NamedTuple):
    """What earlier runs of a program say of the next one.

    ``calls`` are those of the latest run by address, in the order of their begins; ``answers`` are
    the place, the tokens and the seconds of answers of runs before it, the oldest first.
    """

    calls: Mapping[str, ExpectedCall]
    answers: Sequence[tuple[str, int | None, float]] = ()


class Durations:
    """The measured durations of one backend's answers, as a line over their tokens."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, float]] = deque(maxlen=_MEASURED)

    def __bool__(self) -> bool:
        return bool(self._seen)

    def note(self, tokens: float, seconds: float) -> None:
        """Note an answer."""
        self._seen.append((tokens, seconds))

    def line(self) -> tuple[float, float, float, float]:
        """The usual tokens and seconds, the seconds a token more takes, and their deviation."""
        count = len(self._seen)
        usual = sum(tokens for tokens, _ in self._seen) / count
        mean = sum(seconds for _, seconds in self._seen) / count
        spread = sum((tokens - usual) ** 2 for tokens, _ in self._seen)
        shared = sum((tokens - usual) * (seconds - mean) for tokens, seconds in self._seen)
        slope = max(shared / spread, 0.0) if spread > 0 else 0.0
        errors = (seconds - mean - slope * (tokens - usual) for tokens, seconds in self._seen)
        deviation = sqrt(sum(error**2 for error in errors) / count)
        # Few answers say little of how much they differ.
        deviation += _UNSURE * mean / count
        return usual, mean, slope, deviation


class DeadlinePlan(NamedTuple):
    """Calls to be planned, each after those that it needs, which come before it.

    For each one its ``seconds`` and ``costs`` by backend, ``needs`` as places in the list, and the
    ``delays`` before its begin.
    """

    seconds: Sequence[list[float]]
    costs: Sequence[Sequence[float]]
    needs: Sequence[Sequence[int]]
    delays: Sequence[float]

    def paths(self, chosen: Sequence[int]) -> tuple[list[float], list[float]]:
        """For each call the longest path before its answer begins, and after its end."""
        before: list[float] = []
        after = [0.0] * len(chosen)
        for call, needs in enumerate(self.needs):
            ends = (before[need] + self.seconds[need][chosen[need]] for need in needs)
            before.append(max(ends, default=0.0) + self.delays[call])
        for call in range(len(chosen) - 1, -1, -1):
            rest = self.delays[call] + self.seconds[call][chosen[call]] + after[call]
            for need in self.needs[call]:
                after[need] = max(after[need], rest)
        return before, after

    def end(self, chosen: Sequence[int]) -> float:
        """The seconds until the last call ends."""
        before, _ = self.paths(chosen)
        seconds = (self.seconds[call][place] for call, place in enumerate(chosen))
        return max(map(float.__add__, before, map(float, seconds)), default=0.0)

    def quickest(self) -> list[int]:
        """The quickest backend for each call."""
        return [_least(*pair) for pair in zip(self.seconds, self.costs, strict=True)]

    def cost(self, chosen: Sequence[int]) -> float:
        """What all calls cost."""
        return sum(self.costs[call][place] for call, place in enumerate(chosen))


def _least(values: Sequence[float], others: Sequence[float]) -> int:
    """The place of the least of *values*; of equal ones that of the least of *others*."""
    return min(range(len(values)), key=lambda place: (values[place], others[place]))


def chosen_by(plan: DeadlinePlan, remaining: float) -> list[int]:
    """The backend of each call of *plan*: all end within *remaining* seconds, and cost little."""
    quickest = plan.quickest()
    remaining = max(remaining, plan.end(quickest) * (1 + 1e-9))
    cheapest = [_least(*pair) for pair in zip(plan.costs, plan.seconds, strict=True)]
    plans = [_improved(plan, _hastened(plan, cheapest, remaining), remaining)]
    if plan.end(cheapest) > remaining:
        plans.append(_improved(plan, quickest, remaining))
    return min(plans, key=plan.cost)


def _hastened(plan: DeadlinePlan, start: Sequence[int], remaining: float) -> list[int]:
    """*start* with quicker backends on paths that end late, where a second costs least."""
    chosen = list(start)
    while True:
        before, after = plan.paths(chosen)
        best: tuple[float, int, int] | None = None
        for call, place in enumerate(chosen):
            took = plan.seconds[call][place]
            late = before[call] + took + after[call] - remaining
            if late <= 0:
                continue
            for other, seconds in enumerate(plan.seconds[call]):
                if seconds < took:
                    more = plan.costs[call][other] - plan.costs[call][place]
                    rate = more / min(took - seconds, late)
                    if best is None or rate < best[0]:
                        best = rate, call, other
        if best is None:
            return chosen
        chosen[best[1]] = best[2]


def _improved(plan: DeadlinePlan, start: Sequence[int], remaining: float) -> list[int]:
    """*start*, which ends in time, with cheaper backends as far as it still does."""
    chosen = list(start)
    while (change := _saving(plan, chosen, remaining)) is not None:
        for call, place in change:
            chosen[call] = place
    return chosen


def _saving(
    plan: DeadlinePlan, chosen: list[int], remaining: float
) -> list[tuple[int, int]] | None:
    """The one change of a backend, or of two, that saves most for its time; ``None`` if none."""
    before, after = plan.paths(chosen)
    best: tuple[float, list[tuple[int, int]]] | None = None
    late: list[tuple[float, int, int]] = []
    for call, place in enumerate(chosen):
        for other, cost in enumerate(plan.costs[call]):
            saved = plan.costs[call][place] - cost
            if saved <= 0:
                continue
            seconds = plan.seconds[call][other]
            if before[call] + seconds + after[call] > remaining:
                late.append((saved, call, other))
                continue
            rate = saved / max(seconds - plan.seconds[call][place], 1e-9)
            if best is None or rate > best[0]:
                best = rate, [(call, other)]
    if best is None and len(chosen) <= _PAIRS:
        return _exchange(plan, chosen, remaining, sorted(late, reverse=True))
    return None if best is None else best[1]


def _exchange(
    plan: DeadlinePlan, chosen: list[int], remaining: float, late: list[tuple[float, int, int]]
) -> list[tuple[int, int]] | None:
    """A cheaper backend for one call and a dearer one for another that save something together."""
    tried = list(chosen)
    for saved, call, other in late:
        tried[call] = other
        for second, place in enumerate(chosen):
            for quick, seconds in enumerate(plan.seconds[second]):
                if second == call or seconds >= plan.seconds[second][place]:
                    continue
                if plan.costs[second][quick] - plan.costs[second][place] >= saved * (1 - 1e-9):
                    continue
                tried[second] = quick
                if plan.end(tried) <= remaining:
                    return [(call, other), (second, quick)]
                tried[second] = place
        tried[call] = chosen[call]
    return None


class RunningCall(NamedTuple):
    """A call that is being answered: where, since when, and how many tokens are expected."""

    spot: Spot
    since: float
    tokens: float | None


PriceOf = Callable[["Spot", "int | None", "int | None"], float]
"""What a call costs at a place with so many tokens of prompt and answer; ``None``: the present
call's, in no unit but the same for all places."""


class DeadlinePlanner:
    """The choice among *spots* for the calls of one run that is to end *within* so many seconds.

    The time begins with the first call. *forecast* is an earlier run of the program, and *over* are
    addresses of its calls that are not asked any more. *room* is how many calls a place answers at
    once. A plan takes it that there is room; who would have to wait may go elsewhere.
    """

    def __init__(
        self,
        within: float,
        spots: Sequence[Spot],
        forecast: Forecast | None,
        over: Iterable[str],
        room: Callable[[Spot], int | None] = lambda spot: None,
    ) -> None:
        self._within, self._spots, self._room = within, spots, room
        self._sent: Counter[Spot] = Counter()  # calls that are there or wait for room
        self._after: dict[str, float] = {}  # the planned seconds after the end of each call
        self._forecast = forecast.calls if forecast else {}
        self._began: float | None = None
        self._durations: dict[Spot, Durations] = {spot: Durations() for spot in spots}
        self._asked: set[Spot] = set()
        self._running: dict[str, RunningCall] = {}
        self._over = {*over}
        self._planned: dict[str, int] = {}
        self._until, self._still = -inf, 0  # the plan holds until then; and for so many calls
        self._depth = 1
        self._elsewhere: set[str] = set()
        for place, tokens, seconds in forecast.answers if forecast else ():
            if (spot := _answered_by(place, spots)) is not None:
                self._durations[spot].note(tokens or 0, seconds)
        for address, call in self._forecast.items():
            spot = _answered_by(call.place, spots)
            if spot is None:
                self._elsewhere.add(address)
            elif call.seconds is not None:
                self._durations[spot].note(call.tokens or 0, call.seconds)

    def ranked(self, call: Call, price: PriceOf, now: float) -> tuple[Spot, ...]:
        """The places for *call*: the one to ask, then those to go on with, the quickest first."""
        if self._began is None:
            self._began = now
        holds = now <= self._until or self._still > 0
        place = self._planned.get(call.address) if holds else None
        if place is None:
            place = self._replanned(call, price, now)
        self._still -= 1
        best = self._spots[place]
        if self._wait(best):
            best = self._without_room(call.address, best, price, now)
        rest = sorted(self._spots, key=lambda spot: self.seconds(spot, None))
        return (best, *(spot for spot in rest if spot != best))

    def begun(self, address: str, spot: Spot, now: float) -> None:
        """Note that the call at *address* is sent to *spot*."""
        self._asked.add(spot)
        expected = self._forecast.get(address)
        self._ends(address)
        self._sent[spot] += 1
        self._running[address] = RunningCall(spot, now, expected.tokens if expected else None)
        self._pass(expected.needs if expected else ())

    def measured(self, spot: Spot, tokens: int | None, seconds: float) -> None:
        """Note how long an answer of *spot* took."""
        self._durations.setdefault(spot, Durations()).note(tokens or 0, seconds)

    def passed(self, address: str) -> None:
        """Note that the call at *address* is not asked any more."""
        self._ends(address)
        self._over.add(address)
        self._until = -inf

    def failed(self, address: str) -> None:
        """Note that an attempt for the call at *address* failed; another one may come."""
        self._ends(address)
        self._until = -inf

    def seconds(self, spot: Spot, tokens: float | None) -> float:
        """How long an answer of so many *tokens* takes at *spot*, rather more than less.

        One that was never asked is taken to be as slow as the slowest of the others, so that it is
        tried where there is time for that; one that was asked, and has not answered yet, is not.
        Where there is no time for the others either, the present call tries it.
        """
        durations = self._durations.get(spot)
        if not durations:
            measured = [spot for spot in self._spots if self._durations[spot]]
            slowest = max((self.seconds(spot, tokens) for spot in measured), default=0.0)
            return inf if spot in self._asked else slowest
        usual, mean, slope, deviation = durations.line()
        more = 0.0 if tokens is None else slope * (tokens - usual)
        return max(mean + more, 0.0) + _SPREAD * deviation / sqrt(self._depth)

    def _ends(self, address: str) -> None:
        """Note that the call at *address* is at no place any more."""
        if (running := self._running.pop(address, None)) is not None:
            self._sent[running.spot] -= 1

    def _wait(self, spot: Spot) -> float:
        """The seconds until *spot* has room for one more call, rather more than less."""
        room = self._room(spot)
        turns = 0 if room is None else self._sent[spot] // room
        return turns * self.seconds(spot, None) if turns else 0.0

    def _without_room(self, address: str, planned: Spot, price: PriceOf, now: float) -> Spot:
        """The place for a call as *planned* has no room for it.

        That is *planned* if the call ends in time all the same, else the cheapest place where it
        does, else the one where it ends first.
        """
        expected = self._forecast.get(address)
        tokens, prompt = (None, None) if expected is None else expected[:2]
        ends = {spot: self._wait(spot) + self.seconds(spot, tokens) for spot in self._spots}
        assert self._began is not None
        until = self._began + self._within - now - self._after.get(address, 0.0)
        in_time = [spot for spot in self._spots if ends[spot] <= until]
        if planned in in_time:
            return planned
        if in_time:
            return min(in_time, key=lambda spot: (price(spot, prompt, tokens), ends[spot]))
        return min(self._spots, key=lambda spot: (ends[spot], spot != planned))

    def _pass(self, needs: Sequence[str]) -> None:
        """Expect no calls any more that calls which have begun would have waited for."""
        waiting = [need for need in needs if need not in self._over]
        while waiting:
            address = waiting.pop()
            if address in self._over or address in self._running:
                continue
            self._over.add(address)
            waiting += self._forecast[address].needs if address in self._forecast else ()

    def _replanned(self, call: Call, price: PriceOf, now: float) -> int:
        """The place for *call* by a new plan, which holds for a while if it is long."""
        if call.address in self._forecast:
            nodes = [each for each in self._forecast if each not in self._over]
        else:
            nodes = [call.address, *(f"{call.address}+{k}" for k in range(_following(call)))]
        assert self._began is not None
        remaining = self._began + self._within - now
        self._depth = self._chain(nodes)
        plan = self._plan(nodes, call.address, price, now)
        if plan.end(plan.quickest()) > remaining:
            own = plan.seconds[nodes.index(call.address)]
            for place, spot in enumerate(self._spots):
                if not self._durations[spot] and spot not in self._asked:
                    own[place] = 0.0
        if len(nodes) > _AHEAD:
            # The first calls of a long plan, with their share of the time.
            size = max(_AHEAD, nodes.index(call.address) + 1)
            seconds, costs, needs, delays = plan
            short = DeadlinePlan(seconds[:size], costs[:size], needs[:size], delays[:size])
            whole = plan.end(plan.quickest())
            remaining *= short.end(short.quickest()) / whole if whole > 0 else 1.0
            plan, nodes = short, nodes[:size]
        plans = chosen_by(plan, remaining)
        self._planned = dict(zip(nodes, plans, strict=True))
        self._after = dict(zip(nodes, plan.paths(plans)[1], strict=True))
        self._until, self._still = now + max(remaining, 0.0) * _STEADY, len(nodes) // _LONG
        return self._planned[call.address]

    def _chain(self, nodes: list[str]) -> int:
        """The most calls of *nodes* that follow each other."""
        if nodes[0] not in self._forecast:
            return len(nodes)
        lengths: dict[str, int] = {}
        for address in nodes:
            needs = self._forecast[address].needs
            lengths[address] = 1 + max((lengths.get(need, 0) for need in needs), default=0)
        return max(lengths.values())

    def _plan(self, nodes: list[str], own: str, price: PriceOf, now: float) -> DeadlinePlan:
        places = {address: place for place, address in enumerate(nodes)}
        rows: list[tuple[list[float], list[float], list[int], float]] = []
        for place, address in enumerate(nodes):
            expected, running = self._forecast.get(address), self._running.get(address)
            if expected is None:
                needs, delay = ([place - 1] if place else []), 0.0
            else:
                needs = [k for each in expected.needs if (k := places.get(each, place)) < place]
                delay = expected.delay
            if address == own:
                needs, delay, running = [], 0.0, None
            if running is not None:
                remaining = self.seconds(running.spot, running.tokens) - (now - running.since)
                seconds = [remaining if 0.0 < remaining < inf else 0.0] * len(self._spots)
                rows.append((seconds, [0.0] * len(seconds), [], 0.0))
            elif expected is not None and address in self._elsewhere:
                seconds = [expected.seconds or 0.0] * len(self._spots)
                rows.append((seconds, [0.0] * len(seconds), needs, delay))
            else:
                tokens, prompt = (None, None) if expected is None else expected[:2]
                seconds = [self.seconds(spot, tokens) for spot in self._spots]
                costs = [min(price(spot, prompt, tokens), _UNKNOWN) for spot in self._spots]
                rows.append((seconds, costs, needs, delay))
        seconds_of, costs_of, needs_of, delays = zip(*rows, strict=True)
        return DeadlinePlan(seconds_of, costs_of, needs_of, delays)


def _answered_by(place: str, spots: Sequence[Spot]) -> Spot | None:
    """Which of *spots* the recorded name of an answer's model stands for."""
    alike = [spot for spot in spots if place.startswith(f"{spot.backend}/")]
    exact = [spot for spot in alike if place.startswith(str(spot))]
    return max(exact, key=lambda spot: len(spot.model), default=alike[0] if alike else None)


def _following(call: Call) -> int:
    """How many calls follow *call* on its prompt, each after the one before it, as its graph says.

    Where the graph knows no most, the least.
    """
    frame = call.frame()
    body = frame.body() if frame is not None and frame.body is not None else None
    if body is None:
        return 0
    counts = None
    with suppress(Exception):  # no graph can be made of it, or there are no graphs
        counts = body.counts()
    if counts is None:
        return 0
    line = call.line if call.file == body.file else None
    least, most = counts.remaining(call.identity.ordinal + 1, line)
    return min(least if most is None else most, _AHEAD)
