"""Clocks, dice and input that a replay shows again: ``now``, ``random``, ``input``, ``read``, ….

Invariant: each goes through the run's effects, at the address of the function that looks.
"""

from __future__ import annotations

import datetime
import os
import random as dice
import time
import uuid as uuids
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, cast

from appl.errors import InvalidOption, TraceCorrupt
from appl.runtime.concurrency import clock
from appl.runtime.concurrency.fiber import in_coroutine
from appl.runtime.concurrency.typed_input import typed
from appl.runtime.frame import here
from appl.runtime.tools.observation import observed
from appl.runtime.world import Moment

P = ParamSpec("P")
T = TypeVar("T")


def _observe(kind: str, live: Callable[[], object]) -> Any:
    frame = here(lambda: kind, call=False)
    return frame.run.outside.observe(frame, kind, live)


def _read(kind: str, live: Callable[[], object], reads: Callable[[Any], T]) -> T:
    """The observed value, as *reads* makes it; a record may hold anything."""
    value = _observe(kind, live)
    try:
        return reads(value)
    except (TypeError, ValueError, AttributeError, OverflowError, OSError):
        raise TraceCorrupt(f"a recorded {kind}() is none: {value!r:.80}") from None


def now() -> datetime.datetime:
    """The time, in UTC."""
    return _read("now", lambda: time.time_ns() // 1000, _moment)


def _moment(stamp: Any) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(stamp / 1e6, datetime.UTC)


def random() -> float:
    """A number in [0, 1)."""
    return _read("random", dice.random, float)


def uuid() -> uuids.UUID:
    """A random UUID."""
    return _read("uuid", lambda: str(uuids.uuid4()), uuids.UUID)


def input(prompt: str = "") -> str:
    """A line that the user types. Raises ``EOFError`` at the end of the input, as then recorded.

    A tool may ask, too: Ctrl-C ends its question at once, and a resumed run asks it again.
    """
    frame = here(lambda: "input", call=False)
    outside = frame.run.outside
    ordinal = outside.next_observation(frame)

    def live() -> str | None:
        from appl.runtime.tools.asking import tell_asking

        tell_asking(frame, ordinal)
        return _typed(prompt)

    line = outside.world.see(Moment(frame.address, "input", ordinal), live)
    if line is None:
        raise EOFError
    return str(line)


def _typed(prompt: str) -> str | None:
    try:
        return typed(prompt)
    except EOFError:
        return None


def env(name: str, default: str | None = None) -> str | None:
    """An environment variable."""
    value = _observe("env", lambda: os.environ.get(name, default))
    return None if value is None else str(value)


def read(path: str | os.PathLike[str], encoding: str = "utf-8") -> str:
    """The text of a file."""
    return str(_observe("read", lambda: Path(path).read_text(encoding)))


def observe(look: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Call ``look(*args, **kwargs)`` on a worker thread, wait for it, and record what it returns.

    Only the program that calls ``observe`` waits: others go on. A replay, a resumed run and a rerun
    get the recorded value, and *look* does not run again. An exception is recorded as well, and
    raised again. A value is plain data: None, bool, int, float, str, bytes, and list, tuple and
    dict of these. ``call(observe, look, ...)`` starts it and returns a future.

        page = observe(fetch, "https://example.org")
    """
    if not callable(look):
        raise InvalidOption(
            f"observe(look, ...) takes a function and its arguments, got {look!r:.80}; write "
            "observe(f, x), not observe(f(x))"
        )
    return cast(T, observed(look, args, kwargs))


def sleep(
    seconds: float = 0, *, minutes: float = 0, hours: float = 0, days: float = 0
) -> Awaitable[None] | None:
    """Let others go on for so long; ``await`` it in a coroutine.

    A sleep of more than an hour (the setting ``longest_wait``) needs no process: when nothing else
    can go on, the run ends as waiting, and the same command goes on later. Its end is fixed when it
    begins.
    """
    seconds = clock.seconds("sleep(seconds)", seconds)
    if minutes or hours or days:
        parts = (("minutes", minutes, 60), ("hours", hours, 3600), ("days", days, 86400))
        seconds += sum(clock.seconds(f"sleep({n}=...)", v) * unit for n, v, unit in parts)
    if seconds > _SHORT_S:
        from appl.runtime.waiting.timers import sleep_until  # few programs wait for so long

        return sleep_until(None, seconds, "sleep")
    frame = here(lambda: "sleep", call=False)
    if in_coroutine():
        return clock.asleep(frame, seconds)
    clock.sleep_now(frame, seconds)
    return None


_SHORT_S = 60.0
"""A longer sleep has its end recorded when it begins: a run that goes on does not begin it anew."""


def until(when: datetime.datetime) -> Awaitable[None] | None:
    """Wait until *when*, like :func:`sleep`; without a time zone it is in local time."""
    from appl.runtime.waiting import timers  # few programs wait for a time of day

    if not isinstance(when, datetime.datetime):
        raise InvalidOption(f"until(when) takes a datetime, got {when!r:.80}")
    return timers.sleep_until(when.timestamp(), 0, "until")
