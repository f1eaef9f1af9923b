"""Why a call is asked although an earlier run is there: in a few words.

Invariant: only reads; a text of a prompt or an answer is never part of what is said.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace

from appl.backend import Request
from appl.prompt import Message, Messages
from appl.tracing.reading.spans import Span, spans_of
from appl.tracing.reading.trace import RecordedCall, Trace
from appl.tracing.replaying.explain import settings
from appl.tracing.replaying.rerunner import CANCELLED, LiveCall, Rerunner
from appl.tracing.text_diff import common


def explained(rerunner: Rerunner, calls: Iterable[LiveCall]) -> list[LiveCall]:
    """The live *calls* of *rerunner*, each with its cause."""
    return [replace(call, cause=call.cause or _cause(rerunner, call)) for call in calls]


def _cause(rerunner: Rerunner, live: LiveCall) -> str:
    assert live.request is not None
    recorded = rerunner.trace.by_address.get(live.address)
    changes = rerunner.amended.get(live.address, {})
    return cause_of(rerunner.trace, live.request, recorded, changes)


def cause_of(
    trace: Trace, request: Request, recorded: RecordedCall | None, changes: dict[str, object]
) -> str:
    """Why *request* is not answered by *recorded*, the record of its place.

    *changes* are the options that the user has set for it.
    """
    if recorded is None:
        return "new"
    if recorded.started is None:
        return "had no prompt then"
    if recorded.content != trace.content_of(request):
        return changed(request, recorded, changes, readable=not trace.private)
    if recorded.outcome is None:
        return "was in flight"
    if recorded.outcome == "failed":
        return f"failed then ({type(recorded.error).__name__})"
    if recorded.outcome == "cancelled":
        return CANCELLED
    if recorded.lost:
        return f"its answer held {', '.join(sorted(set(recorded.lost)))}, which was masked"
    if request.n > recorded.n:
        return f"{request.n - recorded.n} of {request.n} samples are new"
    return "its record answers another call" if recorded.ordinal == request.ordinal else "moved"


def changed(
    request: Request, record: RecordedCall, changes: dict[str, object], *, readable: bool = True
) -> str:
    """The first difference between *request* and *record*: prompt, model, then options.

    The prompts of a private trace are not *readable*: they differ if nothing else does.
    """
    prompt = _prompt(request.messages, record.messages) if readable else ""
    if prompt:
        return prompt
    for name, now, then in settings(request, record):
        if now != then:
            return _put(name, then, now, changes)
    return "prompt changed"


def _put(name: str, then: object, now: object, changes: dict[str, object]) -> str:
    if name in ("schema", "tools", "regex", "grammar", "choices"):
        return f"{name} changed"
    return f"{'set ' if name in changes else ''}{name} {_short(then)} -> {_short(now)}"


def _short(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= 40 else text[:39] + "…"


def _prompt(now: Messages | None, then: Messages | None) -> str:
    """The place where the prompts begin to differ, and the origin of the new text there."""
    ours: list[Message] = list(now or ())
    theirs: list[Message] = list(then or ())
    for index, message in enumerate(ours):
        before = theirs[index] if index < len(theirs) else None
        if before is None or message.fields() != before.fields():
            return _place(now, index, common(message.content, before.content) if before else 0)
    if len(theirs) > len(ours):
        return f"prompt ends before message {len(ours) + 1}"
    return ""


def _place(now: Messages | None, index: int, at: int) -> str:
    """Message *index* from character *at* on, as the number of a part of the prompt."""
    part = 0
    every = spans_of(now)
    for number, spans in enumerate(every):
        nothing: list[Span | None] = [None]
        for span in spans or nothing:
            part += 1
            inside = span is None or at < span.end or span is spans[-1]
            if number == index and inside:
                source_text = f", text from {span.call.lstrip('/')}" if span and span.call else ""
                at_line = f", {span.file}:{span.line}" if span and span.file else ""
                return f"prompt changed at part {part}{source_text}{at_line}"
    return f"prompt changed at message {index + 1}"
