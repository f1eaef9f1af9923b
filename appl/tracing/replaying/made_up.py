"""Answers that a prediction gives in place of a model's: recorded ones, guesses, made-up ones.

Invariant: an answer fits its question: as many samples, one of its choices, tools that it offers.
"""

from __future__ import annotations

import dataclasses
import json
import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from appl.backend import Chunk, Request, Response, Sample, Sampling, Usage, vector_key
from appl.prompt import ToolCall, digest_of
from appl.tracing.format.chunks import texts
from appl.tracing.reading.trace import RecordedCall, Trace
from appl.tracing.replaying.made_up_values import is_rich, value_of
from appl.tracing.replaying.recorded_vectors import RecordedVectors

_TEXTS = ("{0}", "Yes, {0}.", "no", "zebras: {0}\n* 42", "{0} {0}", "well, {0}")
_VALUES = {"integer": 1, "number": 1, "boolean": True, "array": [], "object": {}, "null": None}


def answer_of(
    number: int,
    record: RecordedCall | None,
    request: Request,
    begun: Sequence[Chunk],
    trace: Trace,
    schema: Mapping[str, Any] | None = None,
) -> Response:
    """The answer of rehearsal *number*: that of *record*, or a guess; reworded from 1 on.

    One that has *begun* goes on as it began. A typed one has a value of *schema*.
    """
    sampling = request.sampling
    if sampling.dimensions is not None:
        return _vectors(request, trace)
    if schema is not None and not begun and (number or record is None):
        return _guess(request, begun, number, _typed(schema, request.sampling, number))
    if number and not begun and sampling.choices and not sampling.schema:
        return _guess(request, begun, number)
    if record is not None and record.response is not None and record.response.samples:
        count, recorded = max(request.n, 1), record.response.samples  # as many as are wanted
        filled = (*recorded, *recorded[-1:] * (count - len(recorded)))[:count]
        answer = dataclasses.replace(record.response, samples=filled)
    else:
        answer = _guess(request, begun)
    if not number or begun or sampling.schema is not None:
        return answer
    calls = tuple(_calls(number, answer.samples[0], sampling, trace))
    end = "tool_calls" if calls else "stop"
    samples = (Sample(reworded(number, s.text), end, tool_calls=calls) for s in answer.samples)
    return dataclasses.replace(answer, samples=tuple(samples))


def _vectors(request: Request, trace: Trace) -> Response:
    """The vectors of the texts of *request*: the recorded ones, and one like them for new texts."""
    recorded, sampling = RecordedVectors(trace), request.sampling
    size = sampling.dimensions or recorded.size or 8
    vectors = []
    for message in iter(request.messages or ()):
        vector = recorded.find(vector_key(request.model, sampling.canonical(), message.content))
        if vector is None:
            place = int.from_bytes(digest_of(message.content), "big") % size
            vector = struct.pack(f"<{size}f", *(1.0 if at == place else 0.0 for at in range(size)))
        vectors.append(vector)
    return Response((Sample("", "stop"),), Usage(), vectors=tuple(vectors))


def _typed(schema: Mapping[str, Any], sampling: Sampling, number: int) -> str:
    """The text of a value of *schema*, in an object where *sampling* asks for one around it."""
    value = value_of(schema, number)
    response_schema = json.loads(sampling.schema) if sampling.schema else schema
    if response_schema.get("properties", {}).keys() == {"value"} and schema.get("type") != "object":
        value = {"value": value}
    return json.dumps(value)


def _guess(request: Request, begun: Sequence[Chunk], number: int = 0, text: str = "…") -> Response:
    """Some answer to a question that was never answered, which begins as *begun*.

    Of choices it is the one of this *number*, else *text*.
    """
    choices, begun_texts = request.sampling.choices, texts(begun)
    text = choices[number % len(choices)] if choices else text
    scores = tuple(-float(text != choice) for choice in choices) if choices else None
    samples = (
        Sample(begun_texts.get((at, 0), "") + text, "stop", reasoning=begun_texts.get((at, 1)))
        for at in range(request.sample, request.sample + max(request.n, 1))
    )
    return Response(tuple(samples), Usage(), scores=scores)


def reworded(number: int, text: str) -> str:
    """The text of rehearsal *number* in place of *text*."""
    return _TEXTS[min(number, len(_TEXTS) - 1)].format(text)


def unshown(sampling: Sampling, schema: Mapping[str, Any] | None = None) -> str:
    """A property of these options that no made-up answer shows; "" if there is none."""
    unknown = sampling.schema and (schema is None or sampling.tools or is_rich(schema))
    if unknown or sampling.regex or sampling.grammar:
        return "a typed answer"
    return "one of many choices" if len(sampling.choices or ()) >= len(_TEXTS) else ""


def _calls(number: int, likely: Sample, sampling: Sampling, trace: Trace) -> Iterable[ToolCall]:
    """The calls of tools in rehearsal *number*: the likely ones, none, or each tool once."""
    if number == 1 or sampling.tool_choice == "none":
        return likely.tool_calls
    tools = () if number == 2 and sampling.tool_choice in (None, "auto") else sampling.tools
    offered = map(json.loads, tools)
    return (
        ToolCall(tool["name"], tool["name"], _arguments(number, tool, trace)) for tool in offered
    )


def _arguments(number: int, tool: dict[str, Any], trace: Trace) -> str:
    """Recorded arguments of *tool* in rehearsal 3, if there are; else some for its parameters."""
    used = (used.arguments for used in trace.tools.values() if used.name == tool["name"])
    schema, recorded = tool.get("parameters") or {}, next(used, None)
    wanted = ((name, schema["properties"][name]) for name in schema.get("required", ()))
    arguments = {
        name: (kind.get("enum") or [_VALUES.get(kind.get("type"), "zebra")])[0]
        for name, kind in wanted
    }
    return recorded if recorded is not None and number == 3 else json.dumps(arguments)
