"""Runs of programs with tools: answered from a script, recorded, and replayed from the record."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from appl.backend import Request, Response
from appl.session import replayed
from appl.testing import Run, Scripted, calling, response
from appl.tracing import Recorder, Trace


def script(*answers: Response | str) -> Scripted:
    """A backend that gives *answers* one after the other."""
    return Scripted([response(each) if isinstance(each, str) else each for each in answers])


def until_told(*calls: tuple[str, object], then: str = "done") -> Scripted:
    """A backend that makes *calls*, and answers once the prompt ends with what tools say."""

    def answer(request: Request) -> Response:
        last = request.messages.message if request.messages else None
        return response(then) if last and last.role == "tool" else calling(*calls)

    return Scripted(answer)


def recorded(path: Path, backend: Any, program: Callable[[], Any], **options: Any) -> Any:
    """What *program* returns; what happened is in the trace at *path*."""
    recorder = Recorder(path, {"program": "test"}, durability="process")
    gates = {"gate": recorder.gate, "barrier": recorder.barrier}
    try:
        with Run(backend, instruments=[recorder], **gates, **options):
            value = program()
    finally:
        recorder.close()
    return value


def again(path: Path, program: Callable[[], Any]) -> Any:
    """What *program* returns when its trace answers."""
    with replayed(path):
        return program()


def tools_of(path: Path) -> list[tuple[str, str, str | None]]:
    """The recorded tool calls: address, arguments, and the text of the result."""
    used = Trace.open(path).tools.values()
    return [(u.address, u.arguments, u.message.content if u.message else None) for u in used]


def said(backend: Scripted) -> list[Any]:
    """The messages of the last request, as dicts."""
    messages = backend.requests[-1].messages
    return [message.as_dict() for message in messages or ()]


def texts(messages: Iterable[Any]) -> list[str]:
    """What messages say."""
    return [message.content for message in messages]
