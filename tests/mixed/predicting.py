"""Judges what predictions promise: one number is exact, and a range holds the number that came."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from appl.runtime.run import Run
from appl.tracing import Predictor, Trace
from appl.tracing.explaining.prediction import Prediction, prediction_of

from .world import performed, watched


def predicted(module: dict[str, Any], trace: Trace, live: Any) -> Prediction:
    """The calls that a rerun of the program in *module* would make; *live* is not asked."""
    predictor, error = Predictor(trace), None
    try:
        with watched(), Run(live, instruments=[predictor], world=predictor):
            performed(module)
    except Exception as stopped:
        error = stopped
    assert not live.asked, f"a prediction asked {live.asked}"
    return prediction_of(predictor, error)


@dataclass
class Predictions:
    """How predictions held over many programs.

    ``width`` is the sum of the widths of closed ranges, ``beyond`` the sum of what came above the
    lower ends of open ones, ``same_way`` counts programs of which the number was right that holds
    if they go the same way again.
    """

    kinds: Counter[str] = field(default_factory=Counter)
    width: int = 0
    beyond: int = 0
    same_way: int = 0
    wrong: list[str] = field(default_factory=list)

    def __add__(self, other: Predictions) -> Predictions:
        return Predictions(
            self.kinds + other.kinds, self.width + other.width, self.beyond + other.beyond,
            self.same_way + other.same_way, self.wrong + other.wrong,
        )  # fmt: skip

    def judge(self, program: str, prediction: Prediction, truth: int) -> None:
        """Count the *prediction* for *program*, of which *truth* calls were live."""
        fewest, most = prediction.live
        self.kinds["one number" if fewest == most else "at least" if most is None else "range"] += 1
        self.same_way += prediction.same_way[0] <= truth <= prediction.same_way[1]
        self.width += 0 if most is None else most - fewest
        self.beyond += truth - fewest if most is None else 0
        if truth < fewest or (most is not None and truth > most):
            self.wrong.append(f"{program}: {truth} calls were live, {fewest} to {most} were said")

    def __str__(self) -> str:
        every = max(sum(self.kinds.values()), 1)
        one, closed, some = (self.kinds[kind] for kind in ("one number", "range", "at least"))
        return (
            f"{len(self.wrong)} wrong; one number {one / every:.1%}, a range {closed / every:.1%} (mean width "
            f"{self.width / max(closed, 1):.1f}), at least a number {some / every:.1%} (mean "
            f"{self.beyond / max(some, 1):.1f} more came); as if it goes the same way "
            f"{self.same_way / every:.1%} right"
        )
