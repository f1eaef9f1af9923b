"""The calls that a rerun of an edited program would make, and what they would take, in words.

Invariant: only reads what a predictor has found.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from appl.tracing.explaining.causes import explained
from appl.tracing.explaining.tally import Amount
from appl.tracing.reading.trace import RecordedCall, Trace
from appl.tracing.replaying.predictor import MOST_RACING, REHEARSALS, Predictor
from appl.tracing.replaying.rerunner import CANCELLED, LiveCall

_TOKENS = " tokens"
_NUMBER = re.compile(r"\.\d+")
_REHEARSED = "asked in a rehearsal"


class Rehearsed(NamedTuple):
    """The calls that one rehearsal of a program has ``asked``.

    A new result came after ``certain`` of them. They ``raced`` if one was cancelled while it was
    out; ``open`` says what the rehearsal does not show, "" if nothing.
    """

    asked: list[LiveCall]
    certain: int
    open: str
    raced: bool

    @property
    def names(self) -> tuple[str, ...]:
        """The calls without the numbers of their places: workers may share work in other ways."""
        return tuple(sorted(_NUMBER.sub("", call.address) for call in self.asked))


@dataclass(slots=True)
class Prediction:
    """The calls that a rerun of the run in ``trace`` would make.

    They are the ``fewest`` if new results are as recorded, or guessed. ``further`` ones were asked
    in rehearsals besides, or were cancelled then and may be cancelled again before they are asked.
    ``decides`` is the first call, of a model or a tool, that has a new result; ``certain`` calls
    are asked before that. ``every`` counts all calls of the run. Of ``guessed`` calls nothing is
    recorded, so what their answers lead to is a guess. ``tools`` would run. ``stopped`` says why
    the program could not be followed to its end. ``rehearsed`` are the live calls in each rehearsal
    with made-up answers; ``open`` says what no rehearsal shows, and may decide, "" if nothing.
    """

    trace: Trace
    fewest: list[LiveCall]
    further: list[LiveCall]
    certain: int
    decides: str
    every: int
    guessed: list[str]
    tools: list[str]
    stopped: str
    open: str
    rehearsed: list[tuple[str, ...]] = field(default_factory=list)

    @property
    def live(self) -> tuple[int, int | None]:
        """The fewest and the most calls that would be live; ``None`` when that is not known."""
        if self.agreed is not None:
            return self.agreed, self.agreed
        return min(self.certain, len(self.fewest), *map(len, self.rehearsed)), None

    @property
    def agreed(self) -> int | None:
        """The number of live calls, if it is the same in all rehearsals and nothing is open.

        It is 0 without any if nobody is told of a new result, of a call or a tool.
        """
        if not (self.fewest or self.further or self.decides):
            return 0
        agree = len(set(self.rehearsed)) == 1 and not self.open
        return len(self.rehearsed[0]) if agree else None

    @property
    def same_way(self) -> tuple[int, int]:
        """The fewest and the most, if new results do not lead the program elsewhere."""
        return len(self.fewest), len(self.fewest) + len(self.further)

    @property
    def recorded(self) -> Amount:
        """What the recorded run took."""
        calls = self.trace.calls
        return _sum(call for call in calls if call.source is None or call.response is not None)

    @property
    def costs(self) -> tuple[Amount, Amount]:
        """What the recorded answers to the fewest took, and those to the further calls besides."""
        fewest, further = (
            [known for each in calls if (known := self.trace.by_address.get(each.address))]
            for calls in (self.fewest, self.further)
        )
        return _sum(fewest), _sum([*fewest, *further])

    def rehearse(self, rehearsal: Callable[[int], Rehearsed]) -> None:
        """Rehearse the program as long as that agrees; *rehearsal* makes the one of a number.

        If live calls raced, each of them comes first once.
        """
        todo = list(REHEARSALS) if self.agreed is None else []
        while todo and not self.open and len(set(self.rehearsed)) < 2:
            found = rehearsal(todo.pop(0))
            self._add(found)
            if found.raced and len(found.asked) > MOST_RACING:
                self.open = "which answer comes first"
            elif found.raced and len(self.rehearsed) <= len(REHEARSALS):
                last = REHEARSALS[-1]
                todo = sorted({*todo, *range(last + 1, last + 1 + len(found.asked))})

    def _add(self, found: Rehearsed) -> None:
        """Take over what a rehearsal has *found*."""
        self.rehearsed.append(found.names)
        self.certain, self.open = min(self.certain, found.certain), found.open
        known = {call.address for call in (*self.fewest, *self.further)}
        new = (call for call in found.asked if call.address not in known)
        self.further += (replace(call, cause=_REHEARSED) for call in new)

    def as_data(self) -> dict[str, object]:
        """The prediction as JSON-ready data."""
        (fewest, most), costs = self.live, [cost.as_data() for cost in self.costs]
        return {
            "live": {"fewest": fewest, "most": most},
            "same_way": dict(zip(("fewest", "most"), self.same_way, strict=True)),
            "decides": self.decides or None,
            "rehearsed": self.agreed if self.rehearsed else None,
            "open": self.open or None,
            "calls": self.every,
            "cost": dict(zip(("fewest", "most"), costs, strict=True)),
            "recorded": self.recorded.as_data(),
            "asked": [call.as_data() for call in self.fewest],
            "perhaps": [call.as_data() for call in self.further],
            "guessed": self.guessed,
            "tools": self.tools,
            "stopped": self.stopped or None,
        }

    def lines(self, most: int = 20) -> list[str]:
        """The prediction for a human."""
        every = [("live", call) for call in self.fewest]
        every += [("perhaps", call) for call in self.further]
        lines = [f"{word}: {call.address}: {call.cause}" for word, call in every[:most]]
        lines += [f"and {len(every) - most} more"] if len(every) > most else []
        if self.tools:
            lines.append(f"would run {len(self.tools)} tools: {', '.join(self.tools[:3])}")
        if self.guessed:
            some = ", ".join(self.guessed[:3]) + (", …" if len(self.guessed) > 3 else "")
            lines.append(f"nothing is recorded of {len(self.guessed)} calls ({some}): a guess")
        lines += self._rehearsals()
        if self.stopped:
            lines.append(f"the program could not be followed to its end: {self.stopped}")
        return [*lines, self._sums()]

    def _rehearsals(self) -> Iterator[str]:
        """Yield what the rehearsals have shown, and what is not certain."""
        if self.agreed is not None:
            if self.rehearsed:
                yield (
                    f"rehearsals with made-up answers agree on {self.agreed} live: "
                    f"{_range(*self.same_way)} if new answers repeat recorded ones"
                )
            return
        if self.decides:
            yield (
                f"what {self.decides} gives may change and decide what is asked after it: "
                f"{len(self.fewest)} live if it gives what was recorded"
            )
        if len(set(self.rehearsed)) > 1:
            counts = sorted(map(len, self.rehearsed))
            asked = _range(counts[0], counts[-1])
            yield f"rehearsals with made-up answers ask {asked}, not the same"
        elif self.open:
            yield f"not rehearsed: {self.open}"

    def _sums(self) -> str:
        number = _range(*self.live)
        low, high, all_ = (amount.shown() for amount in (*self.costs, self.recorded))
        if all(text.endswith(_TOKENS) for text in (low, high, all_)):
            low, high = low.removesuffix(_TOKENS), high.removesuffix(_TOKENS)
        price = low if low == high else f"{low} to {high}"
        return f"{number} of {self.every} calls would be live, {price} of {all_}"


def _range(fewest: int, most: int | None) -> str:
    if most is None:
        return f"at least {fewest}"
    return str(fewest) if fewest == most else f"{fewest} to {most}"


def _sum(calls: Iterable[RecordedCall]) -> Amount:
    amount = Amount()
    for call in calls:
        amount.add(call.response)
    return amount


def prediction_of(predictor: Predictor, error: BaseException | None = None) -> Prediction:
    """The findings of *predictor*; *error* is the one that ended the program."""
    if error is not None:
        predictor.stopped(error)
    asked, perhaps, left = predictor.asked, predictor.perhaps, _left(predictor)
    fewest = [call for at, call in asked.items() if at not in perhaps]
    further = [replace(asked[at], cause=CANCELLED) for at in asked if at in perhaps]
    if fewest or predictor.removed():
        further += (call for at, call in left.items() if at not in asked)
    else:  # as then: what was left is cancelled as it was then
        further = [call for call in further if call.address not in left]
    return Prediction(
        predictor.trace,
        explained(predictor, fewest),
        further,
        predictor.certain,
        predictor.decides,
        len(predictor.begun),
        predictor.guessed,
        predictor.ran,
        f"{type(error).__name__}: {error}" if error is not None else "",
        predictor.open,
    )


def _left(predictor: Predictor) -> dict[str, LiveCall]:
    """The calls that were cancelled then, and of whose end nobody was told: they were left."""
    calls = (call for call in predictor.trace.calls if call.address in predictor.begun)
    left = (call for call in calls if call.outcome == "cancelled" and call.delivered is None)
    return {call.address: LiveCall(call.address, call.where, cause=CANCELLED) for call in left}


def rehearsed_by(
    predictor: Predictor, error: BaseException | None = None, touched: str = ""
) -> Rehearsed:
    """The findings of a rehearsal that *error* has ended; what it *touched* was left open."""
    if error is not None:
        predictor.stopped(error)
    asked = list(predictor.asked.values())
    return Rehearsed(asked, predictor.certain, touched or predictor.open, predictor.raced)
