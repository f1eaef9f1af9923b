"""Says so when one program keeps the others of its thread from going on.

Invariant: it looks from the I/O thread and changes nothing; each hub is told about once at a time.
"""

from __future__ import annotations

import sys
import traceback
import weakref
from typing import TYPE_CHECKING, Any

from appl.runtime.concurrency.crossing import io_thread

if TYPE_CHECKING:
    from appl.runtime.concurrency.fiber import Hub

LATE = 5.0


def watch(hub: Hub) -> None:
    """Look at *hub* in ``LATE`` seconds: if it has not delivered anything by then, tell."""
    turns, io, ref = hub.turns, io_thread(), weakref.ref(hub)

    def look() -> None:
        hub = ref()
        if hub is None:
            return
        hub.watched = False
        if hub.turns == turns and hub.inbox and hub.fibers and hub.alive():
            _tell(hub)

    hub.watched = True
    io.send(lambda: _void(io.loop.call_later(LATE, look)))


def _tell(hub: Hub) -> None:
    """Through the run of what waits to be delivered, else on stderr."""
    message = _message(hub)
    for item in tuple(hub.inbox):
        run = getattr(item, "run", None)
        if run is not None:
            run.warn(getattr(item, "address", ""), message)
            return
    print(f"appl: {message}", file=sys.stderr)


def _message(hub: Hub) -> str:
    where = ""
    frame = sys._current_frames().get(hub.thread.ident or 0)
    if frame is not None:
        last = traceback.extract_stack(frame)[-1]
        where = f" It is at {last.filename}:{last.lineno} in {last.name}."
    return (
        f"{len(hub.fibers)} programs of thread {hub.thread.name!r} have not gone on for "
        f"{LATE:g} s, because another one there computes or sleeps.{where} "
        "Use appl.sleep instead of time.sleep, and call(f) for long computations."
    )


def _void(_: Any) -> None:
    """Nothing, for an action whose value is of no interest."""
