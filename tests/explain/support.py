"""Programs that are recorded, and traces that are made by hand with times of their own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from appl.backend import Request, Response, Sample, Usage
from appl.prompt import digest_of
from appl.testing import Run, Scripted
from appl.tracing import Attempt, RecordedCall, Recorder, Scope, Trace

Answer = Callable[[Request], Any]


def recorded(
    path: Path, program: Callable[..., Any], answer: Answer, /, *args: Any, **header: Any
) -> Trace:
    """The trace of *program*, which is answered by *answer*."""
    path.unlink(missing_ok=True)
    recorder = Recorder(path, {"program": "program", **header})
    with Run(Scripted(answer), instruments=[recorder], gate=recorder.gate):
        value = program(*args)
        _ = [str(each) for each in value] if isinstance(value, list) else str(value)
    recorder.close()
    return Trace.open(path)


def call(
    address: str,
    start: float,
    end: float | None,
    told: float | None = None,
    *,
    sent: float | None = None,
    first: float | None = None,
    edges: tuple[str, ...] = (),
    text: str = "yes",
    line: int | None = None,
    **given: Any,
) -> RecordedCall:
    """A call that was answered, with its times in seconds."""
    made = RecordedCall(
        address, kind="gen", started=micro(start), edges=edges, model=given.pop("model", "m"),
        file="program.py", line=line, content=digest_of(address),
    )  # fmt: skip
    made.attempts = [Attempt(1, micro(start if sent is None else sent))]
    if end is not None:
        usage = given.pop("usage", Usage(10, 5, 4))
        made.outcome = "answered"
        made.response = Response((Sample(text, "stop"),), usage, "m", cost=given.pop("cost", None))
        made.ended, made.first = micro(end), None if first is None else micro(first)
        made.delivered_at = micro(end if told is None else told)
        made.delivered = made.end_position = 0
    return made


def micro(seconds: float) -> int:
    return round(seconds * 1e6)


def trace(*calls: RecordedCall, scopes: tuple[tuple[str, float], ...] = (), **given: Any) -> Trace:
    """A finished trace of *calls*; *scopes* are addresses, and when each was entered."""
    for position, each in enumerate(sorted(calls, key=lambda each: each.started or 0)):
        each.position = position
    made = Trace(Path("made.trace"), calls=list(calls), state="finished", reason="finished")
    made.by_address = {each.address: each for each in calls}
    for address, at in scopes:
        parent, _, leaf = address.rpartition("/")
        made.scopes.append(
            Scope(address, parent, leaf.partition(".")[0], "program.py", 1, micro(at))
        )
    for name, value in given.items():
        setattr(made, name, value)
    return made
