"""Loans and permits: the shares of budget, slots and rate that one attempt takes and gives back.

Invariant: all that a loan holds is taken in the process that knows the run's budget and the
server's traffic, before the attempt is made; it is given back once, however the attempt ends.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

from appl.errors import BackendBusy, BackendError
from appl.runtime.scheduling.accounts import Account, Amounts, Reservation
from appl.runtime.scheduling.policy import Allowance, Limits, Policy, Retries
from appl.runtime.scheduling.traffic import Traffic


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


class Loan:
    """The things that one attempt holds: reservation, slot, place in the rate, perhaps the probe.

    ``asked`` are the tokens that it took of those of a minute; *retries* limit the time for which
    a server may want to be left alone.
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
        """The amounts that are reserved; ``None`` when nothing is counted."""
        return None if self.reserved is None else self.reserved.worst

    def answered(self, used: Amounts, tokens: int | None) -> None:
        """The attempt was answered: *used* is spent, and so many *tokens* of a minute."""
        traffic = self._traffic
        # Before the slot goes back: the next attempt is let in by that, and finds the circuit
        # closed and the limit as this answer leaves it.
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
        """Give back, and charge the worst case: the process that made the attempt is gone."""
        # The tokens of the minute stay taken, as the server may have worked for it.
        self.asked = 0
        worst = self.worst or Amounts()
        self.back(worst._replace(cost=worst.cost or None))

    def back(self, used: Amounts = Amounts()) -> None:  # noqa: B008 - a value
        """Give back what is held; *used* is spent. A second time nothing happens."""
        # Each is forgotten as it is given back, so that errors on the way can come here again.
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
        """Correct the rate: so many of the tokens asked for were used; ``None``: all of them."""
        asked, self.asked = self.asked, 0
        if tokens is not None and self._traffic.rate is not None:
            self._traffic.rate.settle(asked, tokens)

    def _leave_alone(self, seconds: float | None) -> None:
        if seconds and self._retries.attempts > 1:
            self._traffic.gate.close(min(seconds, self._retries.patience_s))
