"""The sums over the calls of a run: the writer's, whose last record holds them, and a reader's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from appl.backend import Response

_TOKENS = ("prompt_tokens", "completion_tokens", "cached_tokens")


class EndedCall(Protocol):
    """The facts of a call that are summed up."""

    @property
    def ended_as(self) -> str | None:
        """``answered``, ``failed`` or ``cancelled``; ``None`` while it is in flight."""

    @property
    def attempts(self) -> Sequence[Any]:
        """Its attempts, each with its ``error``."""

    @property
    def response(self) -> Response | None:
        """Its answer."""

    @property
    def source(self) -> str | None:
        """How another run answered for it, if one did."""


def _no_tokens() -> dict[str, int]:
    return dict.fromkeys(_TOKENS, 0)


@dataclass(slots=True)
class Totals:
    """Sums over the calls. Tokens and cost count what is known; ``unknown`` counts answers that do
    not say. ``reused`` are samples that a cache gave, at no cost. ``recalled`` are answers that an
    earlier run gave, for what they ``saved``; ``in_doubt`` are calls that were on their way when a
    process ended, and were begun again."""

    calls: int = 0
    answered: int = 0
    failed: int = 0
    cancelled: int = 0
    attempts_failed: int = 0
    tokens: dict[str, int] = field(default_factory=_no_tokens)
    unknown: dict[str, int] = field(default_factory=_no_tokens)
    cost: int = 0
    cost_unknown: int = 0
    reused: int = 0
    recalled: int = 0
    saved: int = 0
    in_doubt: int = 0

    @property
    def in_flight(self) -> int:
        """The number of calls that have not ended."""
        return self.calls - self.answered - self.failed - self.cancelled

    def add(self, call: EndedCall, earlier: bool = False) -> None:
        """Count *call*. Of an *earlier* record, which a later process began again, only its cost
        counts.
        """
        if earlier:
            self.in_doubt += call.ended_as is None and bool(call.attempts)
        else:
            self.calls += 1
            self._ends(call, 1)
        if not earlier and call.source is not None:
            self._recall(call.response)
            return
        self.attempts_failed += sum(1 for attempt in call.attempts if attempt.error is not None)
        if call.response is not None:
            self._spend(call.response)

    def _ends(self, call: EndedCall, by: int) -> None:
        if call.ended_as is not None:
            setattr(self, call.ended_as, getattr(self, call.ended_as) + by)

    def forget(self, call: EndedCall) -> None:
        """Note that *call* is begun again: its cost stays, and how it ended does not count."""
        self.calls -= 1
        self._ends(call, -1)
        self.in_doubt += call.ended_as is None and bool(call.attempts)

    def answer(self, response: Response) -> None:
        """Note that a call is answered."""
        self.answered += 1
        self._spend(response)

    def recall(self, response: Response | None) -> None:
        """Note that an earlier run answers a call, or lets it fail."""
        self.answered += response is not None
        self.failed += response is None
        self._recall(response)

    def _recall(self, response: Response | None) -> None:
        self.recalled += 1
        self.saved += (response.cost or 0) if response is not None else 0

    def _spend(self, response: Response) -> None:
        self.reused += response.reused
        used, tokens = response.usage, self.tokens
        counts = (used.prompt_tokens, used.completion_tokens, used.cached_tokens)
        for name, count in zip(_TOKENS, counts, strict=True):
            if count is None:
                self.unknown[name] += 1
            else:
                tokens[name] += count
        if response.cost is None:
            self.cost_unknown += 1
        else:
            self.cost += response.cost

    def as_data(self) -> dict[str, Any]:
        """The totals as JSON-ready data; an unknown cost is null, not 0."""
        data = {name: getattr(self, name) for name in self.__slots__}
        return with_known_cost({**data, "in_flight": self.in_flight})


def with_known_cost(totals: dict[str, Any]) -> dict[str, Any]:
    """*totals* with a null cost if every cost in them is unknown."""
    nothing = not totals.get("cost") and totals.get("cost_unknown")
    return {**totals, "cost": None} if nothing else totals
