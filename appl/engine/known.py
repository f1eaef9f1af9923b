"""What is known of an item that a lost worker had begun: collected by the driver, used by the next.

Invariant: what was recorded once is neither recorded nor paid for again; a call is known by its
address and its content, an observation by address, ordinal and kind.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from appl.backend import Response
from appl.errors import CallCancelled, RunError
from appl.prompt import Message
from appl.runtime.call import Call
from appl.runtime.effects import Effects
from appl.runtime.event import (
    AttemptFailed,
    CallDispatched,
    CallEnded,
    CallStarted,
    ChunkArrived,
    ChunksDelivered,
    Delivered,
    Event,
    Observed,
    ScopeEntered,
    ToolEnded,
    ToolStarted,
    Warned,
)

if TYPE_CHECKING:
    from appl.runtime.run import Run


@dataclass(slots=True)
class Memory:
    """The ends of an item's calls and tools, and what it saw; plain data that can be sent."""

    calls: dict[str, tuple[bytes, Response | None, BaseException | None]] = field(
        default_factory=dict
    )
    tools: dict[str, tuple[str, str, Message]] = field(default_factory=dict)
    seen: dict[tuple[str, int, str], Any] = field(default_factory=dict)


class Witness:
    """The driver's account of one item that is being worked on."""

    def __init__(self) -> None:
        self.memory = Memory()
        self._digests: dict[str, bytes] = {}
        self._tools: dict[str, ToolStarted] = {}
        self._scopes: set[str] = set()
        self._told: set[str] = set()
        self._shown: dict[str, int] = {}

    def doubtful(self) -> str | None:
        """The name of a tool with effects that has begun, and of which nothing more is known."""
        for address, used in self._tools.items():
            if used.effect == "effect" and address not in self.memory.tools:
                return used.name
        return None

    def fresh(self, event: Event) -> bool:
        """Whether *event* says something that was not recorded before."""
        found = _KINDS.get(type(event))
        return found is None or found(self, event)

    def _scope(self, event: ScopeEntered) -> bool:
        return _added(self._scopes, event.address)

    def _started(self, event: CallStarted) -> bool:
        address, digest = event.request.address, event.request.digest
        known = self.memory.calls.get(address)
        if known is not None and known[0] == digest:
            return False
        self.memory.calls.pop(address, None)
        self._told.discard(address)
        self._digests[address] = digest
        return True

    def _on_its_way(self, event: CallDispatched | AttemptFailed | ChunkArrived) -> bool:
        return event.address not in self.memory.calls

    def _ended(self, event: CallEnded) -> bool:
        if event.address in self.memory.calls:
            return False
        digest = self._digests.get(event.address)
        if digest is not None and not isinstance(event.error, CallCancelled):
            self.memory.calls[event.address] = (digest, event.response, event.error)
        return True

    def _delivered(self, event: Delivered) -> bool:
        return _added(self._told, event.address)

    def _chunks(self, event: ChunksDelivered) -> bool:
        before = self._shown.get(event.address, 0)
        self._shown[event.address] = max(before, event.count)
        return event.count > before

    def _tool(self, event: ToolStarted) -> bool:
        self._tools[event.address] = event
        return event.address not in self.memory.tools

    def _tool_ended(self, event: ToolEnded) -> bool:
        if event.address in self.memory.tools:
            return False
        begun = self._tools.get(event.address)
        if begun is not None and event.message is not None:
            self.memory.tools[event.address] = (begun.name, begun.arguments, event.message)
        return True

    def _observed(self, event: Observed) -> bool:
        key = (event.address, event.ordinal, event.kind)
        if key in self.memory.seen:
            return False
        self.memory.seen[key] = event.value
        return True


def _added(to: set[str], address: str) -> bool:
    size = len(to)
    to.add(address)
    return len(to) > size


_KINDS: dict[type, Callable[[Witness, Any], bool]] = {
    ScopeEntered: Witness._scope,
    CallStarted: Witness._started,
    CallDispatched: Witness._on_its_way,
    AttemptFailed: Witness._on_its_way,
    ChunkArrived: Witness._on_its_way,
    CallEnded: Witness._ended,
    Delivered: Witness._delivered,
    ChunksDelivered: Witness._chunks,
    ToolStarted: Witness._tool,
    ToolEnded: Witness._tool_ended,
    Observed: Witness._observed,
}


def where(event: Event) -> str:
    """The address that *event* is about."""
    return event.request.address if isinstance(event, CallStarted) else _address(event)


def _address(event: Any) -> str:
    return "" if isinstance(event, Warned) else str(event.address)


class Known:
    """The worker's side: a record of calls that need not be asked again, and the effects likewise.

    *within* begins the address of every item; a call elsewhere was issued by a thread of the user's
    own, which has no address that would hold over several workers.
    """

    def __init__(self, within: str, live: Effects) -> None:
        self._within, self._live = within, live
        self._memory = Memory()

    def add(self, memory: Memory) -> None:
        """Know what *memory* holds, too."""
        self._memory.calls |= memory.calls
        self._memory.tools |= memory.tools
        self._memory.seen |= memory.seen

    # -- calls

    def begin(self, run: Run, live: Effects) -> Effects:
        """What is seen of the world: what is known, and else what *live* sees."""
        self._live = live
        return self

    def amend(self, call: Call) -> None:
        """Calls are asked as they stand."""

    def claim(self, call: Call, go: Callable[[], None]) -> bool:
        """Answer a call that is known; refuse one that cannot be told from another worker's."""
        if not call.address.startswith(self._within):
            call.failed(
                RunError(
                    f"{call.address} was asked on a thread or task of your own, whose address is "
                    "not known beyond this worker; start it with appl.call(f, ...)"
                )
            )
            return True
        known = self._memory.calls.pop(call.address, None)
        if known is None or call.request is None or known[0] != call.request.digest:
            return False
        _, response, error = known
        if response is not None:
            call.answered(response)
        else:
            call.failed(error or RunError("it ended without an answer"))
        return True

    def on_quiet(self, final: bool = True) -> bool:
        """Nothing is held back."""
        return False

    def on_cancel(self, address: str, go: Callable[[], None]) -> bool:
        """What is cancelled ends at once."""
        return False

    def on_failed(self, address: str, go: Callable[[], None]) -> bool:
        """What fails ends at once."""
        return False

    def dropped(self, address: str) -> bool:
        """Nothing was."""
        return False

    # -- effects

    def perform(self, address: str, ordinal: int, kind: str, live: Callable[[], Any]) -> Any:
        """What was seen there, or what is to be seen."""
        key = (address, ordinal, kind)
        if key in self._memory.seen:
            return self._memory.seen.pop(key)
        return self._live.perform(address, ordinal, kind, live)

    def tool(
        self, address: str, name: str, arguments: str, at_once: bool,
        end: Callable[[Message | BaseException], None],
    ) -> bool:  # fmt: skip
        """Give *end* the result of a tool that has run; false when it is to run."""
        known = self._memory.tools.pop(address, None)
        if known is None or known[:2] != (name, arguments):
            return False
        end(known[2])
        return True
