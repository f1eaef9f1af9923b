"""Reduces two runs to their differing parts, so that little is held in memory.

Invariant: a part that is left out is at the same address in both runs, with the same content and
the same end; a comparison has the same result without it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Container, Iterable
from dataclasses import dataclass, field, replace

from appl.tracing.explaining.parts import name_of, outputs, results
from appl.tracing.reading.documents import jsonable
from appl.tracing.reading.tooluse import ToolUse
from appl.tracing.reading.trace import Observation, RecordedCall, Trace


@dataclass(slots=True)
class Sifted:
    """Two runs reduced to the parts that differ.

    ``equal`` are the calls that are left out, with the addresses of the answers in their prompts;
    ``calls`` counts all calls of each run.
    """

    a: Trace
    b: Trace
    calls: tuple[int, int]
    equal: dict[str, tuple[str, ...]] = field(default_factory=dict)


def sifted(a: Trace, b: Trace) -> Sifted:
    """The parts of *a* and *b* that differ."""
    counts = len(a.calls), len(b.calls)
    calls_before = {call.address: _call(call) for call in a.calls}
    equal = {
        call.address: call.edges
        for call in b.calls
        if calls_before.get(call.address) == _call(call)
    }
    tools = _same(map(_tool, a.tools.values()), map(_tool, b.tools.values()))
    observations = _same(map(_seen, a.observations), map(_seen, b.observations))
    return Sifted(
        _left(a, equal, tools, observations), _left(b, equal, tools, observations), counts, equal
    )


def unsifted(a: Trace, b: Trace) -> Sifted:
    """All of both runs, whose comparison has the same result: for tests of the other."""
    return Sifted(a, b, (len(a.calls), len(b.calls)))


def _left(
    run: Trace, calls: Container[str], tools: Container[str], observations: Container[str]
) -> Trace:
    """The run without these calls, tool calls and observations."""
    return replace(
        run,
        calls=[call for call in run.calls if call.address not in calls],
        tools={address: tool for address, tool in run.tools.items() if address not in tools},
        observations=[
            observation
            for observation in run.observations
            if name_of(observation) not in observations
        ],
    )


def _same(a: Iterable[tuple[str, bytes]], b: Iterable[tuple[str, bytes]]) -> set[str]:
    """The names that have the same digest in both."""
    digests = dict(a)
    return {name for name, digest in b if digests.get(name) == digest}


def _call(call: RecordedCall) -> bytes:
    return _digest(call.content, call.n, call.sample, call.edges, outputs(call))


def _tool(used: ToolUse) -> tuple[str, bytes]:
    return used.address, _digest(used.arguments, results(used))


def _seen(observation: Observation) -> tuple[str, bytes]:
    return name_of(observation), _digest(observation.value)


def _digest(*parts: object) -> bytes:
    try:
        text = repr(parts)
    except ValueError:  # an integer too long for decimal digits
        text = repr(jsonable(parts))
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
