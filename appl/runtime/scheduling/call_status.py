"""The status of calls that are not answered yet: where each one is, and why; made on request.

Invariant: looking changes nothing; it is done on the I/O loop, where nothing changes meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from appl.prompt import Messages
    from appl.runtime.answers.feed import Feed
    from appl.runtime.concurrency.promise import Outcome, Promise
    from appl.runtime.scheduling.patience import Outage

Stage = Literal["record", "prompt", "queue", "worker"]
Why = Literal[
    "part", "turn", "gathering", "prefix", "cache", "connect", "budget", "slot", "circuit",
    "rate", "paused", "retry", "sample", "asked", "recorded", "held", "again", "stray",
    "ending",
]  # fmt: skip
"""Why a call is not answered yet.

``part``: something that its prompt says is not known. ``turn``: others go first. ``gathering``:
calls that come together are looked at together. ``prefix``: the beginning of its prompt is being
computed. ``cache``: the server's cache has no room for one more prompt. ``connect``: the backend is
being connected with. ``budget``: it fits only if others use less than they may. ``slot``: as many
are on their way as may be. ``circuit``: the backend is left alone, because it asked for that or is
taken for dead. ``rate``: as many as may be were asked for in the period. ``paused``: somebody
paused the run. ``retry``: it rests between two attempts. ``sample``: the same question is being
asked. ``asked``: the backend works on it.

With an earlier run's record: ``recorded``: its end is known, and comes in its turn. ``held``: it is
asked when the record is used up. ``again``: likewise, unless the program cancels it as it did then.
``stray``: it is asked unless a recorded call turns out to be the same. ``ending``: somebody outside
has ended it, which takes effect when the record is used up.
"""

When = Literal["now", "later", "never"]
"""When a call or function that somebody outside ends has ended: later in a run that goes on with
another, after what is recorded; never, if it had ended before.
"""


class Endable(Protocol):
    """A call or a function that was started."""

    address: str

    def end_from_outside(self) -> bool:
        """End it as cancelled by somebody outside of the program; false when there is nothing."""


class Unfinished(Endable, Protocol):
    """A call that is not answered yet."""

    model: str
    priority: int
    messages: Messages | None
    emit: Feed | None

    @property
    def file(self) -> str | None:
        """The user's file."""

    @property
    def line(self) -> int | None:
        """The user's line."""

    @property
    def outcome(self) -> Outcome | None:
        """The outcome, once it has ended."""

    @property
    def away(self) -> int:
        """The number, from 1, of the worker that has made it; 0 for a call of this process."""

    def blockers(self) -> Iterable[Promise]:
        """The calls that its prompt waits for."""


@dataclass(frozen=True, slots=True)
class CallStatus:
    """A call that is not answered yet: where it is held, and why it is not further.

    ``number`` is its place in the queue of ``backend``, 1 for the next; 0 when it is not there.
    ``attempt`` is the number of the latest attempt, which began ``since_s`` seconds ago and of
    which ``error`` came, if it failed; else ``error`` is the backend's last refusal, which was one
    of ``refusals`` since its last good answer. ``next_s`` is in how many seconds it goes on at the
    earliest, where that is known. ``ahead`` is how many recorded ends are still to come before it.
    """

    call: Unfinished
    stage: Stage
    why: Why
    backend: str = ""
    number: int = 0
    attempt: int = 0
    since_s: float | None = None
    next_s: float | None = None
    error: BaseException | None = None
    refusals: int = 0
    ahead: int = 0


@dataclass(frozen=True, slots=True)
class Load:
    """The load of one backend of a run, and its limits.

    ``limit`` attempts may be with it now, ``most`` is the limit that was set (``None``: all),
    ``taken`` attempts are there, and ``ready`` calls could be sent. ``outages`` are those of its
    models.
    """

    backend: str
    limit: int | None
    most: int | None
    taken: int
    ready: int
    outages: Mapping[str, Outage]
