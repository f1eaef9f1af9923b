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
from appl.parts.evaluation.report import Evaluation, EvaluationUsage, Sample
from appl.parts.evaluation.sample_runs import evaluate
from appl.parts.evaluation.scores import scorers_of
from appl.parts.optimization.calls import Calls, Line
from appl.parts.optimization.components import Component, EditableProgram, Key
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
_KEPT = 2.5
"""The part of the budget that the last evaluations have, of the program as it was and of the new
one, in what the first cases took."""
_SHOWN = 3  # cases, to the proposer
_FIRST = 2  # batches that are answered before the first proposal
_CHANCE = 0.05  # of a sign test
_USED = ("calls", "reused", "cost", "cost_unknown")
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
    batch: The number of training cases, of those that failed, that a proposal is tried on first.
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
    """A program with new texts, and what is known of it on training cases.

    ``reach`` of the cases are answered, from the first on; ``samples`` and ``scores`` have them.
    ``places`` says where each text stands in the candidate's source; ``earlier`` are proposals that
    were not taken, by text, with the reasons.
    """

    number: int
    texts: dict[Key, str]
    places: Mapping[Key, Component]
    reach: int = 0
    evaluations: list[Evaluation] = field(default_factory=list)
    scores: dict[str, float] = field(default_factory=dict)
    earlier: dict[Key, list[tuple[str, str]]] = field(default_factory=dict)

    @property
    def samples(self) -> list[Sample]:
        """The samples so far."""
        return [sample for each in self.evaluations for sample in each.samples]

    @property
    def evaluation(self) -> Evaluation:
        """All of its evaluations as one."""
        first, usages = self.evaluations[0], [each.usage for each in self.evaluations]
        usage = EvaluationUsage(*(sum(getattr(each, name) for each in usages) for name in _USED))
        seconds = sum(each.seconds for each in self.evaluations)
        return Evaluation(first.program, first.names, self.samples, usage, seconds)

    def total(self, cases: Iterable[str], unknown: float = 0.0) -> float:
        """The sum of its scores on *cases*, with *unknown* for each without one."""
        return math.fsum(self.scores.get(case, unknown) for case in cases)

    def failed(self) -> list[str]:
        """The cases without the full score, of those that are answered."""
        return [case for case, score in self.scores.items() if score < 1]


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
        self._f, self._program = f, EditableProgram(f)
        self._train, self._held = cases
        self._limits, self._most = limits, most
        self._propose = proposer if callable(proposer) else partial(propose, model=proposer)
        self._evaluate, self._batch, self._rng = evaluation, batch, rng
        self._progress = progress
        self._turns: Counter[Key] = Counter()
        self._proposals: list[Proposal] = []
        self._pool: list[_Candidate] = []
        self._tried: set[tuple[tuple[Key, str], ...]] = {()}
        self._order = list(self._train)  # cases are answered in this order, as far as needed
        rng.shuffle(self._order)
        self._used: list[Key] = []
        self._mine: set[Key] = set()
        self._theirs: set[Key] = set()

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
        with budget(**self._left(total.spent, first.reach)):
            try:
                ended = yield from self._proposed()
                yield from self._settled()
            except (_OverBudget, BudgetExceeded):
                ended = "the budget is used up"
        best = self._leader()
        before = after = Evaluation(
            first.evaluation.program, first.evaluation.names, (), EvaluationUsage()
        )
        if best.number:
            before = yield from self._held_out({}, None)
            refused = calls.refusal is not None
            after = yield from self._held_out(best.texts, before)
            if refused or calls.refusal is not None:
                ended += "; the budget did not suffice for all cases that are held out"
        return Optimization(
            self._program,
            best.texts,
            self._proposals,
            (len(self._order), len(self._held)),
            (first.evaluation, best.evaluation),
            (before, after),
            (self._use(before), self._use(after)),
            (calls.of_candidates, calls.of_proposer),
            ended,
        )

    def _first(self) -> Generator[Callable[[], object], Any, _Candidate]:
        """The program as it is, on the first few cases. Raises ``BudgetExceeded``."""
        first = _Candidate(0, {}, {each.key: each for each in self._program.components})
        self._pool = [first]
        while not self._used and first.reach < len(self._order):
            try:
                yield from self._grown(first)
            except _OverBudget:
                refusal = self._calls.refusal
                assert refusal is not None
                refusal.add_note(
                    "the budget does not suffice to evaluate the program as it is, on "
                    f"{len(self._order)} cases; nothing was proposed"
                )
                raise refusal from None
        if not self._used:
            raise InvalidOption(
                f"optimize({getattr(self._f, '__name__', 'f')}): none of the texts that can be "
                "changed stood in a prompt of the cases"
            )
        return first

    def _held_out(
        self, texts: dict[Key, str], against: Evaluation | None
    ) -> Generator[Callable[[], object], Any, Evaluation]:
        """The evaluation on the cases held out.

        Of the program that others are measured *against*, it is without samples that the budget
        has refused, so that no other is better for them.
        """
        self._calls.refusal = None
        with self._program.using(texts):
            evaluation: Evaluation = yield partial(
                self._evaluate, self._f, list(self._held.values()), scores=self._scores,
                against=against, progress=self._progress,
            )  # fmt: skip
        if against is not None or self._calls.refusal is None:
            return evaluation
        samples = [each for each in evaluation.samples if each.error is None and not each.errors]
        return Evaluation(
            evaluation.program, evaluation.names, samples, evaluation.usage, evaluation.seconds
        )

    def _proposed(self) -> Generator[Callable[[], object], Any, str]:
        """Propose and try until there is a reason to end, which is returned in words."""
        for number in range(1, self._most + 1):
            leader, parent = self._leader(), self._parent()
            for each in (leader, parent):
                if not (yield from self._failures(each, 1)):
                    return "all cases to learn from have the full score"
            proposal = yield from self._tried_one(number, parent)
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
        failed = yield from self._failures(parent, self._batch)
        self._rng.shuffle(failed)
        batch = failed[: self._batch]
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
        proposal = partial(Proposal, number, parent.number, component.name, text)
        earlier = parent.earlier.setdefault(component.key, [])
        reason = component.refusal(text)
        if reason is None and tuple(sorted(texts.items())) in self._tried:
            reason = "it was tried before"
        if reason is not None:
            earlier.append((text, f"It was not tried: {reason}."))
            return proposal(None, None, None, reason)
        self._tried.add(tuple(sorted(texts.items())))
        with self._program.using(texts) as places:
            new = _Candidate(len(self._pool), texts, places)
            yield from self._scored(new, batch)
            before, after = (each.total(batch) / len(batch) for each in (parent, new))
            if after <= before:
                earlier.append((text, f"Its mean score was {after:.3f} for {before:.3f}."))
                return proposal(before, after, None, "it is no better there")
            yield from self._raced(new, parent)
        mean = new.total(new.scores) / max(len(new.scores), 1)
        if new.reach < parent.reach:
            earlier.append((text, f"It was better there, but {mean:.3f} on {len(new.scores)}."))
            return proposal(before, after, mean, "on more cases, it cannot reach the best one")
        self._pool.append(new)
        return proposal(before, after, mean, "")

    # -- what is answered, and how far

    def _scored(
        self, candidate: _Candidate, cases: Sequence[str]
    ) -> Generator[Callable[[], object], Any, None]:
        """Answer training *cases* with the present texts, those of *candidate*.

        Raises ``_OverBudget``.
        """
        self._calls.refusal = None
        rows = [self._train[case] for case in cases]
        evaluation: Evaluation = yield partial(
            self._evaluate, self._f, rows, scores=self._scores, progress=self._progress
        )
        if self._calls.refusal is not None:
            raise _OverBudget
        candidate.evaluations.append(evaluation)
        values: dict[str, list[float]] = {}  # the scores of each case: a failed sample counts 0
        for each in evaluation.samples:
            score = each.scores.get(self._objective)
            if each.error is not None or self._objective in each.errors:
                score = 0.0
            if score is not None:
                values.setdefault(each.id, []).append(score)
        candidate.scores |= {case: fmean(scores) for case, scores in values.items()}
        addresses = [each.address for each in evaluation.samples]
        mine: set[Line] = set()
        theirs: set[Line] = set()
        for call in self._calls.below(addresses):
            below = self._below(call.address, addresses)
            (theirs if below.startswith(tuple(self._judges)) else mine).update(call.lines)
        for key, place in candidate.places.items():
            if _stands_in(place, mine):
                self._mine.add(key)
            if _stands_in(place, theirs):
                self._theirs.add(key)
        every = [each.key for each in self._program.components]
        self._used = [key for key in every if key in self._mine - self._theirs]

    def _grown(
        self, candidate: _Candidate, reach: int = 0
    ) -> Generator[Callable[[], object], Any, None]:
        """Have *candidate* answer the cases up to *reach*, by default twice as many as so far."""
        reach = min(max(reach or 2 * candidate.reach, _FIRST * self._batch), len(self._order))
        cases = self._order[candidate.reach : reach]
        with self._program.using(candidate.texts):
            yield from self._scored(candidate, cases)
        candidate.reach = reach

    def _failures(
        self, candidate: _Candidate, count: int
    ) -> Generator[Callable[[], object], Any, list[str]]:
        """The cases that *candidate* fails: at least *count*, if there are so many."""
        while len(failed := candidate.failed()) < count and candidate.reach < len(self._order):
            yield from self._grown(candidate)
        return failed

    def _raced(
        self, new: _Candidate, parent: _Candidate
    ) -> Generator[Callable[[], object], Any, None]:
        """Have *new* answer the cases that *parent* has answered, as long as it has a chance.

        It has none, and is not known so far, if it is worse than *parent* by a sign test; or if it
        is nowhere better than all others, and would not be better than each on the whole if it had
        the full score from there on.
        """
        reach = parent.reach
        others = [each for each in self._pool if each.reach >= reach]
        cases, done = self._order[:reach], {each.id for each in new.samples}
        remaining, block = [case for case in cases if case not in done], self._batch
        while True:
            front = {case: max(each.scores.get(case, 0.0) for each in others) for case in cases}
            answered = [case for case in cases if case in done]
            if _is_better(parent, new, answered):
                return
            if all(new.scores.get(case, 0.0) <= best for case, best in front.items()) and any(
                new.total(cases, unknown=1.0) <= each.total(cases) for each in others
            ):
                return
            if not remaining:
                new.reach = reach
                return
            yield from self._scored(new, remaining[:block])
            done.update(remaining[:block])
            remaining, block = remaining[block:], 2 * block

    def _settled(self) -> Generator[Callable[[], object], Any, None]:
        """Have candidates answer more cases until it is clear which one is the best."""
        while True:
            leader = self._leader()
            for other in self._pool:
                if other is not leader and not self._is_decided(leader, other):
                    reach = max(leader.reach, other.reach)
                    if leader.reach == other.reach:
                        reach *= 2
                    for each in (leader, other):
                        if each.reach < min(reach, len(self._order)):
                            yield from self._grown(each, reach)
                    break
            else:
                return

    def _is_decided(self, leader: _Candidate, other: _Candidate) -> bool:
        """True if *leader* is the better one, whatever further cases bring.

        It is if no answers could make the *other* better, or by a sign test.
        """
        count = len(self._order)
        if min(leader.reach, other.reach) == count:
            return True
        if leader.total(self._order) >= other.total(self._order, unknown=1.0):
            return True
        return _is_better(leader, other, self._order[: min(leader.reach, other.reach)])

    # -- choices

    def _leader(self) -> _Candidate:
        """The candidate with the highest score, on the cases that both of two have answered."""
        best, *others = self._pool
        for each in others:
            both = self._order[: min(best.reach, each.reach)]
            if each.total(both) > best.total(both):
                best = each
        return best

    def _parent(self) -> _Candidate:
        """A candidate that is the best one for some case: more often, the more they are.

        None that another one equals or surpasses everywhere.
        """
        front = [
            each for each in self._pool if not any(_dominates(other, each) for other in self._pool)
        ]
        wins: Counter[int] = Counter()
        for case in self._order:
            best = max(each.scores.get(case, -1.0) for each in front)
            wins.update(each.number for each in front if each.scores.get(case) == best)
        names = sorted(wins)
        number = self._rng.choices(names, [wins[name] for name in names])[0]
        return self._pool[number]

    def _component(self, parent: _Candidate, batch: Sequence[str]) -> Component:
        """The text to change: one in prompts of the *batch* that was changed least often so far."""
        lines = self._lines(self._samples(parent, batch))
        mine = [parent.places[key] for key in self._used]
        used = [each for each in mine if _stands_in(each, lines)] or mine
        chosen = min(used, key=lambda each: self._turns[each.key])  # the first of several
        self._turns[chosen.key] += 1
        return chosen

    def _below(self, address: str, samples: Iterable[str]) -> str:
        """The part of a call's *address* below its sample."""
        return next((address[len(at) + 1 :] for at in samples if address.startswith(f"{at}/")), "")

    def _original(self, key: Key) -> str:
        return next(each.text for each in self._program.components if each.key == key)

    # -- what is known of a candidate

    def _samples(self, candidate: _Candidate, cases: Iterable[str]) -> list[Sample]:
        wanted = set(cases)
        return [each for each in candidate.samples if each.id in wanted]

    def _lines(self, samples: Iterable[Sample]) -> set[Line]:
        addresses = [each.address for each in samples]
        return {line for call in self._calls.below(addresses) for line in call.lines}

    def _reflection(
        self, parent: _Candidate, component: Component, batch: Sequence[str]
    ) -> Reflection:
        by_case = {each.id: each for each in reversed(self._samples(parent, batch))}
        samples = [by_case[case] for case in batch]
        # Those come first whose target none before has.
        first: dict[str, Sample] = {}
        others = [s for s in samples if first.setdefault(text_of(s.target), s) is not s]
        shown = [*first.values(), *others][:_SHOWN]
        examples = [self._example(each, component) for each in shown]
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
            "" if calls else text_of(sample.input),
            calls,
            text_of(sample.answer),
            text_of(sample.target),
            ", ".join(scores) or "none",
            "; ".join(filter(None, errors)),
        )

    def _use(self, evaluation: Evaluation) -> Use:
        calls = list(self._calls.below([each.address for each in evaluation.samples]))
        usages = [self._calls.taken(call) for call in calls]
        costs = [cost for _, cost in usages]
        cost = None if None in costs else sum(cast("list[int]", costs))
        cases = len({each.id for each in evaluation.samples})
        return Use(cases, len(calls), sum(tokens for tokens, _ in usages), cost)

    # -- amounts

    def _left(self, spent: Amounts, count: int) -> dict[str, Any]:
        """The budget of the search: what is left, without what the last evaluations will need.

        *spent* is what the program took for *count* cases.
        """
        if not self._limits:
            return {"calls": _UNLIMITED}
        remaining: dict[str, Any] = {}
        for name, limit in self._limits.items():
            used = getattr(spent, name) or 0
            unit = 1e6 if name == "cost" else 1
            reserve = math.ceil(_KEPT * used * len(self._held) / count)
            amount = limit - (used + reserve) / unit
            remaining[name] = max(amount, 0) if name == "cost" else max(math.floor(amount), 0)
        return remaining

    def _say(self, line: str) -> None:
        shown = self._progress
        if shown is None:
            shown = sys.stderr.isatty()
        if shown:
            self._tell(f"appl: {line}")


def _dominates(one: _Candidate, other: _Candidate) -> bool:
    """True if *one* is as good on all that the *other* has answered, and better on some."""
    pairs = [(one.scores.get(case, -1.0), score) for case, score in other.scores.items()]
    return all(a >= b for a, b in pairs) and any(a > b for a, b in pairs)


def _stands_in(component: Component, lines: Iterable[Line]) -> bool:
    return any(
        file == component.code_file and component.line <= line <= component.last
        for file, line in lines
    )


def _is_better(one: _Candidate, other: _Candidate, cases: Iterable[str]) -> bool:
    """True if *one* is better than the *other* on *cases*, by a sign test."""
    pairs = [(one.scores.get(case, 0.0), other.scores.get(case, 0.0)) for case in cases]
    better, worse = sum(a > b for a, b in pairs), sum(a < b for a, b in pairs)
    changed = better + worse
    as_good = sum(math.comb(changed, count) for count in range(better, changed + 1))
    return as_good < _CHANCE * 2.0**changed


def _in_place(text: str, old: str) -> str:
    """*text* with the space around the *old* one."""
    start, end = len(old) - len(old.lstrip()), len(old.rstrip())
    return f"{old[:start]}{text.strip()}{old[end:]}" if old.strip() else text.strip()


def _prompt(messages: Any) -> str:
    every = list(messages or ())
    if len(every) == 1:
        return text_of(every[0].content)
    return "\n".join(f"{each.role}: {text_of(each.content)}" for each in every)
