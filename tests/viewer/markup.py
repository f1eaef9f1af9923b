"""A run whose every recorded text is markup, script, and sequences that rule terminals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from made import USAGE, now

from appl.backend import Chunk, Request, Response, Sample, Sampling
from appl.errors import BackendBusy, BackendError
from appl.prompt import Image, Message, Messages, ToolCall
from appl.testing import (
    AttemptFailed,
    CallDispatched,
    CallEnded,
    CallStarted,
    Delivered,
    Observed,
    ScopeEntered,
    ToolEnded,
    ToolStarted,
    Warned,
)
from appl.tracing import Recorder

MARK = "pwned"
POISON = (
    f"\"'><img src=x onerror={MARK}()><script>{MARK}()</script><svg onload={MARK}()>"
    f"<a href=javascript:{MARK}()>a</a></style></title></script><!--<iframe srcdoc='<script>"
    f"parent.{MARK}()</script>'>${{{MARK}()}}{{{{{MARK}()}}}}\x1b]0;{MARK}\x07\x1b[2J\x9b31m"
    "\u202eevil\u2066\x00\r\x7f\ud800 https://evil.invalid/x.png"
)
NAME = POISON.replace("/", "\\")


def hostile_trace(path: Path, changed: str = "") -> Path:
    """The run; *changed* stands in one prompt."""
    recorder = Recorder(path, {"program": POISON, "entry": {"file": POISON}, POISON: [POISON]})
    scope = f"/{NAME}.0"
    recorder.on_event(ScopeEntered(scope, "", NAME, POISON, 1, now(), {POISON: POISON}))
    first, second, third = (f"{scope}/{NAME}.{i}" for i in range(3))
    _ask(recorder, first, [_said("system", POISON), _said("user", POISON + changed)])
    recorder.on_event(AttemptFailed(first, 1, BackendBusy(POISON), now(), 0.001))
    chunks = (Chunk(0, POISON[:9]), Chunk(0, POISON[9:]))
    sample = Sample(
        POISON, POISON, reasoning=POISON, tool_calls=(ToolCall(POISON, POISON, POISON),)
    )
    answer = Response((sample, Sample(POISON, "stop")), USAGE, POISON, cost=3)
    recorder.on_event(CallEnded(first, answer, None, now(), ()))
    recorder.on_event(Delivered(first, now()))
    result = Message("tool", POISON, tool_call_id=POISON, has_error=True)
    picture = Image.from_bytes(b"\x89PNG" + POISON.encode("utf-8", "replace"), "image/png")
    pictured = Message(
        "user",
        POISON,
        media=((0, picture), (3, Image("https://evil.invalid/" + NAME))),
        name=POISON,
    )
    called = Message("assistant", POISON, tool_calls=(ToolCall(POISON, POISON, POISON),))
    _ask(recorder, second, [pictured, called, result], (first,))
    recorder.on_event(CallEnded(second, None, BackendError(POISON), now(), chunks))
    _ask(recorder, third, [_said("user", POISON)], (first,))
    tool = f"{scope}/{NAME}.tool.0"
    recorder.on_event(ToolStarted(tool, POISON, POISON, "effect", POISON, 1, now()))
    recorder.on_event(ToolEnded(tool, result, None, now()))
    recorder.on_event(Observed(scope, 0, POISON, {POISON: POISON}, now()))
    recorder.on_event(Warned(scope, POISON, now()))
    recorder.close(POISON)
    return path


def _said(role: Any, text: str) -> Message:
    return Message(role, text)


def _ask(
    recorder: Recorder, address: str, messages: list[Message], edges: tuple[str, ...] = ()
) -> None:
    sampling = Sampling(stop=(POISON,), tools=(f'{{"name": "{MARK}"}}',))
    ordinal = int(address.rpartition(".")[2])
    request = Request(address, ordinal, POISON, Messages.of(messages), sampling, n=2)
    recorder.on_event(CallStarted(request, POISON, edges, POISON, 1, now()))
    recorder.on_event(CallDispatched(address, 1, now()))
