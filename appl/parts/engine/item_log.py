"""The log of an item whose worker may be lost: the driver keeps it, and the next worker uses it.

Invariant: an answer is paid for once. A call is identified by its address and its content, the use
of a tool by name and arguments, an observation by address, ordinal and kind. The order in which an
item received its answers is that of the worker that ended it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from appl.errors import CallCancelled
from appl.parts.engine.questions import WorkerCall
from appl.prompt import Prompt
from appl.runtime.event import (
    Event,
    Failed,
    Observed,
    ScopeEntered,
    ScopeLeft,
    ToolEnded,
    ToolStarted,
)
from appl.runtime.frame import Frame
from appl.runtime.world import Moment, ToolRequest

ItemAnswers = dict[Moment, tuple[object, object]]
"""The ends of an item's tools and its observations, each behind a key; can be pickled.

The key of a tool is its name and arguments; an observation has none.
"""
Begun = WorkerCall | ToolStarted | Observed


class ItemLog:
    """The driver's log of one item, on which several workers may have worked in turn.

    The reports of the last worker are the item's record; answers to what an earlier worker asked
    are marked as reused. What only lost workers did is marked as cancelled in the end: a replay
    does not ask it.
    """

    def __init__(self) -> None:
        self._answers: ItemAnswers = {}
        self._calls: dict[str, WorkerCall] = {}
        self._frames: dict[str, Frame] = {}
        self._scopes: set[str] = set()
        self._left: set[str] = set()
        self._begun: dict[Moment, Begun] = {}  # by the last worker
        self._lost: dict[Moment, Begun] = {}  # by others alone
        self._failures: list[Event] = []  # of the last worker

    # -- its calls

    def frame(self, caller: Frame, conversation: str) -> Frame:
        """Stands for the activation at the address *conversation*, as long as the item goes on."""
        frame = self._frames.get(conversation)
        if frame is None:
            frame = self._frames[conversation] = Frame(caller.run, caller, conversation, Prompt())
        return frame

    def ask(self, call: WorkerCall) -> WorkerCall:
        """Ask *call*, or have the call go on for it that a lost worker has asked; returns which."""
        moment, earlier = Moment(call.address, "answer"), self._calls.get(call.address)
        self._lost.pop(moment, None)
        if earlier is not None:
            call.prepare()
            if earlier.answers(call):
                self._begun[moment] = earlier
                earlier.continue_for(call)
                return earlier
            earlier.parted(CallCancelled("another question was asked in its place"))
        self._begun[moment] = self._calls[call.address] = call
        call.run.admit(call)
        return call

    def abort(self) -> None:
        """Cancel the calls that are not answered."""
        for call in self._calls.values():
            call.aborted()

    # -- its tools and observations

    def fresh(self, event: Event) -> bool:
        """Note *event*; true if it is to be reported."""
        if isinstance(event, ScopeEntered):
            fresh = event.address not in self._scopes
            self._scopes.add(event.address)
            return fresh
        if isinstance(event, ScopeLeft):
            fresh = event.address not in self._left
            self._left.add(event.address)
            return fresh
        if isinstance(event, Failed):  # once the item has ended: another worker may do better
            self._failures.append(event)
            return False
        if isinstance(event, ToolStarted | Observed):
            self._begins(moment_of(event), event)
        elif isinstance(event, ToolEnded) and event.message is not None:
            begun = self._begun.get(moment_of(event))
            if begun is not None:
                self._answers[moment_of(event)] = key_of(begun), event.message
        return True

    def _begins(self, moment: Moment, event: ToolStarted | Observed) -> None:
        self._lost.pop(moment, None)
        self._begun[moment] = event
        if isinstance(event, Observed):
            self._answers[moment] = None, event.value
        elif moment in self._answers and self._answers[moment][0] != key_of(event):
            del self._answers[moment]

    # -- when a worker is lost

    def doubtful(self) -> str | None:
        """The name of a tool with effects that has begun and whose end is unknown."""
        tools = ((at, e) for at, e in self._begun.items() if isinstance(e, ToolStarted))
        doubtful = (e.name for at, e in tools if e.effect == "effect" and at not in self._answers)
        return next(doubtful, None)

    def restart(self) -> ItemAnswers:
        """Start the item anew on another worker; return the answers that it may reuse."""
        self._lost |= self._begun
        self._begun = {}
        self._failures.clear()
        return self._answers

    def end(self, at: int) -> Iterator[Event]:
        """End the log; yield what failed, and the ends of tools that are not part of the record.

        What only a lost worker has done comes after all that the last worker did.
        """
        yield from self._failures
        for frame in self._frames.values():
            frame.finish()
        lost, self._lost = self._lost, {}
        for begun in lost.values():
            if isinstance(begun, WorkerCall):
                begun.end_as_lost()
                continue
            yield replace(begun, at=at)
            if isinstance(begun, ToolStarted):
                why = CallCancelled("begun by a worker that was lost, and not again")
                yield ToolEnded(begun.address, None, why, at)


def moment_of(event: ToolStarted | ToolEnded | Observed) -> Moment:
    """The moment that *event* is about."""
    if isinstance(event, Observed):
        return Moment(event.address, event.kind, event.ordinal)
    return Moment(event.address, "tool")


def key_of(question: object) -> object:
    """The key of the use of a tool; ``None`` for anything else."""
    if isinstance(question, ToolStarted | ToolRequest):
        return question.name, question.arguments
    return None
