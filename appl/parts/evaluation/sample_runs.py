"""``evaluate``: a program on cases, each with its scores, side by side, as part of a run.

Invariant: a sample's address is made of the id of its case, so that an edit, other cases or a
broken-off run leave the answers of all other cases where they are.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Generator, Iterable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, cast

from appl.errors import InvalidOption
from appl.parts.evaluation.cases import Case, cases_of
from appl.parts.evaluation.meter import UsageMeter
from appl.parts.evaluation.plain import plain
from appl.parts.evaluation.report import Evaluation, Sample
from appl.parts.evaluation.scores import Scorer, number_of, scorers_of
from appl.parts.evaluation.trace_reading import SAMPLE, SUBJECT, recorded
from appl.runtime.concurrency.fiber import in_coroutine, strand_here
from appl.runtime.concurrency.future import Future
from appl.runtime.concurrency.parallel import MapItems, scope_beside, start
from appl.runtime.concurrency.progress import progress_for
from appl.runtime.concurrency.promise import Error
from appl.runtime.concurrency.running import Running
from appl.runtime.concurrency.structure import cancel_all, join
from appl.runtime.concurrency.task import Task, context_for
from appl.runtime.event import Observed
from appl.runtime.frame import Frame, here
from appl.runtime.resolve import resolve
from appl.runtime.traced import traceable

if TYPE_CHECKING:

    class Evaluated(Evaluation):
        """An evaluation that may be awaited, too: in a coroutine it has to be."""

        def __await__(self) -> Generator[object, None, Evaluation]: ...


def evaluate(
    f: Callable[..., object],
    data: object,
    *,
    scores: object = ("exact",),
    samples: int = 1,
    against: object = None,
    concurrency: int | None = None,
    limit: int | None = None,
    fail_fast: bool = False,
    progress: bool | None = None,
) -> Evaluated:
    """Run *f* on every case of *data* and score its answers; in a coroutine ``await`` it.

    For example::

        result = appl.evaluate(answer, "cases.jsonl", scores=["exact"])
        print(result)

    f: A prompt function, a coroutine function, or a plain function.
    data: A file (``.jsonl``, ``.json``, ``.csv``), or an iterable of cases. A case is a mapping
        with ``input``, and perhaps ``target`` and ``id``, or a pair of input and target. An input
        that is a mapping of parameters is passed by name, anything else as the one argument.
    scores: Functions ``score(answer, target)``, also prompt functions, or names of ready ones:
        ``exact``, ``contains``, ``regex``, ``json``, ``choice``.
    samples: How often each case is answered.
    against: What it is compared with, case by case: another function, which runs beside *f*, an
        ``Evaluation``, or the path of the trace of one.
    concurrency: How many samples run at once; by default all of them.
    limit: The number of cases that are taken, from the first; by default all.
    fail_fast: Whether the first sample that fails ends the evaluation with its error. By default
        failures are counted, and shown with the results.
    progress: Whether a progress bar is shown; by default on a terminal.

    Raises ``InvalidOption`` for data or scores that are none, before anything is asked.
    """
    for name, number in (("samples", samples), ("concurrency", concurrency), ("limit", limit)):
        if number is not None and (type(number) is not int or number < 1):
            raise InvalidOption(f"evaluate({name}={number!r}): a whole number, at least 1")
    if not callable(f):
        raise InvalidOption(f"evaluate(f, data) takes a function, got {f!r:.80}")
    scorers, programs = scorers_of(scores), [f]
    other: Evaluation | None = None
    if isinstance(against, str | os.PathLike):
        other = recorded(against)
    elif isinstance(against, Evaluation):
        other = against
    elif callable(against):
        programs.append(against)
    elif against is not None:
        raise InvalidOption(
            "evaluate(against=…) takes a function, an Evaluation or the path of a trace, got "
            f"{against!r:.80}"
        )
    rows = list(data) if isinstance(data, Iterable) and not isinstance(data, str) else data
    cases = [cases_of(rows, program, limit) for program in programs]
    plan = _Plan(programs, cases, scorers, samples, other, concurrency, fail_fast, progress)
    scoped = traceable("evaluate")  # in partials, which have no line: it is not one of the user's
    if in_coroutine():
        return cast("Evaluated", Running(scoped(partial(plan.arun))(), None))
    return cast("Evaluated", scoped(partial(plan.run))())


class _Item(NamedTuple):
    """A sample to be made: that of *number* of a case, by program *side*."""

    side: int
    case: Case
    number: int


class _Plan:
    """The programs, cases and settings of an evaluation."""

    def __init__(
        self,
        programs: list[Callable[..., object]],
        cases: list[list[Case]],
        scorers: list[Scorer],
        samples: int,
        other: Evaluation | None,
        concurrency: int | None,
        fail_fast: bool,
        progress: bool | None,
    ) -> None:
        self.programs, self.scorers, self.other = programs, scorers, other
        self.concurrency, self.fail_fast, self.progress = concurrency, fail_fast, progress
        self.names = [_name(program) for program in programs]
        self.items = [
            _Item(side, case, number)
            for beside in zip(*cases, strict=True)
            for number in range(samples)
            for side, case in enumerate(beside)
        ]
        self.began = time.monotonic()

    def run(self) -> Evaluation:
        """Make all samples; in the scope of the evaluation."""
        job = _Samples(self)
        try:
            return self._result(job, job.run())
        finally:
            job.close()

    async def arun(self) -> Evaluation:
        """The same in a coroutine."""
        job = _Samples(self)
        try:
            return self._result(job, await job.arun())
        finally:
            job.close()

    def _result(self, job: _Samples, values: list[object]) -> Evaluation:
        samples_by_side: list[list[Sample]] = [[] for _ in self.programs]
        for item, sample in zip(self.items, job.samples, strict=True):
            if sample is not None:
                samples_by_side[item.side].append(sample)
        names = tuple(scorer.name for scorer in self.scorers)
        seconds = time.monotonic() - self.began
        evaluations = [
            Evaluation(name, names, samples, job.meter.usage(samples), seconds)
            for name, samples in zip(self.names, samples_by_side, strict=True)
        ]
        other = evaluations[1] if len(evaluations) > 1 else self.other
        mine = evaluations[0]
        return Evaluation(mine.program, names, mine.samples, mine.usage, seconds, other)


def _name(program: Callable[..., object]) -> str:
    while isinstance(program, partial):
        program = program.func
    return str(getattr(program, "__name__", type(program).__name__))


class _Samples(MapItems):
    """The samples of a plan on their way; ``samples`` has those that are there, in order."""

    def __init__(self, plan: _Plan) -> None:
        count = len(plan.items)
        shown = progress_for("evaluate", count, plan.progress)
        super().__init__(
            evaluate, [()] * count, plan.concurrency or count, not plan.fail_fast, shown
        )
        self._plan, self._frame = plan, here(lambda: "evaluate")
        self.samples: list[Sample | None] = [None] * count
        self.meter = UsageMeter(self._frame.address)
        self._frame.run.reporter.add_first(self.meter)
        self._sides = [self._side(number) for number in range(len(plan.programs))]

    def close(self) -> None:
        """Stop counting."""
        self._frame.run.reporter.remove(self.meter)

    def _side(self, number: int) -> Frame:
        """The frame that the samples of program *number* stand in; says what is evaluated there."""
        plan = self._plan
        frame = self._frame
        if number:
            frame = scope_beside(self._frame, f"against:{plan.names[number]}")
        names = [scorer.name for scorer in plan.scorers]
        against = None
        if not number and len(plan.programs) > 1:
            against = f"{frame.address}/against:{plan.names[1]}.0"
        subject = {"program": plan.names[number], "scores": names, "against": against}
        _note(frame, SUBJECT, subject)
        return frame

    def begin(self, index: int) -> Task:
        """Begin sample *index* beside the others, at the address of its case."""
        item = self._plan.items[index]
        side = self._sides[item.side]
        frame = scope_beside(side, item.case.name)
        task = Task(frame, strand_here().hub)
        self._frame.add(task)
        body = partial(self._sample, index, item, frame)
        if frame.run.services.sequential:
            task.run_here(body, context_for(frame))
        else:
            task.run_in_fiber(body, context_for(frame))
        return task

    def _sample(self, index: int, item: _Item, frame: Frame) -> None:
        """Answer and score; in the frame of the sample."""
        case, program = item.case, self._plan.programs[item.side]
        make_sample = partial(
            Sample, case.id, item.number, plain(case.input), plain(case.target),
            address=frame.address,
        )  # fmt: skip
        try:
            answer = _ended(start(program, case.args, dict(case.kwargs)))
        except Exception as error:
            none = {scorer.name: None for scorer in self._plan.scorers}
            self._keep(index, frame, make_sample(None, none, error=_words(error)))
            raise
        scores, errors = self._scored(answer, case)
        self._keep(index, frame, make_sample(plain(answer), scores, errors=errors))

    def _scored(self, answer: object, case: Case) -> tuple[dict[str, float | None], dict[str, str]]:
        """The scores of *answer*, made side by side, and the errors of those that failed."""
        started: list[Callable[[], object]] = []
        for scorer in self._plan.scorers:
            args, named = scorer.arguments(answer, case)
            if scorer.ready:
                started.append(partial(scorer.f, *args))
            else:
                started.append(partial(_ended, start(scorer.f, args, named)))
        scores: dict[str, float | None] = {}
        errors: dict[str, str] = {}
        for scorer, value in zip(self._plan.scorers, started, strict=True):
            scores[scorer.name] = None
            try:
                scores[scorer.name] = number_of(value())
            except Exception as error:
                if self._plan.fail_fast:
                    raise
                errors[scorer.name] = _words(error)
        return scores, errors

    def _keep(self, index: int, frame: Frame, sample: Sample) -> None:
        self.samples[index] = sample
        _note(frame, SAMPLE, {**sample.as_data(), "order": index})


def _ended(task: Task) -> object:
    """The finished value of *task*, once all that it started has ended.

    Raises its error, or that of a call which it left and nobody looked at. An error ends the rest.
    """
    try:
        value = resolve(Future(task))
        failed = join([task])
        if failed is not None and isinstance(failed.outcome, Error):
            raise failed.outcome.error
    except BaseException:
        cancel_all([task])
        raise
    return value


def _note(frame: Frame, kind: str, value: object) -> None:
    """Record *value* at the address of *frame*. No program is shown it, and no replay needs it."""
    frame.run.reporter.emit(Observed(frame.address, 0, kind, value, time.monotonic_ns()))


def _words(error: Exception) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
