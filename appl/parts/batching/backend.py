"""A backend whose calls are answered in batches, for less, where their consumers can wait.

Invariant: each call is answered once, by a batch or at once; what cannot be in a batch, or has to
be there sooner, is asked at once, at the usual price.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from appl.backend import Backend, Emit, Profile, Request, Response
from appl.backend.check import read_json
from appl.errors import Awaited, BackendBusy, BackendError, BackendRefused
from appl.parts.batching.gathering import Gathering
from appl.parts.batching.provider import BatchProvider

if TYPE_CHECKING:
    from appl.runtime.world import Programs


class BatchBackend:
    """*inner*, called *name*, with the calls of the run gathered by *gathering* for *provider*.

    A call that fails in *attempts* batches fails, and so does one that is refused for good. At most
    *most* calls are asked at once.
    """

    order = None  # of calls that are sent one by one
    warm = None

    def __init__(
        self,
        inner: Backend,
        name: str,
        provider: BatchProvider,
        gathering: Gathering,
        *,
        attempts: int = 3,
        most: int = 64,
    ) -> None:
        self.inner, self._name, self._provider = inner, name, provider
        self._gathering, self._attempts = gathering, attempts
        self._slots = asyncio.Semaphore(most)
        self.profile: Profile = dataclasses.replace(inner.profile, concurrency=None)
        gathering.add(name, provider)

    def __getattr__(self, name: str) -> Any:
        """The other attributes of the backend."""
        return getattr(self.inner, name)

    def tier(self, request: Request) -> str:
        """The way of service for which a budget reserves: the usual one where a deadline is set."""
        gathering = self._gathering
        waits = gathering.waits and gathering.plan.within_s is None and request.timeout is None
        return "batch" if waits and request.key is None and not _is_apart(request) else ""

    # -- levels: see ``Stepping`` and ``Shared``

    def on_idle(self, final: bool = True) -> bool:
        """Send what was gathered."""
        return self._gathering.on_idle(final)

    def watched_by(self, programs: Programs) -> None:
        """*programs* are those of the run."""
        self._gathering.watched_by(programs)

    def away(self) -> Iterator[Awaited]:
        """The calls whose batches may be waited for without this process: see ``Deferring``."""
        return self._gathering.away(self._name)

    # -- calls

    async def complete(self, request: Request, emit: Emit | None = None) -> Response:
        """Answer *request*; a stream is asked for at once."""
        gathering = self._gathering
        may_wait = emit is None and request.timeout is None and not _is_apart(request)
        if not may_wait or not (gathering.waits or gathering.knows(request)):
            return await self._at_once(request, emit)
        item = await self._provider.item(request)
        if item is None:
            return await self._at_once(request, emit)
        failed, busy = 0, 0
        while True:
            outcome = await gathering.answer(self._name, request, item)
            if outcome == "at once" or (isinstance(outcome, str) and not gathering.waits):
                return await self._at_once(request, emit)
            if outcome == "expired":  # nothing is paid: it goes into the next batch
                continue
            if outcome == "cancelled":
                raise BackendRefused(
                    f"the batch with {request.address} was cancelled before a model was asked",
                    worked=False,
                )
            try:
                if isinstance(outcome, bytes):
                    response: Response = item.read(read_json(outcome))
                    return response
                error: BackendError = _unpaid(outcome)
            except BackendError as malformed:
                error = malformed
            if isinstance(error, BackendBusy) and busy < _MOST_BUSY:  # it was not tried
                busy += 1
                wait = max(error.retry_after or 0.0, gathering.plan.first_s * 2**busy)
                await asyncio.sleep(min(wait, _LONGEST_S))
                continue
            failed += 1
            if not error.retriable or failed >= self._attempts:
                error.retriable = False  # the attempts are over
                raise error

    async def _at_once(self, request: Request, emit: Emit | None) -> Response:
        gathering = self._gathering
        gathering.direct += 1
        try:
            async with self._slots:
                return await self.inner.complete(request, emit)
        finally:
            gathering.direct -= 1
            gathering.look_soon()

    async def aclose(self) -> None:
        """Close the backend."""
        await self.inner.aclose()


_LONGEST_S, _MOST_BUSY = 600.0, 144
"""The longest time before a call goes into the next batch that a busy provider may take, in
seconds, and how often it is tried so: for about a day."""
_APART = ("background", "service_tier")


def _is_apart(request: Request) -> bool:
    """True if *request* asks for a way of service of its own."""
    return any(name in _APART for name, _ in request.sampling.extra)


def _unpaid(outcome: Any) -> BackendError:
    """The error of an item, for which nothing is paid; a copy, as several calls may get it."""
    assert isinstance(outcome, BackendError)
    copy = type(outcome)(*outcome.args)
    copy.status, copy.retry_after, copy.worked = outcome.status, outcome.retry_after, False
    copy.retriable = outcome.retriable
    return copy
