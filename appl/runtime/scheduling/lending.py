"""What attempts that are made in another process take of what is shared, and give back.

Invariant: all that a loan holds is taken here, where the run's budget and the server's traffic are
known, before the attempt is made there; it is given back once, however the attempt ends.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from appl.backend import Response
from appl.runtime.scheduling.budget import Account, Amounts, Reservation
from appl.runtime.scheduling.policy import Allowance, Limits, Policy

if TYPE_CHECKING:
    from appl.runtime.scheduling.attempts import Attempts


class Permit(Protocol):
    """Leave for one attempt; who has it says how the attempt ended."""

    @property
    def probe(self) -> bool:
        """Whether the attempt is to see if the backend is alive again."""

    def answered(self, used: Amounts, tokens: int | None) -> None:
        """It was answered: *used* counts for budgets, *tokens*, where they are known, for rates."""

    def failed(self, error: BaseException, free: bool) -> None:
        """It failed with *error*, which is *free* when no model has worked on it."""


class Lender(Protocol):
    """Who is asked for leave before each attempt, in place of limits of the process's own.

    ``account`` says which amounts are limited there; ``None`` when there is no budget.
    """

    account: Account | None

    def by_tokens(self, place: str) -> bool:
        """Whether the tokens of the backend *place* are limited."""

    async def permit(
        self, place: str, worst: Amounts | None, tokens: int, patience_s: float
    ) -> Permit:
        """Wait for leave to ask the backend *place*. Raises what an attempt there would raise."""


def borrowed(policy: Policy) -> Policy:
    """*policy* without all that whoever lends sees to."""
    return replace(
        policy, limits=Limits(), budget=Allowance(), circuit=None, adaptive=False, hedge=None
    )


def tokens_of(response: Response) -> int | None:
    """How many tokens *response* has taken in all, where the backend says."""
    usage = response.usage
    if usage.prompt_tokens is None or usage.completion_tokens is None:
        return None
    return usage.prompt_tokens + usage.completion_tokens


class Loan:
    """What one attempt elsewhere holds: reservation, slot, place in the rate, perhaps the probe."""

    def __init__(self, attempts: Attempts, tokens: int) -> None:
        self._attempts, self._tokens = attempts, tokens
        self.reserved: Reservation | None = None
        self.epoch: int | None = None
        self.probe = False

    def answered(self, used: Amounts, tokens: int | None) -> None:
        """The attempt was answered."""
        self._attempts.lent_answered(self, self._tokens, tokens)
        self.back(used)

    def failed(self, error: BaseException, free: bool) -> None:
        """It failed with *error*; if it was not *free*, all that it was given is spent."""
        self._attempts.lent_failed(self, error)
        self.back(Amounts() if free or self.reserved is None else self.reserved.worst)

    def lost(self) -> None:
        """Whoever made the attempt is gone: nobody knows what came of it, so it is paid for."""
        self._attempts.lent_lost(self)
        self.back(self.reserved.worst if self.reserved is not None else Amounts())

    def back(self, used: Amounts) -> None:
        """Give back what is held; *used* is spent. A second time nothing happens."""
        reserved, self.reserved = self.reserved, None
        if reserved is not None:
            reserved.settle(used)
        epoch, self.epoch = self.epoch, None
        if epoch is not None:
            self._attempts.lent_back()
