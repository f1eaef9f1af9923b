"""What follows a failed attempt: whether its call is tried again, and when.

Invariant: a call waits for as long as its patience at most (``Admission.late``), whatever failed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from appl.errors import BackendBusy, BackendError
from appl.runtime.scheduling.patience import exhausted_error, wait_s
from appl.runtime.scheduling.policy import Retries

if TYPE_CHECKING:
    from appl.runtime.scheduling.dispatcher import Dispatcher, Question

_RECENT = 1000
"""The number of new calls whose share of retries is kept for later at most."""


class RetryBudget:
    """The number of retries that all calls have left, so that a failing backend gets few of them.

    Each new call earns a share of one. Unused retries are kept, but not without limit.
    """

    def __init__(self, retries: Retries) -> None:
        self._share, self._most = retries.share, retries.spare + retries.share * _RECENT
        self._tokens = float(retries.spare)
        self._counted = 0

    def spend(self, calls: int) -> bool:
        """Take one retry; false if none is left. So many *calls* have begun by now."""
        earned, self._counted = self._share * (calls - self._counted), calls
        self._tokens = min(self._most, self._tokens + earned)
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True


def wait_after(dispatcher: Dispatcher, question: Question, error: BackendError) -> float:
    """The seconds until the next attempt after *error*, which is raised if it is final."""
    retries, call, now = dispatcher.policy.retries, question.call, dispatcher.now()
    # A program that has seen a part of this answer must not be given the beginning of another.
    over = question.over or call.run.closed or call.outcome is not None
    if not error.retriable or retries.attempts == 1 or over or question.begun():
        raise error
    question.refused = now if question.refused is None else question.refused
    traffic = dispatcher.traffic
    outage = traffic.outage(question.request.model)
    if isinstance(error, BackendBusy) or outage.dead:
        # Turned away, or not there: the call has not been tried, so only the time counts.
        if question.elsewhere:
            raise error
        question.away += 1
    else:
        question.failed += 1
        # When a server fails for everybody, retries of all calls would add to its load.
        if question.failed >= retries.attempts or not (
            question.shared or traffic.retries.spend(traffic.calls)
        ):
            raise error
    retry_after = error.retry_after or 0.0
    remaining_s = dispatcher.admission.late(question, outage) - now
    if remaining_s <= 0 or retry_after > remaining_s:
        raise exhausted_error(error, retries.patience_s) from None
    failed = max(question.failed, question.away)
    wait = wait_s(retries, dispatcher.seed, call.address, failed, retry_after)
    return min(wait, remaining_s)
