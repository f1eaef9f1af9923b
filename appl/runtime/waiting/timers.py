"""``appl.until`` and long sleeps: waits for a time of day, which outlive the process.

Invariant: the time is fixed when the wait begins for the first time, and recorded; the run that
goes on waits for the same time.
"""

from __future__ import annotations

import datetime
from collections.abc import Awaitable, Mapping
from typing import TYPE_CHECKING

from appl.base.moments import moment_of
from appl.errors import Awaited, TraceCorrupt
from appl.runtime.concurrency.fiber import arrive, in_coroutine, wait
from appl.runtime.concurrency.loop_thread import void
from appl.runtime.frame import here
from appl.runtime.waiting import wall_clock
from appl.runtime.waiting.waits import Wait
from appl.runtime.world import Moment

if TYPE_CHECKING:
    from appl.runtime.frame import Frame

DUE, SLEEP = "due", "sleep"


def sleep_until(when: float | None, seconds: float, name: str) -> Awaitable[None] | None:
    """Wait until *when*, or for *seconds* from now; ``await`` it in a coroutine."""
    frame = here(lambda: name, call=False)
    moment = _begun(frame, when, seconds)
    if in_coroutine():
        return _passed_in_loop(moment)
    try:
        wait(moment)
    finally:
        moment.left()
    moment.value()
    return None


async def _passed_in_loop(moment: Wait) -> None:
    try:
        await arrive(moment)
    finally:
        moment.left()
    moment.value()


def _begun(frame: Frame, when: float | None, seconds: float) -> Wait:
    outside = frame.run.outside
    ordinal = outside.next_observation(frame)
    about = f"until {_in_words(when)}" if when is not None else f"for {seconds:g} s"

    def fixed() -> dict[str, object]:
        return {"due": wall_clock.now() + seconds if when is None else when, "about": about}

    recorded_time = outside.world.see(Moment(frame.address, DUE, ordinal, about=about), fixed)
    due = moment_of(recorded_time.get("due")) if isinstance(recorded_time, Mapping) else None
    if due is None:
        raise TraceCorrupt(f"a recorded time at {frame.address} is none: {recorded_time!r:.80}")
    entry = Awaited(frame.address, "time", f"until {_in_words(due)}", due)
    moment = Wait(frame.run, frame, SLEEP, ordinal, entry, _alarm)
    moment.begin()
    return moment


def _alarm(moment: Wait) -> None:
    due = moment.entry.due
    assert due is not None
    longest = moment.run.longest_wait
    moment.attended = lambda: due - wall_clock.now() <= longest
    wall_clock.clock.at(due, lambda: void(moment.done or moment.come(None)))


def _in_words(due: float) -> str:
    try:
        return f"{datetime.datetime.fromtimestamp(due, datetime.UTC):%Y-%m-%d %H:%M:%S} UTC"
    except (OverflowError, ValueError, OSError):
        return "a time that no calendar has"
