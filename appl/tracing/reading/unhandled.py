"""Tells recorded failures that ended a run from those that its program handled.

Invariant: only reads. A failure counts as handled when the program went on after it got it.
"""

from __future__ import annotations

from collections import defaultdict

from appl.tracing.reading.tooluse import ToolUse
from appl.tracing.reading.trace import RecordedCall, Trace


def unhandled(trace: Trace) -> set[str]:
    """The addresses of the failed calls that are worth asking again when *trace* is resumed.

    Those of a run that ended in a failure (a budget, an outage, a wrong key): a failed call after
    which neither its own frame nor one around it began anything. Where only a frame around it did,
    which may not have looked at it yet, it counts if it failed as the whole run did. Of a run that
    was ended from outside, the calls that were given up with it.
    """
    if trace.reason == "interrupted":
        return {call.address for call in trace.calls if isinstance(call.error, KeyboardInterrupt)}
    if trace.reason != "failed":
        return set()
    begun, addresses = _begun(trace), set[str]()
    for call in trace.calls:
        if call.outcome != "failed":
            continue
        is_handled = False
        if call.delivered_at is not None:
            delivered = trace.wall(call.delivered_at, call.incarnation)
            own, *around = _frames(call.address)
            alike = type(call.error) is type(trace.error)
            went_on = (begun.get(frame, -1) >= delivered for frame in around)
            is_handled = begun.get(own, -1) >= delivered or (not alike and any(went_on))
        if not is_handled:
            addresses.add(call.address)
    return addresses


def _begun(trace: Trace) -> dict[str, int]:
    """When each frame began or saw something for the last time, in nanoseconds since 1970."""
    last: dict[str, int] = defaultdict(lambda: -1)
    for scope in trace.scopes:
        _note(last, scope.parent, trace.wall(scope.at, scope.incarnation))
    begun: list[RecordedCall | ToolUse] = [*trace.calls, *trace.tools.values()]
    for item in begun:
        if item.started is not None:
            frame = item.address.rpartition("/")[0]
            _note(last, frame, trace.wall(item.started, item.incarnation))
    for observation in trace.observations:  # at the address of a frame, or of a call in one
        at = trace.wall(observation.at, observation.incarnation)
        _note(last, observation.address, at)
        _note(last, observation.address.rpartition("/")[0], at)
    return last


def _note(last: dict[str, int], frame: str, at: int) -> None:
    last[frame] = max(last[frame], at)


def _frames(address: str) -> list[str]:
    """The frames around *address*, inner ones first."""
    frames = []
    while "/" in address:
        address = address.rpartition("/")[0]
        frames.append(address)
    return frames
