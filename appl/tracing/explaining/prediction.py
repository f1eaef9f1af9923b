"""The calls that a rerun of an edited program would make, and what they would take, in words.

Invariant: only reads what a predictor has found.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from appl.tracing.explaining.causes import explained
from appl.tracing.explaining.tally import Amount
from appl.tracing.reading.trace import Trace
from appl.tracing.replaying.predictor import MOST_RACING, REHEARSALS, Predictor
from appl.tracing.replaying.rerunner import LiveCall

_TOKENS = " tokens"
_NUMBER = re.compile(r"\.\d+")


class Rehearsal(NamedTuple):
    """The live ``calls`` of a rehearsal, what it leaves ``open``, and if some of them ``raced``.

    Calls are named without the numbers of their places: workers may share work in other ways.
    """

    calls: tuple[str, ...]
    open: str
    raced: bool


@dataclass(slots=True)
class Prediction:
    """The calls that a run would make: *fewest*, and beyond them perhaps ``further``.

    Of ``further``, the prompts hold answers that may change, or they were cancelled then and may be
    cancelled again before they are asked. All that holds where the program goes the same way.
    ``decides`` is the first call, of a model or a tool, whose result may change before the program
    goes on, or the first call or function that may now miss a time limit; "" when there is none.
    If there is one, only ``certain`` calls are live for sure, and how many at most is not known.
    ``every`` counts all calls of the run. ``cost`` is what the recorded answers to the fewest took,
    ``cost_most`` to the most; of ``guessed`` calls nothing is recorded, so what their answers lead
    to is a guess. ``tools`` would run. ``stopped`` says why the program could not be followed to
    its end. ``rehearsed`` are the live calls in each rehearsal with made-up answers;
    ``open`` says what no rehearsal shows, and may decide, "" if nothing.
    """

    fewest: list[LiveCall] = field(default_factory=list)
    further: list[LiveCall] = field(default_factory=list)
    certain: int = 0
    decides: str = ""
    every: int = 0
    cost: Amount = field(default_factory=Amount)
    cost_most: Amount = field(default_factory=Amount)
    recorded: Amount = field(default_factory=Amount)
    guessed: list[str] = field(default_factory=list)
    tools: list[str] = field(default_factory=list)
    stopped: str = ""
    open: str = ""
    rehearsed: list[tuple[str, ...]] = field(default_factory=list)

    @property
    def live(self) -> tuple[int, int | None]:
        """The fewest and the most calls that would be live; ``None`` when that is not known."""
        if self.agreed is not None:
            return self.agreed, self.agreed
        fewest, most = self.same_way
        counts = [len(calls) for calls in self.rehearsed]
        if not self.decides and all(fewest <= count <= most for count in counts):
            return fewest, most
        return min(self.certain if self.decides else fewest, *counts, fewest), None

    @property
    def agreed(self) -> int | None:
        """The number of live calls, if they are the same in all rehearsals and nothing is open."""
        agree = len(set(self.rehearsed)) == 1 and not self.open
        return len(self.rehearsed[0]) if agree else None

    @property
    def same_way(self) -> tuple[int, int]:
        """The fewest and the most when the program goes the way that it went."""
        return len(self.fewest), len(self.fewest) + len(self.further)

    def rehearse(self, rehearsed: Callable[[int], Rehearsal]) -> None:
        """Rehearse the program as long as that agrees; *rehearsed* makes the one of a number.

        If live calls raced, each of them comes first once.
        """
        todo = list(REHEARSALS) if self.fewest or self.further else []
        while todo and not self.open and len(set(self.rehearsed)) < 2:
            calls, self.open, raced = rehearsed(todo.pop(0))
            self.rehearsed.append(calls)
            if raced and len(calls) > MOST_RACING:
                self.open = "which answer comes first"
            elif raced and len(self.rehearsed) <= len(REHEARSALS):
                last = REHEARSALS[-1]
                todo = sorted({*todo, *range(last + 1, last + 1 + len(calls))})

    def as_data(self) -> dict[str, object]:
        """The prediction as JSON-ready data."""
        fewest, most = self.live
        return {
            "live": {"fewest": fewest, "most": most},
            "same_way": dict(zip(("fewest", "most"), self.same_way, strict=True)),
            "decides": self.decides or None,
            "rehearsed": self.agreed,
            "open": self.open or None,
            "calls": self.every,
            "cost": {"fewest": self.cost.as_data(), "most": self.cost_most.as_data()},
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
        if self.agreed is not None:
            lines.append(
                f"rehearsals with made-up answers agree on {self.agreed} live: "
                f"{_range(*self.same_way)} if new answers repeat recorded ones"
            )
        elif self.decides:
            lines.append(
                f"what {self.decides} gives may change and decide what is asked after it: "
                f"{_range(*self.same_way)} live if the program goes the same way"
            )
        if self.agreed is None and len(set(self.rehearsed)) > 1:
            counts = sorted(len(calls) for calls in self.rehearsed)
            lines.append(
                f"rehearsals with made-up answers ask {_range(counts[0], counts[-1])}, not the same"
            )
        elif self.agreed is None and self.open:
            lines.append(f"not rehearsed: {self.open}")
        if self.stopped:
            lines.append(f"the program could not be followed to its end: {self.stopped}")
        return [*lines, self._sums()]

    def _sums(self) -> str:
        number = _range(*self.live)
        low, high, all_ = (a.shown() for a in (self.cost, self.cost_most, self.recorded))
        if all(text.endswith(_TOKENS) for text in (low, high, all_)):
            low, high = low.removesuffix(_TOKENS), high.removesuffix(_TOKENS)
        price = low if low == high else f"{low} to {high}"
        return f"{number} of {self.every} calls would be live, {price} of {all_}"


def _range(fewest: int, most: int | None) -> str:
    if most is None:
        return f"at least {fewest}"
    return str(fewest) if fewest == most else f"{fewest} to {most}"


def prediction_of(predictor: Predictor, error: BaseException | None = None) -> Prediction:
    """The findings of *predictor* so far; *error* is the one that ended the program."""
    if error is not None:
        predictor.stopped(error)
    trace, perhaps = predictor.trace, predictor.perhaps
    asked = {at: question for at, question in predictor.asked.items() if at not in perhaps}
    if not asked and not predictor.removed():  # as then: what was left is cancelled as it was then
        perhaps = {at: question for at, question in perhaps.items() if at not in predictor.left}
    found = Prediction(guessed=predictor.guessed, tools=predictor.ran, every=len(predictor.begun))
    found.stopped = f"{type(error).__name__}: {error}" if error is not None else ""
    found.decides, found.certain = predictor.decides, predictor.certain
    if predictor.raced:  # how far those came that were cancelled is a matter of time
        found.certain = min(predictor.certain, predictor.before)
    found.open = predictor.open
    found.fewest = explained(predictor, asked.values())
    further = predictor.touched | perhaps
    found.further = [expected for at, expected in further.items() if at not in asked]
    for call in trace.calls:
        if call.source is None or call.response is not None:
            found.recorded.add(call.response)
    for expected in found.fewest:
        _add(found.cost, trace, expected)
    for expected in (*found.fewest, *found.further):
        _add(found.cost_most, trace, expected)
    return found


def rehearsal_of(
    predictor: Predictor, error: BaseException | None = None, touched: str = ""
) -> Rehearsal:
    """The findings of a rehearsal that *error* has ended; what it *touched* was left open."""
    if error is not None:
        predictor.stopped(error)
    calls = tuple(sorted(_NUMBER.sub("", address) for address in predictor.asked))
    return Rehearsal(calls, touched or predictor.open, predictor.raced)


def _add(amount: Amount, trace: Trace, live: LiveCall) -> None:
    recorded = trace.by_address.get(live.address)
    if recorded is not None:
        amount.add(recorded.response)
