"""``optimize``: proposes texts for the prompts of a program, and keeps those that score higher.

Invariant: a decision follows from recorded answers and the seed alone, so that the same command
takes the same way again, without asking what it has asked. All calls are inside of one budget.

The method is reflective search with a Pareto front over cases (L. Agrawal et al., GEPA,
arXiv:2507.19457).
"""

from __future__ import annotations

import math
import random
import sys
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from statistics import fmean
from typing import TYPE_CHECKING, Any, cast

from appl.errors import BudgetExceeded, InvalidOption
from appl.parts.evaluation.cases import cases_of
from appl.parts.evaluation.plain import text as text_of
from appl.parts.evaluation.report import Evaluation, Sample
from appl.parts.evaluation.sample_runs import evaluate
from appl.parts.evaluation.scores import scorers_of
from appl.parts.optimization.calls import Calls, Line
from appl.parts.optimization.components import Component, Key, Program
from appl.parts.optimization.proposer import Example, Reflection, propose, text_in
from appl.parts.optimization.result import Optimization, Proposal, Use
from appl.prompt import digest_of
from appl.runtime.budget import budget
from appl.runtime.concurrency.fiber import in_coroutine
from appl.runtime.concurrency.future import Future
from appl.runtime.concurrency.parallel import start
from appl.runtime.concurrency.running import Running
from appl.runtime.frame import Frame, here
from appl.runtime.resolve import resolve
from appl.runtime.scheduling.accounts import Amounts
from appl.runtime.traced import traceable

if TYPE_CHECKING:

    class Optimized(Optimization):
        """An optimisation that may be awaited, too: in a coroutine it has to be."""

        def __await__(self) -> Generator[object, None, Optimization]: ...


_UNLIMITED = 1 << 60  # calls
_MARGIN = 1.5
"""The part of the budget that the last evaluation has, in what the same one took before."""
_EARLIER = 2
Steps = Generator[Callable[[], object], Any, Optimization]


def optimize(
    f: Callable[..., object],
    data: object,
    *,
    scores: object = ("exact",),
    held_out: object = None,
    tokens: int | None = None,
    cost: float | None = None,
    calls: int | None = None,
    proposals: int = 20,
    proposer: str | Callable[[Reflection], object] | None = None,
    samples: int = 1,
    batch: int = 4,
    concurrency: int | None = None,
    seed: int = 0,
    progress: bool | None = None,
) -> Optimized:
    """Find better texts for the prompts of *f*; in a coroutine ``await`` it.

    For example::

        result = appl.optimize(answer, "cases.jsonl", scores=["exact"], tokens=50_000)
        print(result)                   # scores before and after, and the diff of the source
        if result.is_better:
            result.write()

    Texts are strings and f-strings that are statements of prompt functions: of those that *f*
    calls, and that its scores do not. While it searches, the functions have other texts, for
    everybody in this process.

    f: A prompt function, or a function that calls some.
    data: Cases, as for ``evaluate``.
    scores: As for ``evaluate``; the first one is raised.
    held_out: Cases on which the result is measured, and which nobody learns from; by default a
        third of *data*, by the digests of their ids.
    tokens, cost, calls: The budget of all calls together: of the program, its scores and the
        proposer. A call that could pass it is not sent. *cost* is in the currency unit of prices.
    proposals: The number of proposals after which the search ends.
    proposer: The model that proposes, by default that of the run; or a function of a
        ``Reflection`` that returns a text.
    samples: How often each case is answered.
    batch: The number of training cases that a proposal is made from and tried on first.
    concurrency: How many samples run at once; by default all of them.
    seed: Another one makes other choices of candidates and cases.
    progress: Whether progress is shown; by default on a terminal.

    Raises ``InvalidOption`` for options and data that are none, and where there is no text to
    improve; ``BudgetExceeded`` if the budget does not suffice for the program as it is.
    """
    for name, number in (("samples", samples), ("proposals", proposals), ("batch", batch)):
        if type(number) is not int or number < 1:
            raise InvalidOption(f"optimize({name}={number!r}): a whole number, at least 1")
    if not callable(f):
        raise InvalidOption(f"optimize(f, data) takes a function, got {f!r:.80}")
    if not (proposer is None or isinstance(proposer, str) or callable(proposer)):
        raise InvalidOption(
            f"optimize(proposer=…) takes the name of a model, or a function, got {proposer!r:.80}"
        )
    limits = {"tokens": tokens, "cost": cost, "calls": calls}
    search = _Search(
        f,
        _split(f, data, held_out),
        scores,
        {name: limit for name, limit in limits.items() if limit is not None},
        proposals,
        proposer,
        partial(evaluate, samples=samples, concurrency=concurrency),
        batch,
        random.Random(seed),
        progress,
    )
    scoped = traceable("optimize")
    if in_coroutine():
        return cast("Optimized", Running(scoped(partial(search.arun))(), None))
    return cast("Optimized", scoped(partial(search.run))())


Row = Mapping[str, object]


def _split(
    f: Callable[..., object], data: object, held_out: object
) -> tuple[dict[str, Row], dict[str, Row]]:
    """The cases to learn from and those that are held out, by id."""
    rows = _rows(f, data)
    if held_out is not None:
        held = _rows(f, held_out)
        for case_id in held:
            rows.pop(case_id, None)
        if not rows:
            raise InvalidOption("optimize(held_out=…): all cases of the data are held out")
        return rows, held
    count = len(rows) // 3
    if not count:
        raise InvalidOption(
            f"optimize(f, data): a third of the cases is held out, and there are {len(rows)}; "
            "give at least 3, or held_out=… with others"
        )
    # By digest, so that more cases, or another order, move few of them to the other side.
    chosen = sorted(rows, key=lambda case_id: digest_of("held out", case_id))[:count]
    return (
        {case_id: row for case_id, row in rows.items() if case_id not in chosen},
        {case_id: rows[case_id] for case_id in chosen},
    )


def _rows(f: Callable[..., object], data: object) -> dict[str, Row]:
    if isinstance(data, Iterable) and not isinstance(data, str):
        data = list(data)
    return {each.id: {**each.fields, "id": each.id} for each in cases_of(data, f)}


@dataclass(slots=True)
class _Candidate:
    """A program with new texts: its evaluation on training cases, and its score by case.

    ``places`` says where each text stands in the candidate's source; ``earlier`` are proposals that
    were not taken, by text, with the reasons.
    """

    number: int
    texts: dict[Key, str]
    evaluation: Evaluation
    scores: dict[str, float]
    places: Mapping[Key, Component]
    earlier: dict[Key, list[tuple[str, str]]] = field(default_factory=dict)

    @property
    def mean(self) -> float:
        """The mean over all training cases."""
        return fmean(self.scores.values()) if self.scores else 0.0


class _OverBudget(Exception):
    """The budget has refused a call of a candidate, which thus has no score."""


class _Search:
    """One optimisation."""

    def __init__(
        self,
        f: Callable[..., object],
        cases: tuple[dict[str, Row], dict[str, Row]],
        scores: object,
        limits: dict[str, Any],
        most: int,
        proposer: str | Callable[[Reflection], object] | None,
        evaluation: Callable[..., Evaluation],
        batch: int,
        rng: random.Random,
        progress: bool | None,
    ) -> None:
        scorers = scorers_of(scores)
        self._scores = [each.f if not each.ready else each.name for each in scorers]
        self._judges = {f"{each.f.__name__}." for each in scorers if hasattr(each.f, "__name__")}
        self._objective = scorers[0].name
        self._f, self._program = f, Program(f)
        self._train, self._held = cases
        self._limits, self._most = limits, most
        self._propose = proposer if callable(proposer) else partial(propose, model=proposer)
        self._evaluate, self._batch, self._rng = evaluation, batch, rng
        self._progress = progress
        self._turns: Counter[Key] = Counter()
        self._proposals: list[Proposal] = []
        self._pool: list[_Candidate] = []
        self._tried: set[tuple[tuple[Key, str], ...]] = {()}

    # -- the two ways to perform the steps

    def run(self) -> Optimization:
        """Search; in the scope of the optimisation."""
        with ExitStack() as stack:
            steps = self._steps(stack)
            try:
                step = next(steps)
                while True:
                    try:
                        value = step()
                        value = resolve(value) if isinstance(value, Future) else value
                    except Exception as error:
                        step = steps.throw(error)
                    else:
                        step = steps.send(value)
            except StopIteration as ended:
                return cast(Optimization, ended.value)
            finally:
                steps.close()

    async def arun(self) -> Optimization:
        """The same in a coroutine."""
        with ExitStack() as stack:
            steps = self._steps(stack)
            try:
                step = next(steps)
                while True:
                    try:
                        value: Any = step()
                        value = await value if hasattr(value, "__await__") else value
                    except Exception as error:
                        step = steps.throw(error)
                    else:
                        step = steps.send(value)
            except StopIteration as ended:
                return cast(Optimization, ended.value)
            finally:
                steps.close()

    # -- the steps: each is called, and its value, waited for, comes back

    def _steps(self, stack: ExitStack) -> Steps:
        frame: Frame = here(lambda: "optimize")
        self._tell = frame.run.reporter.tell
        self._calls = calls = stack.enter_context(Calls(frame))
        total = stack.enter_context(budget(**(self._limits or {"calls": _UNLIMITED})))
        first = yield from self._first()
        spent = total.spent
        before = yield from self._evaluated({}, self._held)
        reserve = _difference(total.spent, spent)
        self._used = self._components(first)
        self._pool = [first]
        with budget(**self._left(total.spent, reserve)):
            ended = yield from self._searched()
        best = max(self._pool, key=lambda each: (each.mean, -each.number))
        after, refused = before, False
        if best.number:
            with self._program.using(best.texts):
                calls.refusal = None
                after = yield partial(
                    self._evaluate, self._f, list(self._held.values()), scores=self._scores,
                    against=before, progress=self._progress,
                )  # fmt: skip
                refused = calls.refusal is not None
        if refused:
            ended += "; the budget did not suffice for all cases that are held out"
        return Optimization(
            self._program,
            best.texts,
            self._proposals,
            (first.evaluation, best.evaluation),
            (before, after),
            (self._use(before), self._use(after)),
            (calls.of_candidates, calls.of_proposer),
            ended,
        )

    def _first(self) -> Generator[Callable[[], object], Any, _Candidate]:
        """The program as it is."""
        places = {each.key: each for each in self._program.components}
        evaluation = yield from self._evaluated({}, self._train)
        return _Candidate(0, {}, evaluation, self._by_case(evaluation), places)

    def _evaluated(
        self, texts: dict[Key, str], rows: Mapping[str, Row]
    ) -> Generator[Callable[[], object], Any, Evaluation]:
        """The evaluation of the program as it is. Raises ``BudgetExceeded``."""
        self._calls.refusal = None
        evaluation: Evaluation = yield partial(
            self._evaluate, self._f, list(rows.values()), scores=self._scores,
            progress=self._progress,
        )  # fmt: skip
        if self._calls.refusal is not None:
            refusal = self._calls.refusal
            refusal.add_note(
                f"the budget does not suffice to evaluate the program as it is, on {len(rows)} "
                "cases; nothing was proposed"
            )
            raise refusal
        return evaluation

    def _searched(self) -> Generator[Callable[[], object], Any, str]:
        """Propose and try until there is a reason to end, which is returned in words."""
        for number in range(1, self._most + 1):
            best = max(self._pool, key=lambda each: each.mean)
            if all(score >= 1 for score in best.scores.values()):
                return "all cases to learn from have the full score"
            parent = self._parent()
            try:
                proposal = yield from self._tried_one(number, parent)
            except (_OverBudget, BudgetExceeded):
                return "the budget is used up"
            self._proposals.append(proposal)
            self._say(proposal.line())
            news = [
                each for each in self._proposals[-2 * len(self._used) :] if each.after is not None
            ]
            if not news and number >= max(2 * len(self._used), 3):
                return "the proposer has no new texts"
        return f"{self._most} proposals were made"

    def _tried_one(
        self, number: int, parent: _Candidate
    ) -> Generator[Callable[[], object], Any, Proposal]:
        """Propose a text for one component of *parent*, and try it."""
        batch = self._chosen(parent)
        component = self._component(parent, batch)
        reflection = self._reflection(parent, component, batch)
        try:
            answer = yield lambda: Future(start(self._propose, (reflection,), {}))
        except BudgetExceeded:
            raise
        except Exception as error:  # what a function of the user's raises, too
            words = f"the proposer failed: {type(error).__name__}: {error}"
            return Proposal(
                number, parent.number, component.name, "", None, None, None, words.rstrip(": ")
            )
        text = _in_place(text_in(text_of(answer)), component.text)
        texts = {**parent.texts, component.key: text}
        if text == self._original(component.key):
            del texts[component.key]
        made = partial(Proposal, number, parent.number, component.name, text)
        earlier = parent.earlier.setdefault(component.key, [])
        reason = component.refusal(text)
        if reason is None and tuple(sorted(texts.items())) in self._tried:
            reason = "it was tried before"
        if reason is not None:
            earlier.append((text, f"It was not tried: {reason}."))
            return made(None, None, None, reason)
        self._tried.add(tuple(sorted(texts.items())))
        with self._program.using(texts) as places:
            found = yield from self._scored(batch)
            scores = self._by_case(found)
            before, after = (
                [each.get(case, 0.0) for case in batch] for each in (parent.scores, scores)
            )
            if sum(after) <= sum(before):
                earlier.append(
                    (text, f"Its mean score was {fmean(after):.3f} for {fmean(before):.3f}.")
                )
                return made(fmean(before), fmean(after), None, "it is no better there")
            whole = yield from self._scored(self._train)
        new = _Candidate(len(self._pool), texts, whole, self._by_case(whole), places)
        self._pool.append(new)
        return made(fmean(before), fmean(after), new.mean, "")

    def _scored(self, cases: Iterable[str]) -> Generator[Callable[[], object], Any, Evaluation]:
        """The evaluation of the present candidate on training *cases*. Raises ``_OverBudget``."""
        self._calls.refusal = None
        rows = [self._train[case] for case in cases]
        evaluation: Evaluation = yield partial(
            self._evaluate, self._f, rows, scores=self._scores, progress=self._progress
        )
        if self._calls.refusal is not None:
            raise _OverBudget
        return evaluation

    # -- choices

    def _parent(self) -> _Candidate:
        """A candidate that is the best one for some case: more often, the more they are."""
        wins: Counter[int] = Counter()
        for case in self._train:
            best = max(each.scores.get(case, 0.0) for each in self._pool)
            wins.update(each.number for each in self._pool if each.scores.get(case, 0.0) == best)
        names = sorted(wins)
        number = self._rng.choices(names, [wins[name] for name in names])[0]
        return self._pool[number]

    def _chosen(self, parent: _Candidate) -> list[str]:
        """Cases to reflect on: mostly such as *parent* fails, and one that it does not."""
        scores = {case: parent.scores.get(case, 0.0) for case in self._train}
        failed = [case for case, score in scores.items() if score < 1]
        others = [case for case, score in scores.items() if score >= 1]
        self._rng.shuffle(failed)
        self._rng.shuffle(others)
        good = 1 if others and self._batch > 1 else 0
        chosen = failed[: self._batch - good]
        return chosen + others[: self._batch - len(chosen)]

    def _component(self, parent: _Candidate, batch: Sequence[str]) -> Component:
        """The text to change: one in prompts of the *batch* that was changed least often so far."""
        lines = self._lines(self._samples(parent.evaluation, batch))
        mine = [parent.places[key] for key in self._used]
        used = [each for each in mine if _stands_in(each, lines)] or mine
        chosen = min(used, key=lambda each: self._turns[each.key])  # the first of several
        self._turns[chosen.key] += 1
        return chosen

    def _components(self, first: _Candidate) -> list[Key]:
        """The texts that stand in prompts of the program, and in none of its scores."""
        addresses = [each.address for each in first.evaluation.samples]
        mine: set[Line] = set()
        theirs: set[Line] = set()
        for call in self._calls.below(addresses):
            below = self._below(call.address, addresses)
            (theirs if below.startswith(tuple(self._judges)) else mine).update(call.lines)
        every = self._program.components
        keys = [
            each.key for each in every if _stands_in(each, mine) and not _stands_in(each, theirs)
        ]
        if not keys:
            raise InvalidOption(
                f"optimize({getattr(self._f, '__name__', 'f')}): none of the texts that can be "
                "changed stood in a prompt of the cases"
            )
        return keys

    def _below(self, address: str, samples: Iterable[str]) -> str:
        """The part of a call's *address* below its sample."""
        return next((address[len(at) + 1 :] for at in samples if address.startswith(f"{at}/")), "")

    def _original(self, key: Key) -> str:
        return next(each.text for each in self._program.components if each.key == key)

    # -- what is known of a candidate

    def _by_case(self, evaluation: Evaluation) -> dict[str, float]:
        """The score of each case: a failed sample counts 0."""
        values: dict[str, list[float]] = {}
        for each in evaluation.samples:
            score = each.scores.get(self._objective)
            if each.error is not None or self._objective in each.errors:
                score = 0.0
            if score is not None:
                values.setdefault(each.id, []).append(score)
        return {case: fmean(scores) for case, scores in values.items()}

    def _samples(self, evaluation: Evaluation, cases: Iterable[str]) -> list[Sample]:
        wanted = set(cases)
        return [each for each in evaluation.samples if each.id in wanted]

    def _lines(self, samples: Iterable[Sample]) -> set[Line]:
        addresses = [each.address for each in samples]
        return {line for call in self._calls.below(addresses) for line in call.lines}

    def _reflection(
        self, parent: _Candidate, component: Component, batch: Sequence[str]
    ) -> Reflection:
        by_case = {each.id: each for each in reversed(self._samples(parent.evaluation, batch))}
        failed = [case for case in batch if parent.scores.get(case, 0.0) < 1]
        examples = [self._example(by_case[case], component) for case in failed if case in by_case]
        earlier = parent.earlier.get(component.key, [])[-_EARLIER:]
        return Reflection(
            component.function, component.text, component.placeholders, examples, earlier
        )

    def _example(self, sample: Sample, component: Component) -> Example:
        calls = [
            (component.in_prompt(_prompt(call.messages)), call.answer or "")
            for call in self._calls.below([sample.address])
            if _stands_in(component, call.lines)
        ]
        scores = [f"{name} {score:g}" for name, score in sample.scores.items() if score is not None]
        errors = [sample.error or "", *(f"{k}: {v}" for k, v in sample.errors.items())]
        return Example(
            _unseen(sample.input, "\n".join(prompt for prompt, _ in calls)),
            calls,
            text_of(sample.answer),
            text_of(sample.target),
            ", ".join(scores) or "none",
            "; ".join(filter(None, errors)),
        )

    def _use(self, evaluation: Evaluation) -> Use:
        calls = list(self._calls.below([each.address for each in evaluation.samples]))
        costs = [call.cost for call in calls]
        cost = None if None in costs else sum(cast("list[int]", costs))
        cases = len({each.id for each in evaluation.samples})
        return Use(cases, len(calls), sum(call.tokens for call in calls), cost)

    # -- amounts

    def _left(self, spent: Amounts, reserve: Amounts) -> dict[str, Any]:
        """The budget of the search: what is left, without what the last evaluation will need."""
        if not self._limits:
            return {"calls": _UNLIMITED}
        amounts: dict[str, Any] = {}
        for name, limit in self._limits.items():
            used, reserved = getattr(spent, name) or 0, getattr(reserve, name) or 0
            unit = 1e6 if name == "cost" else 1
            amount = limit - (used + math.ceil(_MARGIN * reserved)) / unit
            amounts[name] = max(amount, 0) if name == "cost" else max(math.floor(amount), 0)
        return amounts

    def _say(self, line: str) -> None:
        shown = self._progress
        if shown is None:
            shown = sys.stderr.isatty()
        if shown:
            self._tell(f"appl: {line}")


def _difference(after: Amounts, before: Amounts) -> Amounts:
    return Amounts(*((a or 0) - (b or 0) for a, b in zip(after, before, strict=True)))


def _stands_in(component: Component, lines: Iterable[Line]) -> bool:
    return any(
        file == component.code_file and component.line <= line <= component.last
        for file, line in lines
    )


def _in_place(text: str, old: str) -> str:
    """*text* with the space around the *old* one."""
    start, end = len(old) - len(old.lstrip()), len(old.rstrip())
    return f"{old[:start]}{text.strip()}{old[end:]}" if old.strip() else text.strip()


def _unseen(value: object, prompts: str) -> str:
    """The parts of an input that do not stand in *prompts*."""
    if not isinstance(value, Mapping):
        text = text_of(value)
        return "" if text in prompts else text
    texts = {str(name): text_of(each) for name, each in value.items()}
    return "\n".join(f"{name}: {text}" for name, text in texts.items() if text not in prompts)


def _prompt(messages: Any) -> str:
    every = list(messages or ())
    if len(every) == 1:
        return text_of(every[0].content)
    return "\n".join(f"{each.role}: {text_of(each.content)}" for each in every)
