"""The log of an item whose worker was lost: the driver collects it, and the next worker uses it.

Invariant: an answer is paid for once. A call is identified by its address and its content, an
observation by address, ordinal and kind. The order in which an item received its answers is that of
the worker that ended it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from appl.errors import CallCancelled, RunError
from appl.runtime.answers.call import Call
from appl.runtime.event import (
    CallEnded,
    CallStarted,
    Event,
    Observed,
    ScopeEntered,
    Source,
    ToolEnded,
    ToolStarted,
    Warned,
)
from appl.runtime.world import Go, Live, Moment, Programs, Tell, ToolRequest

ItemAnswers = dict[Moment, tuple[object, object]]
"""The outcomes of an item's moments, each behind a key of its question; can be pickled.

The key of a call is the digest of its request, that of a tool its name and arguments; an
observation has none.
"""


class ItemLog:
    """The driver's log of one item, on which several workers may have worked in turn.

    The reports of the last worker are the item's record; answers that it got from an earlier
    worker's reports are marked as reused. Calls of lost workers only are marked as cancelled in the
    end: a replay does not ask them.
    """

    def __init__(self) -> None:
        self.answers: ItemAnswers = {}
        self._scopes: set[str] = set()
        self._begun: dict[Moment, CallStarted | ToolStarted | Observed] = {}  # by the last worker
        self._lost: dict[Moment, CallStarted | ToolStarted | Observed] = {}  # by others alone

    def doubtful(self) -> str | None:
        """The name of a tool with effects that has begun and whose end is unknown."""
        tools = ((at, e) for at, e in self._begun.items() if isinstance(e, ToolStarted))
        doubtful = (e.name for at, e in tools if e.effect == "effect" and at not in self.answers)
        return next(doubtful, None)

    def restart(self) -> ItemAnswers:
        """Start the item anew on another worker; return the answers that it may reuse."""
        self._lost |= self._begun
        self._begun = {}
        return self.answers

    def left(self, at: int) -> Iterator[Event]:
        """Yield the events that end the item's log: those of calls that are not part of its record.

        A moment that only a lost worker has seen comes after all those of the last worker.
        """
        lost, self._lost = self._lost, {}
        why = CallCancelled("asked by a worker that was lost, and not again")
        for moment, event in lost.items():
            yield replace(event, at=at)
            if isinstance(event, CallStarted):
                yield CallEnded(moment.address, None, why, at)
            elif isinstance(event, ToolStarted):
                yield ToolEnded(moment.address, None, why, at)

    def fresh(self, event: Event) -> bool:
        """Note *event*; true if it is to be reported."""
        if isinstance(event, ScopeEntered):
            fresh = event.address not in self._scopes
            self._scopes.add(event.address)
            return fresh
        if isinstance(event, CallStarted | ToolStarted | Observed):
            self._begins(_moment(event), event)
        elif isinstance(event, CallEnded | ToolEnded):
            self._ends(_moment(event), event)
        return True

    def _begins(self, moment: Moment, event: CallStarted | ToolStarted | Observed) -> None:
        self._lost.pop(moment, None)
        self._begun[moment] = event
        if isinstance(event, Observed):
            self.answers[moment] = (None, event.value)
        elif moment in self.answers and self.answers[moment][0] != _key(event):
            del self.answers[moment]

    def _ends(self, moment: Moment, event: CallEnded | ToolEnded) -> None:
        """Remember how it ended, unless a program has cancelled it."""
        begun, error = self._begun.get(moment), event.error
        outcome: object = event.message if isinstance(event, ToolEnded) else event.response
        if outcome is None and isinstance(event, CallEnded):
            inside = isinstance(error, CallCancelled) and not error.outside
            outcome = None if inside else error or RunError("it ended without an answer")
        if begun is not None and outcome is not None:
            self.answers[moment] = (_key(begun), outcome)


def _moment(event: CallStarted | CallEnded | ToolStarted | ToolEnded | Observed) -> Moment:
    if isinstance(event, Observed):
        return Moment(event.address, event.kind, event.ordinal)
    called = isinstance(event, CallStarted | CallEnded)
    return Moment(event.address, "answer" if called else "tool")


def _key(question: object) -> object:
    """The key of a *question*: of an event that begins it, of a call or of the use of a tool."""
    if isinstance(question, ToolStarted | ToolRequest):
        return question.name, question.arguments
    if isinstance(question, CallStarted | Call) and question.request is not None:
        return question.request.digest
    return None


def where(event: Any) -> str:
    """The address that *event* is about."""
    return "" if isinstance(event, Warned) else str(event.address)


class LoggedWorld(Live):
    """The world of a worker: answers from the log of its items, and live ones for the rest.

    *within* begins the address of every item. A call elsewhere comes from a thread of the user's
    own, whose address would not be the same on several workers.
    """

    def __init__(self, within: str) -> None:
        self._within = within
        self._answers: ItemAnswers = {}

    def opens(self, programs: Programs) -> None:
        super().opens(programs)
        programs.answered_by(self)

    def add(self, answers: ItemAnswers) -> None:
        """Add *answers* to those that are known."""
        self._answers |= answers

    def expect(
        self, moment: Moment, tell: Tell, live: Go, about: Call | ToolRequest | None = None
    ) -> None:
        """Answer what is known; refuse a call without an address that holds for all workers."""
        key, answer = self._answers.get(moment, (None, None))
        if moment.kind == "workers":  # a worker hires none
            tell(None)
        elif isinstance(about, Call) and not moment.address.startswith(self._within):
            tell(
                RunError(
                    f"{moment.address} was asked on a thread or task of your own, whose address is "
                    "not known beyond this worker; start it with appl.call(f, ...)"
                )
            )
        elif key is None or key != _key(about):
            live()
        else:
            if isinstance(about, Call):
                about.source = Source("reused", about.address)
            del self._answers[moment]
            tell(answer)

    def see(self, moment: Moment, live: Callable[[], object]) -> object:
        """The logged observation, or a new one."""
        known = self._answers.pop(moment, None)
        return super().see(moment, live if known is None else lambda: known[1])
