"""What the scheduler holds, and why: plain data for whoever asks, made when he asks.

Invariant: looking changes nothing; it is done on the I/O loop, where everything holds still.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from appl.runtime.call import Call

Stage = Literal["prompt", "queue", "worker"]
Why = Literal[
    "part", "turn", "gathering", "prefix", "cache", "connect", "budget", "slot", "gate", "circuit",
    "rate", "paused", "retry", "sample", "asked",
]  # fmt: skip
"""Why a call is not answered yet.

``part``: something that its prompt says is not known. ``turn``: others go first. ``gathering``:
calls that come together are looked at together. ``prefix``: the beginning of its prompt is being
computed. ``cache``: the server's cache has no room for one more prompt. ``connect``: the backend is
being connected with. ``budget``: it fits only if others use less than they may. ``slot``: as many
are on their way as may be. ``gate``: the backend asked to be left alone. ``circuit``: the backend
is taken for dead. ``rate``: as many as may be were asked for in the period. ``paused``: somebody
paused the run. ``retry``: it rests between two attempts. ``sample``: the same question is being
asked. ``asked``: the backend works on it.
"""


@dataclass(frozen=True, slots=True)
class Holding:
    """A call that is not answered yet: where it is held, and why it is not further.

    ``number`` is its place in the queue of ``backend``, 1 for the next; 0 when it is not there.
    ``attempt`` is the number of the latest attempt, which began ``since_s`` seconds ago and of
    which ``error`` came, if it failed. ``next_s`` is in how many seconds it goes on at the
    earliest, where that is known.
    """

    call: Call
    stage: Stage
    why: Why
    backend: str = ""
    number: int = 0
    attempt: int = 0
    since_s: float | None = None
    next_s: float | None = None
    error: BaseException | None = None


@dataclass(frozen=True, slots=True)
class Load:
    """What one backend of a run has to do, and what it may do at once.

    ``limit`` is how many attempts may be with it now and ``most`` what was set (``None``: all),
    ``taken`` how many there are, ``ready`` how many calls could be sent. ``gate_s`` and
    ``circuit_s`` are the seconds until it may be asked again, 0 when it may.
    """

    backend: str
    limit: int | None
    most: int | None
    taken: int
    ready: int
    gate_s: float
    circuit_s: float
