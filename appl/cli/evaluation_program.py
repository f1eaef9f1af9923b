"""The program behind ``appl eval``, which traces name, replay, resume and rerun."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from appl.cli.target import Target, UsageError, load, parse
from appl.cli.trace.run_names import run_path
from appl.errors import InvalidOption, TraceError
from appl.parts.evaluation.cases import cases_of
from appl.parts.evaluation.report import Evaluation
from appl.parts.evaluation.sample_runs import evaluate
from appl.parts.evaluation.scores import READY, scorers_of
from appl.parts.evaluation.trace_reading import recorded

PLACE, FUNCTION = __name__, "evaluation"


def evaluation(
    *,
    program: str,
    data: str,
    score: list[str],
    samples: int = 1,
    against: str = "",
    limit: int = 0,
    fail_fast: bool = False,
    progress: bool | None = None,
) -> Evaluation:
    """Evaluate the function that *program* names on the cases in the file *data*."""
    targets = Targets()
    function = targets.function(program)
    scores = [targets.score(word) for word in score] or ["exact"]
    try:
        cases_of(data, function)
        scorers_of(scores)
    except InvalidOption as error:
        raise UsageError(str(error)) from None
    return evaluate(
        function,
        data,
        scores=scores,
        samples=samples,
        against=targets.against(against) if against else None,
        limit=limit or None,
        fail_fast=fail_fast,
        progress=progress,
    )


class Targets:
    """The functions that a command line names; the module of each is imported once."""

    def __init__(self) -> None:
        self._known: dict[Target, Callable[..., object]] = {}

    def function(self, word: str) -> Callable[..., object]:
        """The function that *word* names."""
        target = parse(word)
        if target not in self._known:
            self._known[target] = load(target, to_call=True)
        return self._known[target]

    def score(self, word: str) -> object:
        """The score that *word* names: a ready one, or a function."""
        return word if word in READY or not _names_function(word) else self.function(word)

    def against(self, word: str) -> object:
        """The other side of the comparison: a function, or the evaluation of a recorded run."""
        if _names_function(word):
            return self.function(word)
        try:
            return recorded(run_path(word))
        except TraceError as error:
            raise UsageError(f"--against takes file.py:function or a run: {error}") from None


def _names_function(word: str) -> bool:
    """True if *word* is written as a function of a file or module."""
    return ":" in word or Path(word).suffix in (".py", ".pyw")
