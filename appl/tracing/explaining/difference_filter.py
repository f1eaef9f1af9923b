"""Reduces two runs to their differing parts, so that little is held in memory.

Invariant: a part that is left out is at the same address in both runs, with the same content and
the same end; a comparison has the same result without it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Container, Iterable
from dataclasses import dataclass, field, replace

from appl.tracing.explaining.parts import name_of, outputs, results
from appl.tracing.reading.streaming_reader import StreamingReader
from appl.tracing.reading.tooluse import ToolUse
from appl.tracing.reading.trace import Observation, RecordedCall, Trace, jsonable


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


def sifted(a: Trace | StreamingReader, b: Trace | StreamingReader) -> Sifted:
    """The parts of *a* and *b* that differ: everything, for runs that are held as a whole."""
    if isinstance(a, Trace) or isinstance(b, Trace):
        a, b = (run if isinstance(run, Trace) else _whole(run) for run in (a, b))
        return Sifted(a, b, (len(a.calls), len(b.calls)))
    known = {call.address: _call(call) for call in a.calls(prompts=False)}
    counts, equal = [len(known), 0], dict[str, tuple[str, ...]]()
    for call in b.calls(prompts=False):
        counts[1] += 1
        if known.get(call.address) == _call(call):
            equal[call.address] = call.edges
    tools = _same(map(_tool, a.tools()), map(_tool, b.tools()))
    seen = _same(map(_seen, a.observations()), map(_seen, b.observations()))
    first, second = counts
    return Sifted(
        _left(a, equal, tools, seen, len(equal) == first),
        _left(b, equal, tools, seen, len(equal) == second),
        (first, second),
        equal,
    )


def _whole(run: StreamingReader) -> Trace:
    return _left(run, (), (), (), False)


def _left(
    run: StreamingReader,
    calls: Container[str],
    tools: Container[str],
    seen: Container[str],
    no_calls: bool,
) -> Trace:
    """The run without these calls, tool calls and observations; perhaps without any call."""
    chosen = () if no_calls else run.chosen(lambda address: address not in calls)
    return replace(
        run.trace,
        calls=list(chosen),
        tools={tool.address: tool for tool in run.tools() if tool.address not in tools},
        observations=[
            observation for observation in run.observations() if name_of(observation) not in seen
        ],
    )


def _same(a: Iterable[tuple[str, bytes]], b: Iterable[tuple[str, bytes]]) -> set[str]:
    """The names that have the same digest in both."""
    known = dict(a)
    return {name for name, digest in b if known.get(name) == digest}


def _call(call: RecordedCall) -> bytes:
    return _digest(call.content, call.n, call.sample, call.edges, outputs(call))


def _tool(used: ToolUse) -> tuple[str, bytes]:
    return used.address, _digest(used.arguments, results(used))


def _seen(seen: Observation) -> tuple[str, bytes]:
    return name_of(seen), _digest(seen.value)


def _digest(*parts: object) -> bytes:
    try:
        text = repr(parts)
    except ValueError:  # an integer too long for decimal digits
        text = repr(jsonable(parts))
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
