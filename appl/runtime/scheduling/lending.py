"""What one attempt takes of what is shared, here or in another process, and gives back.

Invariant: all that a loan holds is taken where the run's budget and the server's traffic are known,
before the attempt is made; it is given back once, however the attempt ends.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

from appl.errors import BackendBusy, BackendError
from appl.runtime.scheduling.accounts import Account, Amounts, Reservation
from appl.runtime.scheduling.policy import Allowance, Limits, Policy, Retries
from appl.runtime.scheduling.traffic import Traffic


class Permit(Protocol):
    """Leave for one attempt; who has it says how the attempt ended."""

    @property
    def probe(self) -> bool:
        """Whether the attempt is to see if the backend is alive again."""

    @property
    def worst(self) -> Amounts | None:
        """What is reserved for it; ``None`` when nobody counts."""

    def answered(self, used: Amounts, tokens: int | None) -> None:
        """It was answered: *used* counts for budgets, *tokens*, where they are known, for rates."""

    def failed(self, error: BaseException, used: Amounts) -> None:
        """It failed with *error*; *used* counts for budgets."""


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


class Loan:
    """What one attempt holds: reservation, slot, place in the rate, perhaps the probe.

    ``asked`` are the tokens that it took of those of a minute; *retries* say how long a server may
    want to be left alone.
    """

    __slots__ = ("_retries", "_traffic", "asked", "epoch", "probe", "reserved")

    def __init__(self, traffic: Traffic, retries: Retries) -> None:
        self._traffic, self._retries = traffic, retries
        self.reserved: Reservation | None = None
        self.epoch: int | None = None
        self.probe = False
        self.asked = 0

    @property
    def worst(self) -> Amounts | None:
        """What is reserved; ``None`` when nobody counts."""
        return None if self.reserved is None else self.reserved.worst

    def answered(self, used: Amounts, tokens: int | None) -> None:
        """The attempt was answered: *used* is spent, and so many *tokens* of a minute."""
        traffic = self._traffic
        self.probe = False
        traffic.breaker.answered()
        if self.epoch is not None:
            traffic.slots.answered(self.epoch)
        if self.asked:
            self._put_right(tokens)
        self.back(used)

    def failed(self, error: BaseException, used: Amounts) -> None:
        """It failed with *error*, and *used* is spent."""
        traffic = self._traffic
        probe, self.probe = self.probe, False
        traffic.breaker.failed(error, probe)
        if isinstance(error, BackendBusy) and self.epoch is not None:
            traffic.slots.busy(self.epoch)
        if isinstance(error, BackendError) and error.retriable:
            self._leave_alone(error.retry_after)
        self.asked = 0
        self.back(used)

    def lost(self) -> None:
        """Whoever made the attempt is gone: nobody knows what came of it, so it is paid for."""
        self.asked = 0
        worst = self.worst or Amounts()
        self.back(worst._replace(cost=worst.cost or None))

    def back(self, used: Amounts = Amounts()) -> None:  # noqa: B008 - a value
        """Give back what is held; *used* is spent. A second time nothing happens."""
        if self.probe:
            self.probe = False
            self._traffic.breaker.left(True)
        if self.asked:
            self._put_right(0)
        reserved, self.reserved = self.reserved, None
        if reserved is not None:
            reserved.settle(used)
        epoch, self.epoch = self.epoch, None
        if epoch is not None:
            self._traffic.slots.give()

    def _put_right(self, tokens: int | None) -> None:
        """Of the tokens that were asked for so many were used; ``None`` leaves it at that."""
        asked, self.asked = self.asked, 0
        if tokens is not None and self._traffic.rate is not None:
            self._traffic.rate.settle(asked, tokens)

    def _leave_alone(self, seconds: float | None) -> None:
        if seconds and self._retries.attempts > 1:
            self._traffic.gate.close(min(seconds, self._retries.patience_s))
