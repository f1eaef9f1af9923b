"""The order of the calls to a provider that charges for what its cache keeps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from appl.backend import Request
from appl_backends.prompt_cache import CacheRule


class CacheOrders:
    """Makes the order for each run of one backend, whose runs share what was sent."""

    def __init__(self) -> None:
        self._memory: Any = None  # a ``CacheMemory``, once a run has asked for its order

    def order(self, queue: Any, rule_of: Callable[[Request], CacheRule | None]) -> Any:
        """The order of the calls of *queue*; *rule_of* gives the rule for a request's model."""
        # Imported here: a replay sends no calls.
        from appl.runtime.scheduling.prompt_reuse import CacheMemory, ReuseOrder

        if self._memory is None:
            self._memory = CacheMemory()
        return ReuseOrder(queue, self._memory, rule_of)
