"""The calls that a rerun of an edited program would make, and what they would take, in words.

Invariant: only reads what a predictor has found.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from appl.tracing.explaining.causes import explained
from appl.tracing.reading.trace import RecordedCall, Trace
from appl.tracing.replaying.predictor import MOST_RACING, REHEARSALS, Predictor
from appl.tracing.replaying.rerunner import CANCELLED, LiveCall
from appl.tracing.replaying.tally import Amount

_TOKENS = " tokens"
_NUMBER = re.compile(r"\.\d+")
_REHEARSED = "asked in a rehearsal"


class Rehearsed(NamedTuple):
    """The calls that a program has ``asked`` when it was rehearsed.

    The first new result, after ``certain`` of them, was that of the call or tool at ``decides``, ""
    if there was none. The calls in ``perhaps`` were cancelled then, and may be cancelled again
    before they are asked. They ``raced`` if one was cancelled while it was out; ``open`` says what
    the rehearsal does not show, "" if nothing.
    """

    asked: dict[str, LiveCall]
    perhaps: set[str]
    certain: int
    decides: str
    open: str
    raced: bool

    @property
    def names(self) -> tuple[str, ...]:
        """The calls without the numbers of their places: workers may share work in other ways."""
        return tuple(sorted(_NUMBER.sub("", address) for address in self.asked))


@dataclass(slots=True)
class Prediction:
    """The calls that a rerun of the run in ``trace`` would make.

    They are the ``fewest`` if new results are as recorded, or guessed. ``further`` ones were asked
    in rehearsals besides, or were cancelled then and may be cancelled again before they are asked.
    ``every`` counts all calls of the run. Of ``guessed`` calls nothing is recorded, so what their
    answers lead to is a guess. ``tools`` would run. ``stopped`` says why the program could not be
    followed to its end. ``first`` is the run with recorded answers, ``rehearsed`` are those with
    made-up ones. ``assumed_good`` are calls whose recorded answers their types refused; new
    ones are taken to be good. ``inner`` are those of runs of their own inside of this one, which
    are not rehearsed.
    """

    trace: Trace
    first: Rehearsed
    fewest: list[LiveCall]
    further: list[LiveCall]
    every: int
    guessed: list[str]
    tools: list[str]
    stopped: str
    assumed_good: list[str] = field(default_factory=list)
    rehearsed: list[Rehearsed] = field(default_factory=list)
    inner: list[Prediction] = field(default_factory=list)

    @property
    def decides(self) -> str:
        """The first call, of a model or a tool, that has a new result; "" if there is none."""
        return self.first.decides

    @property
    def open(self) -> str:
        """An influence that no rehearsal shows; "" if there is none."""
        if not self.rehearsed:
            return self.first.open
        last = self.rehearsed[-1]
        racing = last.raced and len(last.asked) > MOST_RACING
        return "which answer comes first" if racing else last.open

    @property
    def doubtful(self) -> set[str]:
        """The calls that were asked in rehearsals, and may be cancelled before they are asked."""
        return set().union(*(rehearsal.perhaps for rehearsal in self.rehearsed))

    @property
    def live(self) -> tuple[int, int | None]:
        """The fewest and the most calls that would be live; ``None`` when that is not known."""
        if self.agreed is not None:
            return self.agreed, self.agreed
        certain = min(rehearsal.certain for rehearsal in (self.first, *self.rehearsed))
        return min(
            certain, len(self.fewest), *(len(rehearsal.asked) for rehearsal in self.rehearsed)
        ), None

    @property
    def agreed(self) -> int | None:
        """The number of live calls, if it is the same in all rehearsals and nothing is open.

        It is 0 without any if nobody is told of a new result, of a call or a tool. It is not known
        if a call that was cancelled then counts in it.
        """
        if not (self.fewest or self.further or self.decides):
            return 0
        agree = len(self._ways) == 1 and not self.open and not self.doubtful
        return len(self.rehearsed[0].asked) if agree else None

    @property
    def _ways(self) -> set[tuple[str, ...]]:
        """The different ways that the program took in its rehearsals, as the calls it asked."""
        return {rehearsal.names for rehearsal in self.rehearsed}

    @property
    def same_way(self) -> tuple[int, int]:
        """The fewest and the most, if new results do not lead the program elsewhere."""
        return len(self.fewest), len(self.fewest) + len(self.further)

    @property
    def recorded(self) -> Amount:
        """The amount of the recorded run."""
        calls = self.trace.calls
        return _sum(call for call in calls if call.source is None or call.response is not None)

    @property
    def costs(self) -> tuple[Amount, Amount]:
        """The amounts of the recorded answers to the fewest calls, and to the further ones."""
        fewest, further = (
            [record for call in calls if (record := self.trace.by_address.get(call.address))]
            for calls in (self.fewest, self.further)
        )
        return _sum(fewest), _sum([*fewest, *further])

    def rehearse(self, rehearsal: Callable[[int], Rehearsed]) -> None:
        """Rehearse the program as long as that agrees; *rehearsal* makes the one of a number.

        If live calls raced, each of them comes first once.
        """
        todo = list(REHEARSALS) if self.agreed is None else []
        while todo and not self.open and len(self._ways) < 2:
            result = rehearsal(todo.pop(0))
            self.rehearsed.append(result)
            addresses = {call.address for call in (*self.fewest, *self.further)}
            new = (call for at, call in result.asked.items() if at not in addresses)
            self.further += (replace(call, cause=_REHEARSED) for call in new)
            if result.raced and not self.open and len(self.rehearsed) <= len(REHEARSALS):
                last = REHEARSALS[-1]
                todo = sorted({*todo, *range(last + 1, last + 1 + len(result.asked))})

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
            "assumed_good": self.assumed_good,
            "tools": self.tools,
            "stopped": self.stopped or None,
            "inner": [
                {"run": prediction.trace.path.stem, **prediction.as_data()}
                for prediction in self.inner
            ],
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
        for prediction in self.inner:
            lines += (f"in {prediction.trace.path.stem}: {line}" for line in prediction.lines(most))
        return [*lines, self._sums()]

    def _rehearsals(self) -> Iterator[str]:
        """Yield what the rehearsals have shown, and what is not certain."""
        if self.agreed is not None:
            if self.rehearsed:
                if self.assumed_good:
                    others = "more if types refuse answers again"
                else:
                    others = f"{_range(*self.same_way)} if new answers repeat recorded ones"
                yield f"rehearsals with made-up answers agree on {self.agreed} live: {others}"
            return
        if self.decides:
            yield (
                f"what {self.decides} gives may change and decide what is asked after it: "
                f"{len(self.fewest)} live if it gives what was recorded"
            )
        if len(self._ways) > 1:
            counts = sorted(len(result.asked) for result in self.rehearsed)
            call_range = _range(counts[0], counts[-1])
            yield f"rehearsals with made-up answers ask {call_range}, not the same"
        elif self.open:
            yield f"not rehearsed: {self.open}"
        elif self.doubtful:
            first = min(self.doubtful)
            yield f"{first} was cancelled then, and may be cancelled again before it is asked"

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
    first, cancelled = rehearsed_by(predictor, error), _left(predictor)
    calls, perhaps = first.asked, first.perhaps
    fewest = [call for at, call in calls.items() if at not in perhaps]
    further = [replace(calls[at], cause=CANCELLED) for at in calls if at in perhaps]
    if fewest or predictor.removed():
        further += (call for at, call in cancelled.items() if at not in calls)
    else:  # as then: what was left is cancelled as it was then
        further = [call for call in further if call.address not in cancelled]
    return Prediction(
        predictor.trace,
        first,
        explained(predictor, fewest),
        further,
        every=len(predictor.begun),
        guessed=predictor.guessed,
        assumed_good=predictor.assumed_good,
        tools=predictor.ran,
        stopped=f"{type(error).__name__}: {error}" if error is not None else "",
        inner=[
            prediction_of(inner_predictor)
            for inner_predictor in predictor.inner
            if isinstance(inner_predictor, Predictor)
        ],
    )


def _left(predictor: Predictor) -> dict[str, LiveCall]:
    """The calls that were cancelled then, and of whose end nobody was told: they were left."""
    calls = (call for call in predictor.trace.calls if call.address in predictor.begun)
    cancelled = (call for call in calls if call.outcome == "cancelled" and call.delivered is None)
    return {call.address: LiveCall(call.address, call.where, cause=CANCELLED) for call in cancelled}


def rehearsed_by(
    predictor: Predictor, error: BaseException | None = None, touched: str = ""
) -> Rehearsed:
    """The findings of a rehearsal that *error* has ended; what it *touched* was left open."""
    if error is not None:
        predictor.stopped(error)
    return Rehearsed(
        predictor.asked,
        predictor.perhaps,
        predictor.certain,
        predictor.decides,
        touched or predictor.open,
        predictor.raced,
    )
