"""The result of an optimisation: the texts that were found, their scores, and what they cost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from appl.backend.price import total
from appl.parts.evaluation.report import Evaluation
from appl.parts.optimization.calls import Spending

if TYPE_CHECKING:
    from appl.parts.optimization.components import Component, EditableProgram, Texts


@dataclass(frozen=True, slots=True)
class Proposal:
    """A text that was proposed for a component of candidate ``parent``, and what became of it.

    ``before`` and ``after`` are means of a few training cases, ``train`` is that of all, where it
    was good enough for them. ``reason`` tells in words why it was not taken; else it is empty.
    """

    number: int
    parent: int
    component: str
    text: str
    before: float | None
    after: float | None
    train: float | None
    reason: str

    def line(self) -> str:
        """The proposal in a line."""
        few = ""
        if self.before is not None and self.after is not None:
            few = f": {self.before:.3f} to {self.after:.3f} on a few cases"
        whole = f", {self.train:.3f} on all" if self.train is not None else ""
        reason = f"; {self.reason}" if self.reason else ""
        return f"proposal {self.number}, {self.component}{few}{whole}{reason}"


@dataclass(frozen=True, slots=True)
class Use:
    """The use of a program for all cases: tokens and ``cost``, in millionths of the currency unit.

    ``cost`` is ``None`` if that of a call is not known.
    """

    cases: int
    calls: int
    tokens: int
    cost: int | None


class Optimization:
    """The result of ``optimize``.

    ``texts`` are the new texts by component; empty where none was better. ``before`` and ``after``
    are the evaluations of the program as it was and as it is proposed, on data held out from the
    search; ``after.differences`` compares them. Without new texts, both are empty.
    ``train_before`` and ``train_after`` are those on the cases of the search, on as many as it
    took. ``ended`` says why the search ended. ``diff`` is the change of the
    source, ``write()`` applies it. As text it is a table, with the diff.
    """

    def __init__(
        self,
        program: EditableProgram,
        texts: Texts,
        proposals: Sequence[Proposal],
        counts: tuple[int, int],
        train: tuple[Evaluation, Evaluation],
        held_out: tuple[Evaluation, Evaluation],
        use: tuple[Use, Use],
        spent: tuple[Spending, Spending],
        ended: str,
    ) -> None:
        self._program, self._texts, self.proposals = program, dict(texts), proposals
        self._counts = counts
        self.train_before, self.train_after = train
        self.before, self.after = held_out
        self.use_before, self.use_after = use
        self.of_candidates, self.of_proposer = spent
        self.ended = ended
        self.diff = program.diff(texts)

    @property
    def texts(self) -> dict[Component, str]:
        """The new texts of the components that have one."""
        every = self._program.components
        return {
            each: self._texts[each.key]
            for each in every
            if self._texts.get(each.key, each.text) != each.text
        }

    @property
    def spent(self) -> Spending:
        """All calls: those of the candidates, of their scores, and of the proposer."""
        return self.of_candidates + self.of_proposer

    @property
    def is_better(self) -> bool:
        """True if there are new texts, and the data held out does not speak against them."""
        name = self.after.names[0]
        found = self.after.differences.get(name)
        return bool(self.texts) and found is not None and found.mean is not None and found.mean >= 0

    def write(self) -> list[str]:
        """Apply the diff to the source, and return the names of the files.

        Raises ``InvalidOption`` if one of them has changed since the program was imported.
        """
        return self._program.write(self._texts)

    # -- for people

    def __str__(self) -> str:
        return "\n".join([*self.lines(), *([self.diff.rstrip("\n")] if self.diff else [])])

    @property
    def shown(self) -> Evaluation:
        """The evaluation for the table: on data held out, or on the cases of the search."""
        return self.after if self.texts else self.train_before

    def lines(self) -> Iterator[str]:
        """The table, and what it took, in lines."""
        yield from self.head()
        yield from self.shown.table()
        yield from self.notes()

    def head(self) -> Iterator[str]:
        """The lines about the cases, the proposals and the end."""
        train, held = self._counts
        taken = sum(not each.reason for each in self.proposals)
        count = len(self.proposals)
        yield (
            f"{self.before.program}: {train} cases to learn from, {held} held out; "
            f"{count} {'proposal' if count == 1 else 'proposals'}, {taken} taken"
        )

    def notes(self) -> Iterator[str]:
        """The lines below the table."""
        name = self.before.names[0]
        if self.texts:
            first, last = self.train_before.mean(name), self.train_after.mean(name)
            few, many = (_cases(each) for each in (self.train_before, self.train_after))
            yield (
                f"{name} on cases to learn from: {first:.3f} before, on {few}; "
                f"{last:.3f} after, on {many}"
            )
            yield f"held out: {_use(self.use_before)} before, {_use(self.use_after)} after"
        else:
            yield f"no better text was found; the table is of {_cases(self.train_before)} cases"
        spent = self.spent
        paid = ""
        if spent.cost or spent.cost_unknown:
            paid = f", cost {total(spent.cost, spent.cost_unknown)}"
        earlier = f"; an earlier run has paid {spent.earlier} of the calls" if spent.earlier else ""
        yield (
            f"paid: {spent.calls} calls, {spent.tokens} tokens{paid}, of which the proposer "
            f"{self.of_proposer.calls} calls, {self.of_proposer.tokens} tokens{earlier}"
        )
        yield f"{spent.reused} calls of candidates had their answers already"
        yield f"ended: {self.ended}"
        if self.texts and not self.is_better:
            yield "the data held out speaks against the new texts"

    def as_data(self) -> dict[str, Any]:
        """All of it as JSON-ready data."""
        return {
            "program": self.before.program,
            "better": self.is_better,
            "ended": self.ended,
            "texts": [
                {
                    "file": each.file,
                    "line": each.line,
                    "component": each.name,
                    "before": each.text,
                    "after": text,
                }
                for each, text in self.texts.items()
            ],
            "diff": self.diff,
            "proposals": [asdict(each) for each in self.proposals],
            "train": {"before": _data(self.train_before), "after": _data(self.train_after)},
            "held_out": {"before": _data(self.before), "after": _data(self.after)},
            "use": {"before": asdict(self.use_before), "after": asdict(self.use_after)},
            "spent": {
                "all": asdict(self.spent),
                "candidates": asdict(self.of_candidates),
                "proposer": asdict(self.of_proposer),
            },
        }


def _use(use: Use) -> str:
    cases = max(use.cases, 1)
    cost = f", cost {total(round(use.cost / cases), 0)}" if use.cost else ""
    return f"{use.tokens / cases:.1f} tokens a case{cost}"


def _cases(found: Evaluation) -> int:
    return len({each.id for each in found.samples})


def _data(found: Evaluation) -> dict[str, Any]:
    """An evaluation without its samples, which the trace has."""
    data = found.as_data()
    return {name: data[name] for name in ("cases", "scores", "differences", "failed")}
