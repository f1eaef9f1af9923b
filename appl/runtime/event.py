"""Events of a run, as values with an address; tracing sees nothing else of it.

Times are ``time.monotonic_ns()``. An event says where it happened in the program, never which
thread it was on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

from appl.backend import Chunk, Request, Response, offers

if TYPE_CHECKING:
    from appl.prompt.message import Message


@dataclass(slots=True)
class ScopeEntered:
    """A function, ``call``, ``map`` item or task got its address; *metadata* is the user's.

    ``arguments`` show what a function was called with, where an instrument wants that.
    """

    address: str
    parent: str
    name: str
    file: str | None
    line: int | None
    at: int
    metadata: Mapping[str, Any] | None = None
    arguments: tuple[str, ...] | None = None


@dataclass(slots=True)
class ScopeLeft:
    """The function at *address* returned, or raised *error*; told where an instrument wants that.

    It returned the answer of the call at ``of``, or what ``value`` shows.
    """

    address: str
    of: str | None
    value: tuple[str, ...] | None
    error: BaseException | None
    at: int


@dataclass(slots=True)
class CallStarted:
    """A call's prompt is complete and it goes to the scheduler.

    ``edges`` are the addresses of the calls whose answers its prompt holds (nearest first, those
    implied by a nearer one left out). ``file`` and ``line`` are the user's source line.
    """

    request: Request
    kind: str
    edges: tuple[str, ...]
    file: str | None
    line: int | None
    at: int

    @property
    def address(self) -> str:
        """The address of the call."""
        return self.request.address


@dataclass(slots=True)
class CallDispatched:
    """An attempt of the call was handed to its backend; ``attempt`` counts from 1.

    ``waited`` are nanoseconds that it waited for leave before, by reason, besides its turn:
    ``budget``, ``circuit``, ``rate``.
    """

    address: str
    attempt: int
    at: int
    waited: Mapping[str, int] | None = None


@dataclass(slots=True)
class AttemptFailed:
    """An attempt failed and the call will be tried again, after *wait_s* seconds or later."""

    address: str
    attempt: int
    error: BaseException
    at: int
    wait_s: float = 0.0


@dataclass(slots=True)
class ChunkArrived:
    """A piece of a streamed answer has come, on the I/O loop; no program has seen it yet."""

    address: str
    chunk: Chunk
    at: int


@dataclass(slots=True)
class ChunksDelivered:
    """The first ``count`` chunks of the call have reached the program that issued it."""

    address: str
    count: int
    at: int


@dataclass(frozen=True, slots=True)
class Source:
    """The origin of an answer that no backend was asked for.

    ``kind`` is ``reused`` (recorded at the same place), ``shifted`` (in the same frame), ``moved``
    (anywhere), or ``pinned`` (given by the user); ``of`` is the address in the earlier run.
    """

    kind: Literal["reused", "shifted", "moved", "pinned"]
    of: str | None = None


@dataclass(slots=True)
class CallEnded:
    """The call has an outcome: ``response``, or ``error`` (``CallCancelled`` when cancelled).

    It may end without having started (a prompt part failed, or it was cancelled while it waited).
    ``chunks`` are those that it was streamed in, as far as it came; none if it was not streamed.
    ``source`` is ``None`` when it was asked for live.
    """

    address: str
    response: Response | None
    error: BaseException | None
    at: int
    chunks: Sequence[Chunk] = ()
    source: Source | None = None


@dataclass(slots=True)
class Delivered:
    """The outcome of the call, of a model or a tool, reached the program that issued it."""

    address: str
    at: int


@dataclass(slots=True)
class ToolStarted:
    """A tool that a model called got its address; it runs when this is recorded.

    ``arguments`` is the JSON text that the model wrote. ``effect`` is ``effect``, ``idempotent``,
    ``pure``, ``program`` (a ``@ppl`` function), or ``refused`` for a call that is answered without
    running anything; ``observed`` is a function that the program gave to ``observe``, with its
    arguments as JSON. ``file`` and ``line`` are those of the function.
    """

    address: str
    name: str
    arguments: str
    effect: str
    file: str | None
    line: int | None
    at: int


@dataclass(slots=True)
class ToolEnded:
    """The call of a tool has a result, also one with an error, or it was cancelled."""

    address: str
    message: Message | None
    error: BaseException | None
    at: int


@dataclass(slots=True)
class Failed:
    """Something failed that no call and no tool has as its end.

    ``kind`` is ``answer``: the answer of the call at *address* was refused by its type, and is not
    asked for again; or ``item``: the item at *address* raised, of ``map`` or ``as_completed``, or a
    function that ``call`` started. ``of`` is the address of the first call that asked for the
    answer, or of the first item beside this one. ``items`` is how many they are; 0 where not all of
    them run, or nobody knows how many there are.
    """

    address: str
    kind: Literal["answer", "item"]
    error: BaseException
    of: str
    items: int
    at: int


@dataclass(slots=True)
class Observed:
    """A program saw something of the outside world that a replay must show it again.

    ``kind`` is ``done``, ``timeout``, ``deadline`` (its value is the limit in seconds), ``now``,
    ``random``, ``uuid``, ``input``, ``env``, ``read``, ``sleep``, ``cancelled`` (somebody outside
    ended the function at this address), ``lost`` (an item of a map that no worker has ended),
    ``asking`` (a tool with effects asks its user, and has done nothing before), ``loaded`` and
    ``saved`` (a conversation that is kept), ``passages`` (the order of passages in a prompt),
    ``evaluation`` (what is evaluated in this scope) or ``sample`` (an answer with its scores). The
    last two no program sees: they are for those who read the record.
    ``value`` is plain data; ``ordinal`` counts the observations at this address.
    """

    address: str
    ordinal: int
    kind: str
    value: Any
    at: int


@dataclass(slots=True)
class BatchChanged:
    """A batch, calls that a provider answers together for less, has got further.

    ``key`` is our own name for it. ``state`` is ``gathered`` (nothing was sent; ``calls`` are the
    addresses of what is in it), ``sending`` (from now on the provider may have it), ``sent``,
    ``refused`` (the provider has not taken it), ``ended``, or ``removed`` (no file of it is left
    at the provider). ``facts`` are plain data without texts of the program: see ``RecordedBatch``.
    """

    key: str
    state: str
    at: int
    facts: Mapping[str, Any] = field(default_factory=dict)
    calls: tuple[str, ...] = ()


@dataclass(slots=True)
class Warned:
    """The runtime tells the user something; also shown on stderr."""

    address: str
    message: str
    at: int


@dataclass(slots=True)
class RunEnded:
    """The run is over: ``reason`` is ``finished``, ``failed``, ``cancelled`` or ``interrupted``."""

    reason: str
    error: BaseException | None
    at: int


Event = (
    ScopeEntered
    | ScopeLeft
    | CallStarted
    | CallDispatched
    | AttemptFailed
    | ChunkArrived
    | ChunksDelivered
    | CallEnded
    | Delivered
    | ToolStarted
    | ToolEnded
    | Failed
    | Observed
    | BatchChanged
    | Warned
    | RunEnded
)


class Instrument(Protocol):
    """Watches a run without power over it; one that raises is dropped, with a warning.

    An ``Unfailing`` one never does. A ``Concealing`` instrument also learns which values it must
    not keep, and one of the class ``WantsChunks`` may want the pieces of answers as they arrive.
    One of the class ``WantsArguments`` may want to see arguments and results of functions.
    ``Recorder`` is an exception: if recording fails, the run's gate stops new calls.
    """

    def on_event(self, event: Event) -> None:
        """Take note of *event*; called on the thread where it happened, must not block."""


@runtime_checkable
class Concealing(Protocol):
    """An instrument that keeps what happens, and leaves secrets out of it."""

    def conceal(self, secrets: Mapping[str, str]) -> None:
        """Keep none of the *secrets*, which are values by name, from now on."""


@runtime_checkable
class WantsChunks(Protocol):
    """An instrument that may want the pieces of all answers, so that all calls are streamed."""

    @property
    def wants_chunks(self) -> bool:
        """True if it wants them in this run."""


def wants_chunks(instrument: Instrument) -> bool:
    """True if *instrument* wants the pieces of all answers."""
    return offers(instrument, WantsChunks) and instrument.wants_chunks


@runtime_checkable
class WantsArguments(Protocol):
    """An instrument that may want to know what functions are called with, and what they return."""

    @property
    def wants_arguments(self) -> bool:
        """True if it wants to know that in this run."""


@runtime_checkable
class Unfailing(Protocol):
    """An instrument that may never raise, so that it is told without a guard."""

    @property
    def never_raises(self) -> bool:
        """True if it does not."""
