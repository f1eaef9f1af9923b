"""Two runs side by side: equal calls, different calls, and the first differences.

Invariant: every call of both runs is in the result once; causes are those of ``appl trace diff``.
"""

from __future__ import annotations

from appl.tracing.explaining.alignment import aligned
from appl.tracing.explaining.diff import Diff, compare
from appl.tracing.reading.tooluse import ToolUse
from appl.tracing.reading.trace import RecordedCall
from appl.tracing.viewer.rows import Rows, answer_of

STATUS = ("same", "prompt", "settings", "answer", "outcome", "moved", "only in A", "only in B")
_SHOWN, _MOST, _EXPLAINED = 400, 200, 2_000
Step = RecordedCall | ToolUse


def comparison(a: Rows, b: Rows) -> dict[str, object]:
    """The calls of both runs as columns, and the differences that are not of calls.

    ``a`` and ``b`` are rows (-1: not in this run), ``status`` a number of ``STATUS``, ``cause`` the
    number of the entry that one follows from (-1: of none). ``others`` are differences that are not
    of calls: kind, name, and the values in both runs. Where thousands of calls differ, causes and
    others are left out.
    """
    pairs: list[tuple[Step | None, Step | None]] = [
        *((pair.a, pair.b) for pair in aligned(a.trace.calls, b.trace.calls)),
        *(
            (a.trace.tools.get(address), b.trace.tools.get(address))
            for address in {**a.trace.tools, **b.trace.tools}
        ),
    ]
    status = [STATUS.index(_status(*pair)) for pair in pairs]
    diff = compare(a.trace, b.trace) if sum(map(bool, status)) <= _EXPLAINED else None
    place, cause = {_address(pair): i for i, pair in enumerate(pairs)}, [-1] * len(pairs)
    for consequence in diff.consequences() if diff is not None else ():
        if consequence.address in place:
            cause[place[consequence.address]] = place.get(consequence.causes[0], -1)
    return {
        "names": STATUS,
        "a": [_row(a, one) for one, _ in pairs],
        "b": [_row(b, other) for _, other in pairs],
        "status": status,
        "cause": cause,
        "others": [] if diff is None else _others(diff),
    }


def _address(pair: tuple[Step | None, Step | None]) -> str:
    either = pair[1] or pair[0]
    return either.address if either is not None else ""


def _row(rows: Rows, step: Step | None) -> int:
    return -1 if step is None else rows.number.get(step.address, -1)


def _status(one: Step | None, other: Step | None) -> str:
    if one is None or other is None:
        return "only in B" if one is None else "only in A"
    if isinstance(one, RecordedCall) and isinstance(other, RecordedCall):
        if one.content != other.content:
            return "prompt" if _prompt(one) != _prompt(other) else "settings"
    elif _asked(one) != _asked(other):
        return "prompt"
    if (one.outcome, type(one.error)) != (other.outcome, type(other.error)):
        return "outcome"
    if _texts(one) != _texts(other):
        return "answer"
    return "same" if one.address == other.address else "moved"


def _prompt(call: RecordedCall) -> bytes:
    return call.messages.digest if call.messages is not None else b""


def _asked(step: Step) -> tuple[str, ...]:
    return (step.name, step.arguments) if isinstance(step, ToolUse) else (step.kind,)


def _texts(step: Step) -> tuple[str, ...]:
    if isinstance(step, RecordedCall) and step.response is not None:
        return (*(sample.text for sample in step.response.samples), answer_of(step))
    return (answer_of(step),)


def _others(diff: Diff) -> list[list[str]]:
    differences = [
        difference for difference in diff.differences if difference.kind not in ("call", "tool")
    ]
    return [
        [difference.kind, difference.address, (part.a or "")[:_SHOWN], (part.b or "")[:_SHOWN]]
        for difference in differences[:_MOST]
        for part in difference.parts
    ]
