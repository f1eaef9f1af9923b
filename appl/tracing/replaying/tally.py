"""Counts the calls of a run that a record answers in part: live and reused ones, and their cost.

Invariant: plain sums; money and tokens count what is known, and ``unknown`` answers do not say.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from appl.backend import Response
from appl.errors import BudgetExceeded, CallCancelled, TraceError
from appl.runtime.event import CallDispatched, CallEnded, CallStarted, Event

_UNASKED = (CallCancelled, TraceError, BudgetExceeded)
"""Errors of calls that were not asked, unless they were sent before."""


@dataclass(slots=True)
class Amount:
    """Calls with what they took: ``cost`` in millionths of the currency unit, and tokens."""

    calls: int = 0
    cost: int = 0
    tokens: int = 0
    unpriced: int = 0

    def add(self, response: Response | None) -> None:
        """Count one call; one that failed has no *response*."""
        self.calls += 1
        if response is None:
            return
        usage = response.usage
        self.tokens += (usage.prompt_tokens or 0) + (usage.completion_tokens or 0)
        self.cost += response.cost or 0
        self.unpriced += response.cost is None

    def shown(self) -> str:
        """The amount for a human: money where it is known, else tokens."""
        return self.money() if self.cost else f"{self.tokens} tokens"

    def money(self) -> str:
        """The cost of the calls, for a human."""
        from appl.backend.price import total  # few runs cost something

        return total(self.cost, self.unpriced)

    def as_data(self) -> dict[str, object]:
        """The amount as JSON-ready data; a cost that nobody knows is null, not 0."""
        is_priced = not self.unpriced or self.cost
        return {
            "calls": self.calls,
            "cost": self.cost if is_priced else None,
            "tokens": self.tokens,
        }


@dataclass(slots=True)
class Tally:
    """Calls that were asked live, and those that a record answered: an instrument of the run."""

    live: Amount = field(default_factory=Amount)
    reused: Amount = field(default_factory=Amount)
    _begun: set[str] = field(default_factory=set)
    _dispatched: set[str] = field(default_factory=set)

    def on_event(self, event: Event) -> None:
        """Count a call that has ended; one that ended before it was asked is none."""
        if isinstance(event, CallStarted):
            self._begun.add(event.address)
        elif isinstance(event, CallDispatched):
            self._dispatched.add(event.address)
        elif isinstance(event, CallEnded) and event.address in self._begun:
            was_dispatched = event.address in self._dispatched
            self._dispatched.discard(event.address)
            if event.source is not None:
                self.reused.add(event.response)
            elif was_dispatched or not isinstance(event.error, _UNASKED):
                self.live.add(event.response)

    def line(self) -> str:
        """Both in one line: ``3 of 412 calls live, 0.02 of 1.90``."""
        every = self.live.calls + self.reused.calls
        return f"{self.live.calls} of {every} calls live, {self.price()}"

    def price(self) -> str:
        """The share of the live calls in the cost of all: money where it is known, else tokens."""
        live, reused = self.live, self.reused
        if live.cost or reused.cost:
            every = Amount(0, live.cost + reused.cost, 0, live.unpriced + reused.unpriced)
            return f"{live.money()} of {every.money()}"
        return f"{live.tokens} of {live.tokens + reused.tokens} tokens"

    def as_data(self) -> dict[str, object]:
        """The tally as JSON-ready data."""
        return {"live": self.live.as_data(), "reused": self.reused.as_data()}
