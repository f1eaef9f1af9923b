"""Why a replay cannot go on, in words: both sides, what differs, and what to do about it.

Invariant: only reads; text from prompts and answers is shown cut and escaped, so that a recorded
escape sequence never reaches a terminal.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Collection, Iterable, Sequence
from itertools import zip_longest
from typing import Any

from appl.backend import Request
from appl.prompt import Message
from appl.runtime.world import Moment
from appl.tracing.format.sampling import parameters
from appl.tracing.reading.tooluse import ToolUse
from appl.tracing.reading.trace import RecordedCall, Trace
from appl.tracing.text_diff import text_diff

_MOST_NAMED = 3
UNMASKED = '"mask_shapes = false (APPL_MASK_SHAPES=off)"'
SAME_CONTENT = "recorded with exactly this content"
"""The part of an error about a call that other calls of the record asked."""
CAUSES = (
    "usual causes: the program or a default was edited; the clock, random numbers, uuid, files or "
    "the environment read without appl.now, appl.random, appl.uuid, appl.read, appl.env; iteration "
    "over a set; a race against a timer or a thread"
)


def divergence(
    trace: Trace, request: Request, where: str, edges: Iterable[str], claimed: Collection[str]
) -> str:
    """The whole explanation for a *request* that *trace* does not answer.

    It is issued at *where*, and the answers of *edges* stand in its prompt.
    """
    record = trace.by_address.get(request.address)
    what = "was never recorded" if record is None else "was recorded with another content"
    place = f"{request.address} (call {request.ordinal} of its frame)"
    lines = [f"{place} {what} in {trace.path.name}", _places(where, record)]
    if record is not None:
        parts = list(_parts(request, record))
        same = [name for name, now, then in parts if now == then]
        differs = [part for part in parts if part[1] != part[2]]
        changed = _some([name for name, _, _ in differs], 8)
        lines += [f"same: {_some(same, 8)}" if same else "", f"differs: {changed}"]
        for _, now, then in differs[:1]:
            lines += text_diff(then, now)
            lines.append(_origin(trace, then, now, (*record.edges, *edges)))
    lines += [_nearest(trace, request, claimed), CAUSES, _next(trace, request, record)]
    return "\n  ".join(line for line in lines if line)


def _places(where: str, record: RecordedCall | None) -> str:
    now = f"issued now at {where}" if where else ""
    place = f" from {record.where}" if record and record.where else ""
    then = f"recorded{place} as call {record.position} of the run" if record else ""
    return "; ".join(part for part in (now, then) if part)


def _parts(request: Request, record: RecordedCall) -> Iterable[tuple[str, str, str]]:
    """Name, present and recorded form of each part of a call, messages first."""
    pairs = zip_longest(request.messages or (), record.messages or ())
    for index, (now, then) in enumerate(pairs, 1):
        either: Message = now or then
        yield f"message {index} ({either.role})", _message_text(now), _message_text(then)
    for name, setting, recorded in settings(request, record):
        yield name, json.dumps(setting), json.dumps(recorded)
    yield "number of samples", str(request.n), str(record.n)
    yield "first sample", str(request.sample), str(record.sample)
    yield "ordinal", str(request.ordinal), str(record.ordinal)


def settings(request: Request, record: RecordedCall) -> Iterable[tuple[str, Any, Any]]:
    """Name, present and recorded value of the model and of each option."""
    yield "model", request.model, record.model
    now, then = map(_flat, (request.sampling.canonical(), record.sampling))
    for name in sorted({*now, *then}):
        yield name, now.get(name), then.get(name)


def _flat(sampling: str) -> dict[str, object]:
    """The options in *sampling*, those of a backend's own among them."""
    options = parameters(sampling)
    extra = options.pop("extra", {})
    return options | (extra if isinstance(extra, dict) else {"extra": extra})


def _message_text(message: Message | None) -> str:
    return "(no message)" if message is None else message.shown


def _some(names: Sequence[str], most: int = _MOST_NAMED) -> str:
    """The first of *names*, and the number of the others."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def _origin(trace: Trace, then: str, now: str, edges: Iterable[str]) -> str:
    """The calls whose answers stand in the differing text."""
    addresses = [at for at in dict.fromkeys(edges) if at in trace.by_address]
    calls = map(trace.by_address.__getitem__, addresses)
    makers = [
        f"{call.address}{f' ({call.where})' if call.where else ''}"
        for call in calls
        if call.response and (text := call.response.text) and (text in then or text in now)
    ]
    return f"this text holds the answer of {', '.join(makers[:_MOST_NAMED])}" if makers else ""


def _nearest(trace: Trace, request: Request, claimed: Collection[str]) -> str:
    """Recorded calls that could have been meant: of the same content, then of a like address."""
    twins = [c for c in trace.calls if c.content == trace.content_of(request)]
    if twins:
        names = [
            f"{c.address}{'' if c.address in claimed else ' (not asked for yet)'}" for c in twins
        ]
        return f"{SAME_CONTENT}: {_some(names)}"
    scope = request.address.rpartition("/")[0] + "/"
    inside = [c.address for c in trace.calls if c.address.startswith(scope)][:500]
    pool = inside or [c.address for c in trace.calls[:500]]
    near = difflib.get_close_matches(request.address, pool, n=_MOST_NAMED, cutoff=0.3) or pool[:1]
    return f"nearest recorded calls: {', '.join(near)}" if near else "the trace holds no calls"


def _next(trace: Trace, request: Request, record: RecordedCall | None) -> str:
    show = f" {request.address}" if record else ""
    return (
        f"next: `appl trace show {trace.path}{show}` shows what was recorded; if the program was "
        "changed on purpose, run it again to record anew"
    )


def masked(what: str, names: Iterable[str]) -> str:
    """Why *what* cannot be given again, and how to record it so that it can."""
    from appl.prompt.key_masking import KINDS

    kinds = sorted({*names})
    advice = "keep secrets out of what is recorded, and record again"
    if not KINDS.isdisjoint(kinds):
        advice = f"if that is no secret, record again with {UNMASKED}; otherwise {advice}"
    return (
        f"{what} cannot be replayed: its record held {', '.join(kinds)}, which was masked; {advice}"
    )


def locked(trace: Trace) -> str:
    """Why a private trace cannot be replayed."""
    privacy = trace.header.get("privacy")
    if not isinstance(privacy, dict) or privacy.get("mode") != "redacted":
        return (
            f"{trace.path.name} holds digests in place of texts: `appl trace verify` checks "
            "another run against it, and nothing replays it"
        )
    return (
        f"{trace.path.name} is private: replaying it needs its key, {privacy.get('key')}.key in "
        "the folder `keys` of where it was recorded; reading it does not"
    )


def stuck(trace: Trace, moments: list[Moment], unasked: Sequence[RecordedCall | ToolUse]) -> str:
    """Both sides of a replay in which every program waits."""
    lines = ["every program waits, and the trace has no answer to give:"]
    for one in moments[: 2 * _MOST_NAMED]:
        call = trace.by_address.get(one.address) if one.kind == "answer" else None
        what = f"{call.address} {call.where}" if call else f"{one.kind} at {one.address}"
        cancelled = call is not None and call.outcome == "cancelled"
        state = "was cancelled" if cancelled else "had not ended when the record ends"
        lines.append(f"waited for: {what}: it {state}")
    if unasked:
        names = ", ".join(call.address for call in unasked[: 2 * _MOST_NAMED])
        lines.append(f"recorded, and not asked for yet: {names}")
    lines.append(
        "when the run crashed or was interrupted, this is as far as its trace goes, and "
        "`appl trace resume` goes on with it; otherwise the program waits for something that it "
        "did not wait for then"
    )
    return "\n  ".join(lines)


def unused(trace: Trace, calls: Sequence[RecordedCall | ToolUse]) -> str:
    """A message that names the recorded calls that the program did not make."""
    names = [f"{c.address}{f' ({c.where})' if c.where else ''}" for c in calls]
    every = len(trace.calls) + len(trace.tools)
    return (
        f"{len(calls)} of {every} recorded calls were never asked for: "
        f"{_some(names, 2 * _MOST_NAMED)}\n  {CAUSES}"
    )
