"""The sums over the calls of a run: the writer's, whose last record holds them, and a reader's."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from appl.backend import Response
from appl.tracing.format.record import checked

_MODELS = 1000
_TOKENS = ("prompt_tokens", "completion_tokens", "cached_tokens")
_CLASSES = ("written_tokens", "written_1h_tokens", "reasoning_tokens")


def _no_tokens() -> dict[str, int]:
    return dict.fromkeys(_TOKENS, 0)


def _no_classes() -> dict[str, int]:
    return dict.fromkeys(_CLASSES, 0)


@dataclass(slots=True)
class Totals:
    """Sums over the calls. Tokens and cost count what is known; ``unknown`` counts answers that do
    not say. ``attempts`` are those that were sent. ``reused`` are samples that a cache gave, at no
    cost. ``recalled`` are answers that an earlier run gave, for what they ``saved``; ``in_doubt``
    are calls that were on their way when a process ended, and were begun again. ``classes`` are
    tokens of further classes that are billed, and ``classes_known`` counts answers that tell them.
    """

    calls: int = 0
    answered: int = 0
    failed: int = 0
    cancelled: int = 0
    attempts: int = 0
    attempts_failed: int = 0
    tokens: dict[str, int] = field(default_factory=_no_tokens)
    unknown: dict[str, int] = field(default_factory=_no_tokens)
    cost: int = 0
    cost_unknown: int = 0
    reused: int = 0
    recalled: int = 0
    saved: int = 0
    in_doubt: int = 0
    classes: dict[str, int] = field(default_factory=_no_classes)
    classes_known: dict[str, int] = field(default_factory=_no_classes)

    @property
    def in_flight(self) -> int:
        """The number of calls that have not ended."""
        return self.calls - self.answered - self.failed - self.cancelled

    def forget(self, ended_as: str | None, was_sent: bool) -> None:
        """Note that a call is begun again: its cost stays, and how it ended does not count."""
        self.calls -= 1
        if ended_as is not None:
            setattr(self, ended_as, getattr(self, ended_as) - 1)
        self.in_doubt += ended_as is None and was_sent

    def recall(self, response: Response | None) -> None:
        """Note that an earlier run answers a call, or lets it fail."""
        self.answered += response is not None
        self.failed += response is None
        self.save(response)

    def save(self, response: Response | None) -> None:
        """Note that an earlier run gave an answer, and what that saved."""
        self.recalled += 1
        self.saved += (response.cost or 0) if response is not None else 0

    def spend(self, response: Response) -> None:
        """Add the tokens of an answer and its cost."""
        self.reused += response.reused
        used, tokens = response.usage, self.tokens
        counts = (used.prompt_tokens, used.completion_tokens, used.cached_tokens)
        for name, count in zip(_TOKENS, counts, strict=True):
            if count is None:
                self.unknown[name] += 1
            else:
                tokens[name] += count
        classes = used.written_tokens, used.written_1h_tokens, used.reasoning_tokens
        for name, count in zip(_CLASSES, classes, strict=True):
            if count is not None:
                self.classes_known[name] += 1
                self.classes[name] += count
        if response.cost is None:
            self.cost_unknown += 1
        else:
            self.cost += response.cost

    def as_numbers(self) -> list[int]:
        """The totals as numbers, in the order of the fields.

        Classes of which no answer tells anything are left out at the end.
        """
        numbers = self._numbers()
        return numbers if any(self.classes_known.values()) else numbers[: -2 * len(_CLASSES)]

    def _numbers(self) -> list[int]:
        numbers: list[int] = []
        for name in self.__slots__:
            value = getattr(self, name)
            numbers += value.values() if isinstance(value, dict) else (value,)
        return numbers

    @classmethod
    def of_numbers(cls, numbers: Iterable[object]) -> Totals:
        """The totals of ``as_numbers``. Raises ``TypeError`` for anything else."""
        rest, totals = iter([checked(int, number) for number in numbers]), cls()
        for name in cls.__slots__:
            value = getattr(totals, name)
            values = (
                {key: next(rest, 0) for key in value} if isinstance(value, dict) else next(rest, 0)
            )
            setattr(totals, name, values)
        return totals

    def as_data(self) -> dict[str, object]:
        """The totals as JSON-ready data; an unknown cost is null, not 0.

        Classes of tokens of which no answer tells anything are left out.
        """
        data = {name: getattr(self, name) for name in self.__slots__}
        classes, priced = data.pop("classes"), data.pop("classes_known")
        more = {name: tokens for name, tokens in classes.items() if priced[name]}
        data["tokens"] = {**self.tokens, **more}
        return with_null_cost({**data, "in_flight": self.in_flight})


def combined(every: Iterable[Totals]) -> Totals:
    """The sums of *every* one together."""
    return Totals.of_numbers(map(sum, zip(*(totals._numbers() for totals in every), strict=True)))


class RunningTotals:
    """The totals of a run by model, counted while it goes on, and the time that it took.

    It goes on from *models* and *elapsed_us* of the processes before.
    """

    def __init__(self, models: dict[str, Totals] | None = None, elapsed_us: int = 0) -> None:
        self.models = models or {}
        self._by_call: dict[str, Totals] = {}
        self._earlier_us, self._first, self._last = elapsed_us, -1, -1
        self._is_complete = True

    @property
    def whole(self) -> Totals:
        """The totals over all models."""
        models = [*self.models.values()]
        return models[0] if len(models) == 1 else combined(models)

    def start(self, address: str, model: str, at: int) -> None:
        """Note that a call of *model* starts at the time *at*."""
        totals = self.models.get(model)
        if totals is None:
            totals = self.models[model] = Totals()
        self._by_call[address] = totals
        totals.calls += 1
        if self._first < 0 or at < self._first:
            self._first = at

    def of(self, address: str) -> Totals:
        """The totals in which the call at *address* counts."""
        totals = self._by_call.get(address)
        if (
            totals is None
        ):  # it was started by an earlier process, of a model that is not known here
            self._is_complete = False
            totals = self.models.setdefault("", Totals())
        return totals

    def end(self, address: str, at: int) -> Totals:
        """The totals of the call at *address*, which ends at the time *at*."""
        if at > self._last:
            self._last = at
        totals = self._by_call.pop(address, None)
        return self.of(address) if totals is None else totals

    def sums(self) -> dict[str, object] | None:
        """The sums by model for the last record; ``None`` where a call's model is not known."""
        if not self._is_complete or len(self.models) > _MODELS:
            return None
        took = max(self._last - self._first, 0) if self._first >= 0 <= self._last else 0
        models = {name: totals.as_numbers() for name, totals in self.models.items()}
        return {"elapsed_us": self._earlier_us + took, "models": models}


def with_null_cost(totals: dict[str, object]) -> dict[str, object]:
    """*totals* with a null cost if every cost in them is unknown."""
    nothing = not totals.get("cost") and totals.get("cost_unknown")
    return {**totals, "cost": None} if nothing else totals
