"""Two runs side by side: which calls are the same, which differ, and which of these came first.

Invariant: calls are aligned by address; every call of both runs is in the result once.
"""

from __future__ import annotations

from typing import Any

from appl.tracing.tooluse import ToolUse
from appl.tracing.trace import Call, Trace
from appl.tracing.viewer.rows import Rows, answer_of

STATUS = ("same", "prompt", "settings", "answer", "outcome", "only in A", "only in B")


def comparison(a: Rows, b: Rows) -> dict[str, Any]:
    """The rows of both runs by address: their status, and the number of the entry that each follows
    from: one whose answer differs and stands in its prompt (-1: it is a first cause)."""
    addresses = list(dict.fromkeys([*a.addresses, *b.addresses]))
    status = [_status(a.trace, b.trace, address) for address in addresses]
    place = {address: i for i, address in enumerate(addresses)}
    spoken = {address for address in addresses if _spoken(a.trace, b.trace, address)}
    return {
        "status": status,
        "a": [a.number.get(address, -1) for address in addresses],
        "b": [b.number.get(address, -1) for address in addresses],
        "cause": [
            _cause(a.trace, b.trace, address, spoken, place) if status[place[address]] == 1 else -1
            for address in addresses
        ],
    }


def _find(trace: Trace, address: str) -> Call | ToolUse | None:
    return trace.by_address.get(address) or trace.tools.get(address)


def _status(a: Trace, b: Trace, address: str) -> int:
    one, other = _find(a, address), _find(b, address)
    if one is None or other is None:
        return STATUS.index("only in B" if one is None else "only in A")
    if isinstance(one, Call) and isinstance(other, Call):
        if one.content != other.content:
            return STATUS.index("prompt" if _said(one) != _said(other) else "settings")
    elif _asked(one) != _asked(other):
        return STATUS.index("prompt")
    if (one.outcome, type(one.error)) != (other.outcome, type(other.error)):
        return STATUS.index("outcome")
    return STATUS.index("same" if _texts(one) == _texts(other) else "answer")


def _said(call: Call) -> bytes:
    return call.messages.digest if call.messages is not None else b""


def _asked(each: Call | ToolUse) -> tuple[str, ...]:
    return (each.name, each.arguments) if isinstance(each, ToolUse) else (each.kind,)


def _texts(each: Call | ToolUse) -> tuple[str, ...]:
    if isinstance(each, Call) and each.response is not None:
        return (*(sample.text for sample in each.response.samples), answer_of(each))
    return (answer_of(each),)


def _spoken(a: Trace, b: Trace, address: str) -> bool:
    """Whether what came of a call is not the same in both."""
    one, other = _find(a, address), _find(b, address)
    return one is None or other is None or _texts(one) != _texts(other)


def _cause(a: Trace, b: Trace, address: str, spoken: set[str], place: dict[str, int]) -> int:
    for trace in (a, b):
        call = trace.by_address.get(address)
        for edge in call.edges if call is not None else ():
            if edge in spoken and edge in place:
                return place[edge]
    return -1
