"""A recorded run as a whole: JSON-ready data, and the table that a notebook shows.

Invariant: in a notebook, the text of a model is shortened and escaped.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from appl.prompt import tagged
from appl.prompt.notebook import Bundle, table
from appl.tracing.reading.trace import Observation, RecordedCall, Returned, Scope, Trace

_MOST = 200
_WIDTH = 120
_DECIMAL = 2_000
"""Bits of an integer that is written in decimal digits."""


# -- JSON-ready data


def of_trace(trace: Trace) -> dict[str, Any]:
    """The whole *trace*."""
    return {
        **run_facts(trace),
        "seconds": trace.seconds(),
        "totals": trace.sums(),
        "failures": [failure.as_data() for failure in trace.failures.values()],
        "scopes": [of_scope(scope) for scope in trace.scopes],
        "returns": [of_return(end) for end in trace.returns.values()],
        "calls": [{**of_call(call), **call_facts(trace, call)} for call in trace.calls],
        "tools": [used.as_data() for used in trace.tools.values()],
        "observations": [of_observation(observation) for observation in trace.observations],
        **({"batches": [b.as_data() for b in trace.batches.values()]} if trace.batches else {}),
        "warnings": [{"address": a, "message": m} for a, m in trace.warnings],
    }


def run_facts(trace: Trace) -> dict[str, object]:
    """The facts of *trace*, without what is counted or listed one by one."""
    began = trace.began()
    return {
        "path": str(trace.path),
        "state": trace.state,
        "reason": trace.reason,
        "error": of_error(trace.error),
        "began": began.isoformat() if began else None,
        "torn_bytes": trace.torn,
        "header": jsonable(trace.header),
    }


def of_call(call: RecordedCall) -> dict[str, Any]:
    """*call* with the messages of its prompt."""
    return {**_facts(call), "messages": [message.as_dict() for message in call.messages or ()]}


def call_facts(trace: Trace, call: RecordedCall) -> dict[str, Any]:
    """*call* of *trace* without its messages; a refused answer is ``rejected``."""
    data = _facts(call)
    refused = trace.failures.get(call.address) if call.response is not None else None
    if refused is not None:
        data |= {"outcome": "rejected", "error": of_error(refused.error)}
    return data


def _facts(call: RecordedCall) -> dict[str, Any]:
    response = call.response
    samples = response.samples if response else ()
    return {
        "address": call.address,
        "ordinal": call.ordinal,
        "kind": call.kind,
        "model": call.model,
        "sampling": call.sampling,
        "content": tagged(call.content),
        "edges": list(call.edges),
        "file": call.file,
        "line": call.line,
        "started_us": call.started,
        "ended_us": call.ended,
        "attempts": len(call.attempts),
        "retries": [
            {"attempt": attempt.number, "error": of_error(attempt.error), "wait_us": attempt.wait}
            for attempt in call.attempts
            if attempt.error is not None
        ],
        "outcome": call.ended_as,
        "texts": [s.text for s in samples],
        "finish_reasons": [s.finish_reason for s in samples],
        "tool_calls": [[call.as_dict() for call in s.tool_calls] for s in samples],
        "reasoning": [s.reasoning for s in samples],
        "chunks": [len(chunk.text) for chunk in call.chunks()],
        "usage": asdict(response.usage) if response else None,
        "cost": response.cost if response else None,
        "reused": response.reused if response else 0,
        "shed": list(response.shed) if response else [],
        "scores": list(response.scores) if response and response.scores else None,
        "choice_method": response.choice_method if response else None,
        "error": of_error(call.error),
        "masked": list(call.masked),
        "source": call.source,
        "of": call.of,
    }


def of_error(error: BaseException | None) -> dict[str, str] | None:
    """*error* by its type and message."""
    return None if error is None else {"type": type(error).__name__, "message": str(error)}


def of_scope(scope: Scope) -> dict[str, Any]:
    """*scope* with its metadata."""
    data = {name: getattr(scope, name) for name in scope.__slots__}
    return {**data, "metadata": jsonable(scope.metadata)}


def of_return(end: Returned) -> dict[str, Any]:
    """What a function returned, or raised."""
    data = {name: getattr(end, name) for name in end.__slots__}
    return {**data, "error": of_error(end.error)}


def of_observation(observation: Observation) -> dict[str, Any]:
    """An observation of a program."""
    return {
        "address": observation.address,
        "ordinal": observation.ordinal,
        "kind": observation.kind,
        "value": jsonable(observation.value),
        "masked": list(observation.masked),
    }


def jsonable(value: object) -> Any:
    """*value* with what JSON lacks turned into text: bytes, and keys that are no strings.

    An integer of more than 2,000 bits is its hexadecimal text: Python refuses to write long ones in
    decimal, each interpreter from another length on.
    """
    if isinstance(value, dict):
        return {_key(key): jsonable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [jsonable(item) for item in value]
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    if isinstance(value, int) and value.bit_length() > _DECIMAL:
        return hex(value)
    return value


def _key(key: object) -> str:
    try:
        return str(key)
    except ValueError:  # it is, or holds, an integer too long for decimal digits
        return str(jsonable(key))


# -- in a notebook


def bundle(trace: Trace) -> Bundle:
    """*trace* as a table; of a long one, the first calls."""
    rows = [_row(call) for call in trace.calls[:_MOST]]
    more = len(trace.calls) - len(rows)
    program = trace.header.get("program") or "run"
    title = f"{program}: {trace.state}, {len(trace.calls)} calls, {trace.seconds():.1f} s"
    lines = [title, *("  ".join(row) for row in rows)]
    if more:
        rows.append((f"and {more} more", "", ""))
        lines.append(f"and {more} more")
    return table((title, "seconds", "answer"), rows, "\n".join(lines))


def _row(call: RecordedCall) -> tuple[str, str, str]:
    seconds = ""
    if call.started is not None and call.ended is not None:
        seconds = f"{(call.ended - call.started) / 1e6:.2f}"
    if call.response is not None:
        text = " ".join(call.response.text.split())
    else:
        text = f"{type(call.error).__name__}: {call.error}" if call.error else "no answer"
    return call.address, seconds, text if len(text) <= _WIDTH else text[: _WIDTH - 1] + "…"
