"""Judges what predictions promise: one number is exact, and a range holds the number that came."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from appl.testing import Run
from appl.tracing import Predictor, Rerunner, Trace
from appl.tracing.explaining import Prediction, Rehearsed, prediction_of, rehearsed_by
from appl.tracing.replaying import BrokenOff

from .program import Mixed
from .world import Others, backend, compiled, performed, ran, refused_in, watched

ANSWERERS = 4


class Hasty(Rerunner):
    """Soon does what a rerun does when live calls have brought nothing for a long time."""

    live_patience_s = 0.05


def predicted(module: dict[str, Any], trace: Trace, live: Any) -> Prediction:
    """The calls that a rerun of the program in *module* would make; *live* is not asked."""

    def rehearsed(number: int) -> Rehearsed:
        return rehearsed_by(*_performed(module, Predictor(trace, rehearsal=number), live))

    found = prediction_of(*_performed(module, Predictor(trace), live))
    found.rehearse(rehearsed)
    return found


def _performed(
    module: dict[str, Any], predictor: Predictor, live: Any
) -> tuple[Predictor, BaseException | None]:
    error: BaseException | None = None
    try:
        with watched(), Run(live, instruments=[predictor], world=predictor):
            performed(module)
    except (Exception, BrokenOff) as stopped:
        error = stopped
    assert not live.asked, f"a prediction asked {live.asked}"
    return predictor, error


def live_calls(program: Mixed, trace: Trace, order: int) -> int:
    """The number of live calls of a rerun that waits as long as a user's does."""
    again = Rerunner(trace)
    ran(compiled(program), backend(program, order), instruments=[again], world=again)
    return len(again.asked)


def counts(program: Mixed, trace: Trace, rerunner: type[Rerunner]) -> list[int] | None:
    """The numbers of live calls of reruns with several answerers.

    Each has texts of its own, one has tools with other results, one is slow. ``None`` if one is
    asked that never gets an answer: of that predictions say nothing.
    """
    found = []
    for number in range(ANSWERERS):
        others = Others(trace, number)
        again = (Hasty if others.slow else rerunner)(trace)
        module, live = compiled(program, number == 2), backend(program, 5 + number, others)
        live.again = again
        ran(module, live, instruments=[again], world=again)
        if others.silent:
            return None
        found.append(len(again.asked))
    return found


def fails_as_then(trace: Trace, live: Any) -> bool:
    """True if *live* has refused no other questions than those that were refused in *trace*.

    How a question ends that was cancelled, or never asked, is not foreseen.
    """
    refused = refused_in(trace)
    return all(trace.content_of(request) in refused for request in live.refused)


def holds(prediction: Prediction, numbers: Iterable[int]) -> bool:
    """Whether *prediction* holds for all these *numbers* of live calls."""
    fewest, most = prediction.live
    return all(fewest <= number and (most is None or number <= most) for number in numbers)


@dataclass
class Predictions:
    """How predictions held over many programs.

    ``width`` is the sum of the widths of closed ranges, ``beyond`` the sum of what came above the
    lower ends of open ones, ``same_way`` counts programs of which the number was right that holds
    if they go the same way again. ``vague`` are those that have one number, which was not said.
    """

    kinds: Counter[str] = field(default_factory=Counter)
    width: int = 0
    beyond: int = 0
    same_way: int = 0
    wrong: list[str] = field(default_factory=list)
    oracle: Counter[str] = field(default_factory=Counter)
    vague: list[str] = field(default_factory=list)

    def __add__(self, other: Predictions) -> Predictions:
        return Predictions(
            self.kinds + other.kinds, self.width + other.width, self.beyond + other.beyond,
            self.same_way + other.same_way, self.wrong + other.wrong, self.oracle + other.oracle,
            self.vague + other.vague,
        )  # fmt: skip

    def compare(self, program: str, prediction: Prediction, found: list[int] | None) -> None:
        """Count how *prediction* fits the numbers that several answerers *found*."""
        fewest, most = prediction.live
        if found is None:
            self.oracle["unanswered"] += 1
            return
        held = holds(prediction, found)
        kind = "determined" if min(found) == max(found) else "open"
        self.oracle[kind] += 1
        self.oracle[f"{kind}, one number"] += fewest == most
        self.oracle[f"{kind}, right"] += held and (kind == "open" or fewest == most)
        told = f"{program}: {found} calls with other answers, {fewest} to {most} were said"
        if not held:
            self.wrong.append(told)
        elif kind == "determined" and fewest != most:
            self.vague.append(told)

    def judge(self, program: str, prediction: Prediction, truth: int) -> None:
        """Count the *prediction* for *program*, of which *truth* calls were live."""
        fewest, most = prediction.live
        self.kinds["one number" if fewest == most else "at least" if most is None else "range"] += 1
        self.same_way += prediction.same_way[0] <= truth <= prediction.same_way[1]
        self.width += 0 if most is None else most - fewest
        self.beyond += truth - fewest if most is None else 0
        if prediction.agreed is not None:  # with answers that are not the recorded ones
            fewest = min(fewest, prediction.same_way[0])
        if truth < fewest or (most is not None and truth > most):
            self.wrong.append(f"{program}: {truth} calls were live, {fewest} to {most} were said")

    def __str__(self) -> str:
        every = max(sum(self.kinds.values()), 1)
        one, closed, some = (self.kinds[kind] for kind in ("one number", "range", "at least"))
        return (
            f"{len(self.wrong)} wrong; one number {one / every:.1%}, a range {closed / every:.1%} (mean width "
            f"{self.width / max(closed, 1):.1f}), at least a number {some / every:.1%} (mean "
            f"{self.beyond / max(some, 1):.1f} more came); as if it goes the same way "
            f"{self.same_way / every:.1%} right; {self._oracle()}"
        )

    def _oracle(self) -> str:
        """The shares of what several answerers found."""
        count = self.oracle
        return (
            f"with {ANSWERERS} answerers: the number is the same in {count['determined']}, of which "
            f"{count['determined, right']} are predicted as this one number and "
            f"{count['determined, one number'] - count['determined, right']} as another; it differs in "
            f"{count['open']}, of which {count['open, right']} are in the predicted range; "
            f"{count['unanswered']} ask what never gets an answer; vague: {self.vague}"
        )
