"""Permits: another process gives leave for each attempt, and hears how it ended.

Invariant: the limits that the lending process keeps are kept nowhere else.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

from appl.runtime.scheduling.accounts import Account, Amounts
from appl.runtime.scheduling.policy import Allowance, Limits, Policy


class Permit(Protocol):
    """Leave for one attempt; its holder reports how the attempt ended."""

    @property
    def probe(self) -> bool:
        """True if the attempt is to find out whether the backend is alive again."""

    @property
    def worst(self) -> Amounts | None:
        """The amounts that are reserved for it; ``None`` when nothing is counted."""

    def answered(self, used: Amounts, tokens: int | None) -> None:
        """It was answered: *used* counts for budgets, *tokens*, where they are known, for rates."""

    def failed(self, error: BaseException, used: Amounts) -> None:
        """It failed with *error*; *used* counts for budgets."""


class Lender(Protocol):
    """The process that gives leave before each attempt, in place of limits of one's own.

    ``account`` tells which amounts are limited there; ``None`` when there is no budget.
    """

    account: Account | None

    def by_tokens(self, place: str) -> bool:
        """True if the tokens of the backend *place* are limited."""

    async def permit(
        self, place: str, worst: Amounts | None, tokens: int, patience_s: float
    ) -> Permit:
        """Wait for leave to ask the backend *place*. Raises what an attempt there would raise."""


def borrowed(policy: Policy) -> Policy:
    """*policy* without the limits that the lending process keeps."""
    return replace(
        policy, limits=Limits(), budget=Allowance(), circuit=None, adaptive=False, hedge=None
    )
