"""The backends of a run whose calls go out in batches.

Invariant: every backend whose provider has batches is wrapped once, and all share one gathering.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import replace
from typing import cast

from appl.backend import Backend, offers
from appl.config import Config
from appl.errors import ConfigError, Unsupported
from appl.parts.batching.backend import BatchBackend
from appl.parts.batching.gathering import Gathering
from appl.parts.batching.provider import Batches, BatchPlan, BatchProvider
from appl.runtime.scheduling.policy import Deadlines, Limits, Policy

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_AT_ONCE = 64
"""The most calls at once of those that cannot wait, where the settings name no limit."""


class BatchedBackends:
    """Wraps the backends of a run with *config*, whose user is told by *say*.

    ``config`` is that of the run: limits are those of calls that cannot wait.
    Raises ``ConfigError`` where batches and other settings cannot both be.
    """

    def __init__(self, config: Config, say: Callable[[str], None]) -> None:
        if not config.trace:
            raise ConfigError(
                "batch needs a trace, in which a run that was broken off finds its batches again: "
                "leave out trace = false (--no-trace), or batch"
            )
        if config.stream:
            raise ConfigError("an answer of a batch comes whole: leave out stream, or batch")
        within = config.batch if isinstance(config.batch, str) else None
        self.gathering = Gathering(BatchPlan(None if within is None else seconds_of(within)), say)
        limits = config.schedule.get("limits", {})
        concurrency = (config.concurrency, limits.get("concurrency"))
        self._most = min((limit for limit in concurrency if limit is not None), default=_AT_ONCE)
        self._attempts = int(config.schedule.get("retries", {}).get("attempts", 3))
        self.config = replace(config, concurrency=None)

    def own(self, name: str, backend: Backend) -> Backend:
        """The run's own backend, called *name*, which must have batches."""
        provider = _provider_of(backend)
        if isinstance(provider, Unsupported) or provider is None:
            why = f" ({provider})" if provider is not None else ""
            raise ConfigError(
                f"the backend {name!r} has no batches{why}; backends of the types 'openai' and "
                "'anthropic' have them: choose one by model = …, or leave out batch"
            )
        return self._wrapped(name, backend, provider)

    def other(self, name: str, backend: Backend) -> Backend:
        """A further backend; one that has no batches is asked at once."""
        provider = _provider_of(backend)
        if isinstance(provider, Unsupported) or provider is None:
            return backend
        return self._wrapped(name, backend, provider)

    def policy(self, policy: Policy) -> Policy:
        """*policy* without what would keep calls from waiting for a batch together."""
        # Limits hold for calls that are asked at once: see ``BatchBackend``.
        limits, deadlines = Limits(), Deadlines(total_s=math.inf)
        return replace(
            policy,
            warm=False,
            limits=limits,
            deadlines=deadlines,
            slow_start=False,
            adaptive=False,
        )

    def _wrapped(self, name: str, backend: Backend, provider: BatchProvider) -> Backend:
        most = min(self._most, backend.profile.concurrency or self._most)
        wrapper = BatchBackend(
            backend, name, provider, self.gathering, attempts=self._attempts, most=most
        )
        return cast(Backend, wrapper)


def _provider_of(backend: Backend) -> BatchProvider | Unsupported | None:
    if not offers(backend, Batches):
        return None
    try:
        return backend.batches()
    except Unsupported as error:
        return error


def seconds_of(text: str) -> float:
    """The seconds of a length of time as settings have it: ``6h``."""
    match = re.fullmatch(r"([0-9.]+)\s*([smhdw])", text)
    assert match is not None  # the reader of the setting has seen to it
    return float(match[1]) * _UNITS[match[2]]
