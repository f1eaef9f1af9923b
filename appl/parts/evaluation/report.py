"""The results of an evaluation: samples, means with intervals, and comparisons, as values.

Invariant: everything here follows from the samples, so that a recorded evaluation reads the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from statistics import fmean
from typing import Any

from appl.backend.price import total
from appl.parts.evaluation.intervals import interval, paired
from appl.parts.evaluation.plain import text

_CHANGED = 5
_WIDTH = 60
Row = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Sample:
    """One answer to one case, and its scores by name; what failed has an error in words.

    ``error`` is the program's, ``errors`` are those of scores. ``number`` counts the samples of a
    case from 0. ``address`` is where it stands in the run.
    """

    id: str
    number: int
    input: object
    target: object
    answer: object
    scores: Mapping[str, float | None]
    error: str | None = None
    errors: Mapping[str, str] = field(default_factory=dict)
    address: str = ""

    def as_data(self) -> dict[str, Any]:
        """The sample as JSON-ready data."""
        return {name: getattr(self, name) for name in _FIELDS}


_FIELDS = ("id", "number", "input", "target", "answer", "scores", "error", "errors", "address")


@dataclass(frozen=True, slots=True)
class Summary:
    """A score over all cases: its mean, the 95% interval, and so many samples without it.

    ``mean`` is ``None`` if nothing was scored; ``low`` and ``high`` are ``None`` for one case.
    ``with_failures`` is the mean in which a failed sample counts 0.
    """

    mean: float | None
    low: float | None
    high: float | None
    cases: int
    scored: int
    failed: int
    with_failures: float | None


@dataclass(frozen=True, slots=True)
class Difference:
    """A score against that of another program, over the ``cases`` that both have.

    ``better`` and ``worse`` are the changed cases: id, mean before, and mean after. ``p`` is the
    probability of a difference so large by chance.
    """

    mean: float | None
    low: float | None
    high: float | None
    p: float | None
    cases: int
    better: tuple[tuple[str, float, float], ...] = ()
    worse: tuple[tuple[str, float, float], ...] = ()


@dataclass(frozen=True, slots=True)
class EvaluationUsage:
    """The model calls of an evaluation: ``reused`` of them were answered by an earlier run.

    ``cost``, in millionths of the currency unit, is that of all of them, also in an earlier run;
    the cost of ``cost_unknown`` is not known.
    """

    calls: int = 0
    reused: int = 0
    cost: int = 0
    cost_unknown: int = 0

    def line(self) -> str:
        """The sums in words."""
        calls = "1 call" if self.calls == 1 else f"{self.calls} calls"
        reused = f", {self.reused} of them from an earlier run" if self.reused else ""
        paid = self.cost or self.cost_unknown
        cost = f", cost {total(self.cost, self.cost_unknown)}" if paid else ""
        return f"{calls}{reused}{cost}"


class Evaluation:
    """The result of ``evaluate``: the ``samples`` of all cases, in their order, and their sums.

    ``program`` is the name of the function, ``names`` are those of the scores. ``against`` is the
    evaluation that it is compared with. ``seconds`` is the time that it took; 0 for one that is
    read from a trace. As text it is a table.
    """

    def __init__(
        self,
        program: str,
        names: tuple[str, ...],
        samples: Sequence[Sample],
        usage: EvaluationUsage,
        seconds: float = 0.0,
        against: Evaluation | None = None,
    ) -> None:
        self.program, self.names, self.samples = program, names, samples
        self.usage, self.seconds, self.against = usage, seconds, against

    @property
    def scores(self) -> dict[str, Summary]:
        """Each score's summary, by name."""
        return {name: self._summary(name) for name in self.names}

    @property
    def failures(self) -> list[Sample]:
        """The samples without an answer, or without one of their scores, for an error."""
        return [sample for sample in self.samples if sample.error is not None or sample.errors]

    @property
    def differences(self) -> dict[str, Difference]:
        """Each score's difference from ``against``, for the scores that both have."""
        other = self.against
        if other is None:
            return {}
        return {name: self._difference(name, other) for name in self.names if name in other.names}

    def mean(self, name: str | None = None) -> float:
        """The mean of the score *name*, or of the first one, in which a failure counts 0.

        Raises ``KeyError`` for a score that there is not.
        """
        mean = self.scores[self.names[0] if name is None else name].with_failures
        return 0.0 if mean is None else mean

    def cases(self, name: str) -> dict[str, list[float]]:
        """The scores *name* of the samples of each case, by id; those that have one."""
        scores: dict[str, list[float]] = {sample.id: [] for sample in self.samples}
        for sample in self.samples:
            score = sample.scores.get(name)
            if score is not None:
                scores[sample.id].append(score)
        return scores

    def _summary(self, name: str) -> Summary:
        cases = self.cases(name)
        scored = [scores for scores in cases.values() if scores]
        failed = [sample for sample in self.samples if sample.error or name in sample.errors]
        estimate = interval(scored)
        mean, low, high = estimate if estimate is not None else (None, None, None)
        every = {case: list(scores) for case, scores in cases.items()}
        for sample in failed:
            every[sample.id].append(0.0)
        means = [fmean(scores) for scores in every.values() if scores]
        with_failures = fmean(means) if means else None  # a failed sample counts 0
        samples = sum(map(len, scored))
        return Summary(mean, low, high, len(scored), samples, len(failed), with_failures)

    def _difference(self, name: str, other: Evaluation) -> Difference:
        mine, theirs = self.cases(name), other.cases(name)
        both = [case for case in mine if mine[case] and theirs.get(case)]
        after, before = ([fmean(scores[case]) for case in both] for scores in (mine, theirs))
        binary = all(
            score in (0.0, 1.0)
            for case in both
            for score in (fmean(mine[case]), fmean(theirs[case]), *mine[case], *theirs[case])
        )
        estimate = paired(after, before, binary)
        changed = [
            (case, old, new)
            for case, old, new in zip(both, before, after, strict=True)
            if old != new
        ]
        better = tuple(change for change in changed if change[2] > change[1])
        worse = tuple(change for change in changed if change[2] < change[1])
        mean, low, high, p = estimate if estimate is not None else (None, None, None, None)
        return Difference(mean, low, high, p, len(both), better, worse)

    # -- for people

    def __str__(self) -> str:
        return "\n".join([self.title(), *self.table(), *self.notes()])

    def table(self) -> list[str]:
        """The table as lines of text."""
        rows = [self.head(), *self.rows()]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        return [
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in rows
        ]

    def title(self) -> str:
        """The subject of the evaluation, in a line."""
        cases = len({sample.id for sample in self.samples})
        most = max((sample.number + 1 for sample in self.samples), default=1)
        samples = f", {most} samples each" if most > 1 else ""
        against = f" against {self.against.program}" if self.against is not None else ""
        count = "1 case" if cases == 1 else f"{cases} cases"
        return f"{self.program}{against}: {count}{samples}"

    def head(self) -> Row:
        """The heads of the columns."""
        if self.against is None:
            return ("score", "mean", "95% interval", "failed")
        names = (self.program, self.against.program)
        before = f"{names[1]} (before)" if names[0] == names[1] else names[1]
        return (
            "score", names[0], before, "change", "95% interval", "p", "better", "worse",
            "failed",
        )  # fmt: skip

    def rows(self) -> Iterator[Row]:
        """The rows of the table."""
        differences, other = self.differences, self.against
        for name, score in self.scores.items():
            if other is None:
                yield name, _number(score.mean), _span(score.low, score.high), str(score.failed)
                continue
            theirs = other.scores.get(name)
            difference = differences.get(name, Difference(None, None, None, None, 0))
            yield (
                name,
                _number(score.mean),
                _number(theirs.mean) if theirs is not None else "–",
                _signed(difference.mean),
                _span(difference.low, difference.high, _signed),
                f"{difference.p:.3f}" if difference.p is not None else "–",
                str(len(difference.better)),
                str(len(difference.worse)),
                str(score.failed),
            )

    def notes(self) -> Iterator[str]:
        """The changed cases, the failures and the sums, in lines."""
        for name, difference in self.differences.items():
            for word, changed in (("better", difference.better), ("worse", difference.worse)):
                if changed:
                    shown = [f"{case} {_short(old)}→{_short(new)}" for case, old, new in changed]
                    yield f"{word} in {name}: {_some(shown)}"
        failed: dict[str, list[str]] = {}  # the ids of samples by the first line of their errors
        for sample in self.failures:
            errors = (
                [sample.error] if sample.error else [f"{k}: {v}" for k, v in sample.errors.items()]
            )
            for error in errors:
                line = (error or "").partition("\n")[0]
                line = line if len(line) <= 2 * _WIDTH else f"{line[: 2 * _WIDTH - 1]}…"
                failed.setdefault(line, []).append(sample.id)
        for error, ids in list(failed.items())[:_CHANGED]:
            yield f"failed: {_some(ids)}: {error}"
        if len(failed) > _CHANGED:
            yield f"failed: {len(failed) - _CHANGED} other errors"
        if self.usage.calls:
            name = f"{self.program}: " if self.against is not None else ""
            yield name + self.usage.line() + (f"; {self.seconds:.1f} s" if self.seconds else "")
        if self.against is not None and self.against.usage.calls:
            yield f"{self.against.program}: {self.against.usage.line()}"

    def as_data(self) -> dict[str, Any]:
        """All of it as JSON-ready data."""
        return {
            "program": self.program,
            "cases": len({sample.id for sample in self.samples}),
            "scores": {name: _data(score) for name, score in self.scores.items()},
            "differences": {
                name: _data(difference) for name, difference in self.differences.items()
            },
            "failed": len(self.failures),
            "usage": _data(self.usage),
            "seconds": round(self.seconds, 3),
            "samples": [sample.as_data() for sample in self.samples],
            "against": self.against.as_data() if self.against is not None else None,
        }


def _some(words: Sequence[str]) -> str:
    more = len(words) - _CHANGED
    return ", ".join(words[:_CHANGED]) + (f" and {more} more" if more > 0 else "")


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def _short(value: float) -> str:
    return f"{value:.3g}"


def _signed(value: float | None) -> str:
    return "–" if value is None else f"{value:+.3f}"


def _span(low: float | None, high: float | None, shown: Any = _number) -> str:
    return "–" if low is None or high is None else f"{shown(low)} to {shown(high)}"


def _data(value: Summary | Difference | EvaluationUsage) -> dict[str, Any]:
    return {field.name: getattr(value, field.name) for field in fields(value)}


def shown(value: object) -> str:
    """*value* on one short line."""
    line = " ".join(text(value).split())
    return line if len(line) <= _WIDTH else f"{line[: _WIDTH - 1]}…"
