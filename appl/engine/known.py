"""What is known of an item that a lost worker had begun: collected by the driver, used by the next.

Invariant: what was answered once is not paid for again; a call is known by its address and its
content, an observation by address, ordinal and kind. The order in which an item was told of its
answers is that of the worker that ended it.
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
class Memory:
    """The ends of an item's calls and tools, and what it saw; plain data that can be sent."""

    calls: dict[str, tuple[bytes, Response | None, BaseException | None]] = field(
        default_factory=dict
    )
    tools: dict[str, tuple[str, str, Message]] = field(default_factory=dict)
    seen: dict[tuple[str, int, str], Any] = field(default_factory=dict)


class Witness:
    """The driver's account of one item, which one worker after another may have worked on.

    What the last worker tells is the item's record; the answers that it was given from what an
    earlier one had told are marked as reused. What only a lost worker had asked is marked as
    cancelled in the end: a replay does not ask it.
    """

    def __init__(self) -> None:
        self.memory = Memory()
        self._scopes: set[str] = set()
        self._calls: dict[str, CallStarted] = {}
        self._tools: dict[str, ToolStarted] = {}
        self._seen: dict[tuple[str, int, str], Observed] = {}
        self._lost: dict[str, CallStarted | ToolStarted] = {}
        self._unseen: dict[tuple[str, int, str], Observed] = {}

    def doubtful(self) -> str | None:
        """The name of a tool with effects that has begun, and of which nothing more is known."""
        for address, used in self._tools.items():
            if used.effect == "effect" and address not in self.memory.tools:
                return used.name
        return None

    def begins_again(self) -> Memory:
        """Another worker begins the item anew; what it need not ask again."""
        self._lost |= {**self._calls, **self._tools}
        self._unseen |= self._seen
        self._calls, self._tools, self._seen = {}, {}, {}
        return self.memory

    def left(self, at: int) -> Iterator[Event]:
        """What remains to be told when the item is over: of what is not part of its record.

        A moment that a lost worker had seen comes after all that the last one has seen.
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
        """Take note of *event*: whether it is to be told."""
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
        known = self.memory.calls.get(address)
        if known is not None and known[0] != event.request.digest:
            del self.memory.calls[address]

    def _ended(self, event: CallEnded) -> None:
        begun, error = self._calls.get(event.address), event.error
        ended = not isinstance(error, CallCancelled) or error.outside
        if begun is not None and ended:
            known = begun.request.digest, event.response, event.error
            self.memory.calls[event.address] = known

    def _tool(self, event: ToolStarted) -> None:
        self._lost.pop(event.address, None)
        self._tools[event.address] = event

    def _tool_ended(self, event: ToolEnded) -> None:
        begun = self._tools.get(event.address)
        if begun is not None and event.message is not None:
            self.memory.tools[event.address] = (begun.name, begun.arguments, event.message)

    def _observed(self, event: Observed) -> None:
        key = (event.address, event.ordinal, event.kind)
        self._unseen.pop(key, None)
        self._seen[key] = event
        self.memory.seen[key] = event.value


_NOTES: dict[type, Callable[[Witness, Any], None]] = {
    CallStarted: Witness._started,
    CallEnded: Witness._ended,
    ToolStarted: Witness._tool,
    ToolEnded: Witness._tool_ended,
    Observed: Witness._observed,
}


def where(event: Event) -> str:
    """The address that *event* is about."""
    return event.request.address if isinstance(event, CallStarted) else _address(event)


def _address(event: Any) -> str:
    return "" if isinstance(event, Warned) else str(event.address)


class Known(Live):
    """The world of a worker: what is known of its items comes from there, and the rest is live.

    *within* begins the address of every item; a call elsewhere was issued by a thread of the user's
    own, which has no address that would hold over several workers.
    """

    def __init__(self, within: str) -> None:
        self._within = within
        self._memory = Memory()

    def opens(self, programs: Programs) -> None:
        super().opens(programs)
        programs.answered_by(self)

    def add(self, memory: Memory) -> None:
        """Know what *memory* holds, too."""
        self._memory.calls |= memory.calls
        self._memory.tools |= memory.tools
        self._memory.seen |= memory.seen

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
        """Answer a call that is known; refuse one that cannot be told from another worker's."""
        if not call.address.startswith(self._within):
            call.failed(
                RunError(
                    f"{call.address} was asked on a thread or task of your own, whose address is "
                    "not known beyond this worker; start it with appl.call(f, ...)"
                )
            )
            return
        known = self._memory.calls.pop(call.address, None)
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
        """Tell the result of a tool that has run; else it runs."""
        known = self._memory.tools.pop(address, None)
        if known is None or known[:2] != (wanted.name, wanted.arguments):
            live()
        else:
            tell(known[2])

    def see(self, moment: Moment, live: Callable[[], Any]) -> Any:
        """What was seen there, or what is to be seen."""
        key = (moment.address, moment.ordinal, moment.kind)
        if key not in self._memory.seen:
            return super().see(moment, live)
        known = self._memory.seen.pop(key)
        return super().see(moment, lambda: known)
