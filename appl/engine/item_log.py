"""The log of an item whose worker was lost: the driver collects it, and the next worker uses it.

Invariant: an answer is paid for once. A call is identified by its address and its content, an
observation by address, ordinal and kind. The order in which an item received its answers is that of
the worker that ended it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from appl.backend import Response
from appl.errors import CallCancelled, RunError
from appl.prompt import Message
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


@dataclass(slots=True)
class ItemAnswers:
    """The ends of an item's calls and tools, and its observations: plain data that can be sent."""

    calls: dict[str, tuple[bytes, Response | None, BaseException | None]] = field(
        default_factory=dict
    )
    tools: dict[str, tuple[str, str, Message]] = field(default_factory=dict)
    seen: dict[tuple[str, int, str], Any] = field(default_factory=dict)


class ItemLog:
    """The driver's log of one item, on which several workers may have worked in turn.

    The reports of the last worker are the item's record; answers that it got from an earlier
    worker's reports are marked as reused. Calls of lost workers only are marked as cancelled in the
    end: a replay does not ask them.
    """

    def __init__(self) -> None:
        self.answers = ItemAnswers()
        self._scopes: set[str] = set()
        self._calls: dict[str, CallStarted] = {}
        self._tools: dict[str, ToolStarted] = {}
        self._seen: dict[tuple[str, int, str], Observed] = {}
        self._lost: dict[str, CallStarted | ToolStarted] = {}
        self._unseen: dict[tuple[str, int, str], Observed] = {}

    def doubtful(self) -> str | None:
        """The name of a tool with effects that has begun and whose end is unknown."""
        for address, used in self._tools.items():
            if used.effect == "effect" and address not in self.answers.tools:
                return used.name
        return None

    def restart(self) -> ItemAnswers:
        """Start the item anew on another worker; return the answers that it may reuse."""
        self._lost |= {**self._calls, **self._tools}
        self._unseen |= self._seen
        self._calls, self._tools, self._seen = {}, {}, {}
        return self.answers

    def left(self, at: int) -> Iterator[Event]:
        """Yield the events that end the item's log: those of calls that are not part of its record.

        A moment that only a lost worker has seen comes after all those of the last worker.
        """
        for seen in self._unseen.values():
            yield replace(seen, at=at)
        self._unseen = {}
        why = CallCancelled("asked by a worker that was lost, and not again")
        for event in self._lost.values():
            yield replace(event, at=at)
            if isinstance(event, CallStarted):
                yield CallEnded(event.request.address, None, why, at)
            else:
                yield ToolEnded(event.address, None, why, at)
        self._lost = {}

    def fresh(self, event: Event) -> bool:
        """Note *event*; true if it is to be reported."""
        if isinstance(event, ScopeEntered):
            size = len(self._scopes)
            self._scopes.add(event.address)
            return len(self._scopes) > size
        note = _NOTES.get(type(event))
        if note is not None:
            note(self, event)
        return True

    def _started(self, event: CallStarted) -> None:
        address = event.request.address
        self._lost.pop(address, None)
        self._calls[address] = event
        known = self.answers.calls.get(address)
        if known is not None and known[0] != event.request.digest:
            del self.answers.calls[address]

    def _ended(self, event: CallEnded) -> None:
        begun, error = self._calls.get(event.address), event.error
        ended = not isinstance(error, CallCancelled) or error.outside
        if begun is not None and ended:
            known = begun.request.digest, event.response, event.error
            self.answers.calls[event.address] = known

    def _tool(self, event: ToolStarted) -> None:
        self._lost.pop(event.address, None)
        self._tools[event.address] = event

    def _tool_ended(self, event: ToolEnded) -> None:
        begun = self._tools.get(event.address)
        if begun is not None and event.message is not None:
            self.answers.tools[event.address] = (begun.name, begun.arguments, event.message)

    def _observed(self, event: Observed) -> None:
        key = (event.address, event.ordinal, event.kind)
        self._unseen.pop(key, None)
        self._seen[key] = event
        self.answers.seen[key] = event.value


_NOTES: dict[type, Callable[[ItemLog, Any], None]] = {
    CallStarted: ItemLog._started,
    CallEnded: ItemLog._ended,
    ToolStarted: ItemLog._tool,
    ToolEnded: ItemLog._tool_ended,
    Observed: ItemLog._observed,
}


def where(event: Event) -> str:
    """The address that *event* is about."""
    return event.request.address if isinstance(event, CallStarted) else _address(event)


def _address(event: Any) -> str:
    return "" if isinstance(event, Warned) else str(event.address)


class LoggedWorld(Live):
    """The world of a worker: answers from the log of its items, and live ones for the rest.

    *within* begins the address of every item. A call elsewhere comes from a thread of the user's
    own, whose address would not be the same on several workers.
    """

    def __init__(self, within: str) -> None:
        self._within = within
        self._answers = ItemAnswers()

    def opens(self, programs: Programs) -> None:
        super().opens(programs)
        programs.answered_by(self)

    def add(self, answers: ItemAnswers) -> None:
        """Add *answers* to those that are known."""
        self._answers.calls |= answers.calls
        self._answers.tools |= answers.tools
        self._answers.seen |= answers.seen

    def expect(
        self, moment: Moment, tell: Tell, live: Go, about: Call | ToolRequest | None = None
    ) -> None:
        if isinstance(about, ToolRequest):
            self._tool(moment.address, about, tell, live)
        elif moment.kind == "workers":  # a worker hires none
            tell(None)
        elif about is not None:
            self._answer(about, live)
        else:
            live()

    def _answer(self, call: Call, live: Go) -> None:
        """Answer a known call; refuse a call without an address that holds for all workers."""
        if not call.address.startswith(self._within):
            call.failed(
                RunError(
                    f"{call.address} was asked on a thread or task of your own, whose address is "
                    "not known beyond this worker; start it with appl.call(f, ...)"
                )
            )
            return
        known = self._answers.calls.pop(call.address, None)
        if known is None or call.request is None or known[0] != call.request.digest:
            live()
            return
        _, response, error = known
        call.source = Source("reused", call.address)
        if response is not None:
            call.answered(response)
        else:
            call.failed(error or RunError("it ended without an answer"))

    def _tool(self, address: str, wanted: ToolRequest, tell: Tell, live: Go) -> None:
        """Give the result of a tool that has run; otherwise run it."""
        known = self._answers.tools.pop(address, None)
        if known is None or known[:2] != (wanted.name, wanted.arguments):
            live()
        else:
            tell(known[2])

    def see(self, moment: Moment, live: Callable[[], Any]) -> Any:
        """The logged observation, or a new one."""
        key = (moment.address, moment.ordinal, moment.kind)
        if key not in self._answers.seen:
            return super().see(moment, live)
        known = self._answers.seen.pop(key)
        return super().see(moment, lambda: known)
