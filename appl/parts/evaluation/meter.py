"""Counts the model calls of each program that is evaluated, and what they cost."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from appl.parts.evaluation.report import EvaluationUsage, Sample
from appl.runtime.event import CallEnded, Event


class UsageMeter:
    """An instrument that adds up the calls below each sample of the evaluation at an address."""

    def __init__(self, address: str) -> None:
        self._prefix = f"{address}/"
        self._lock = threading.Lock()
        self._ended: list[tuple[str, bool, int | None]] = []

    def on_event(self, event: Event) -> None:
        """Note a call that has ended."""
        if isinstance(event, CallEnded) and event.address.startswith(self._prefix):
            cost = event.response.cost if event.response is not None else 0
            with self._lock:
                self._ended.append((event.address, event.source is not None, cost))

    def usage(self, samples: Sequence[Sample]) -> EvaluationUsage:
        """The calls below *samples*, and what they cost."""
        places = {sample.address for sample in samples}
        ended = [call for call in self._ended if self._place(call[0], places)]
        return EvaluationUsage(
            len(ended),
            sum(reused for _, reused, _ in ended),
            sum(cost or 0 for *_, cost in ended),
            sum(cost is None for *_, cost in ended),
        )

    def _place(self, address: str, places: set[str]) -> bool:
        """True if *address* is below one of *places*, at one of the next two steps."""
        first = address.find("/", len(self._prefix))
        second = address.find("/", first + 1)
        return address[:first] in places or address[:second] in places
