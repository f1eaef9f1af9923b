"""The interface of a backend whose provider answers many calls together, for less.

Invariant: plain values and one protocol; a batch is sent once under its key, and is found again by
that key where the provider keeps it.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol

from appl.backend import Request, Response
from appl.errors import BackendError


class BatchItem(NamedTuple):
    """One question of a batch: its JSON *body*, and what *read* makes of the JSON of the answer.

    Items of one *kind* may go into one batch: those of one interface, and of one model where the
    provider wants that.
    """

    kind: str
    body: bytes
    read: Callable[[Any], Response]


Unanswered = Literal["expired", "cancelled"]
"""Why the provider did not ask a model, so that nothing is paid."""
Outcome = bytes | BackendError | Unanswered
"""The JSON of an answer, the error in place of one, or why there is none."""


@dataclass(frozen=True, slots=True)
class BatchStatus:
    """A batch as its provider sees it.

    ``id`` is the provider's name of it, ``word`` that of its state. ``done`` of ``total`` items are
    answered, as far as the provider says. ``files`` are those that it was made of and has made.
    ``outputs`` are the files with the outcomes; an item that is in none of them is ``missing``, for
    that reason. ``error`` is why all of it was refused, after it had been taken.
    """

    id: str
    word: str
    ended: bool
    done: int = 0
    total: int = 0
    files: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    missing: Unanswered | None = None
    error: BackendError | None = None


@dataclass(slots=True)
class Intent:
    """A batch that was, or may have been, sent: its ``key``, the ``kind`` and number of its items.

    ``file`` was uploaded for it. It was sent at ``wall``, in seconds since 1970. ``others`` are
    batches that are known to be other ones.
    """

    key: str
    kind: str
    count: int
    file: str | None = None
    wall: float = 0.0
    others: frozenset[str] = frozenset()


class Found(NamedTuple):
    """The result of a search by key: the batch, or the number of those that it may still be."""

    status: BatchStatus | None
    candidates: int = 0


class BatchProvider(Protocol):
    """The batches of one provider. All methods run on the I/O loop and raise ``BackendError``.

    ``most_items`` and ``most_bytes`` are the limits of one batch.
    """

    most_items: int
    most_bytes: int

    async def item(self, request: Request) -> BatchItem | None:
        """*request* as an item; ``None`` if it cannot be in a batch."""

    async def upload(self, intent: Intent, items: Mapping[str, BatchItem]) -> str | None:
        """Upload *items*, by their ids; the name of the file, ``None`` where there is none."""

    async def send(self, intent: Intent, items: Mapping[str, BatchItem]) -> BatchStatus:
        """Have the provider begin the batch."""

    async def look(self, id: str) -> BatchStatus:
        """The present state of the batch *id*."""

    async def find(self, intent: Intent) -> Found:
        """Look for a batch that was sent as *intent* says."""

    def results(self, status: BatchStatus) -> AsyncIterator[tuple[str, Outcome]]:
        """The outcomes of a batch that has ended, by the ids of its items."""

    async def cancel(self, id: str) -> None:
        """Have the provider answer no more of it; what was answered is read when it has ended."""

    async def remove(self, intent: Intent, files: Sequence[str]) -> None:
        """Remove *files* at the provider, those that are there, and what was uploaded for it."""


class Batches(Protocol):
    """A backend whose provider has batches."""

    def batches(self) -> BatchProvider:
        """The batches of the provider. Raises ``Unsupported`` where the server has none."""


@dataclass(frozen=True, slots=True)
class BatchPlan:
    """The use of batches by a run.

    After ``within_s`` seconds nobody waits for a batch any more. A batch is looked at first after
    ``first_s`` seconds, and then after ever longer times, up to ``longest_s``. A batch whose
    sending was not answered is looked for during ``doubt_s`` seconds. When a batch has been away
    for ``stay_s`` seconds, the run may end as waiting for it.
    """

    within_s: float | None = None
    first_s: float = 1.0
    longest_s: float = 60.0
    doubt_s: float = 600.0
    stay_s: float = math.inf
