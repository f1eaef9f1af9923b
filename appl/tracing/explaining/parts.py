"""The differences of a call, a tool's call or an observation, as named parts with their texts.

Invariant: only reads; equal things have no parts.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import zip_longest

from appl.prompt import Message
from appl.tracing.format import sampling
from appl.tracing.reading.documents import jsonable
from appl.tracing.reading.tooluse import ToolUse
from appl.tracing.reading.trace import Observation, RecordedCall, Trace
from appl.tracing.text_diff import one_sided, text_diff


@dataclass(frozen=True, slots=True)
class Part:
    """A part that differs: a message of the prompt, a setting, an answer, ….

    It is ``None`` on the side that lacks it.
    """

    name: str
    a: str | None
    b: str | None

    def lines(self) -> list[str]:
        """The difference in a few lines for a human."""
        if self.a is None or self.b is None:
            return one_sided("+" if self.a is None else "-", self.b or self.a or "")
        return text_diff(self.a, self.b)

    def as_data(self, whole: bool) -> dict[str, object]:
        """The part as JSON-ready data, with the whole texts or what differs in them."""
        data: dict[str, object] = {"name": self.name}
        return data | ({"a": self.a, "b": self.b} if whole else {"diff": self.lines()})


def different(a: Mapping[str, str], b: Mapping[str, str]) -> Iterator[Part]:
    """The parts that differ between *a* and *b*."""
    for name in {**a, **b}:
        if a.get(name) != b.get(name):
            yield Part(name, a.get(name), b.get(name))


def different_inputs(a: RecordedCall, b: RecordedCall) -> Iterator[Part]:
    """The parts that differ in the inputs of two calls: messages, then settings."""
    if a.content == b.content and (a.n, a.sample) == (b.n, b.sample):
        return
    for index, (old, new) in enumerate(zip_longest(a.messages or (), b.messages or ()), 1):
        either: Message = new or old
        shapes = old is None or new is None or shape(old) == shape(new)
        then, now = (None if message is None else text_of(message) for message in (old, new))
        if then != now or not shapes:
            name = f"message {index} ({either.role})"
            yield Part(name, then, now) if shapes else Part(name, _whose(old), _whose(new))
    yield from different(_settings(a), _settings(b))


def _settings(call: RecordedCall) -> dict[str, str]:
    parameters = sampling.parameters(call.sampling)
    shown = {name: json.dumps(value) for name, value in parameters.items()}
    return {"model": call.model, **shown, "samples": str(call.n), "first sample": str(call.sample)}


def text_of(message: Message) -> str:
    """The text of a message, with the tool call that it answers."""
    of = f"\n[answers {message.tool_call_id}]" if message.tool_call_id else ""
    return message.shown + of


def _whose(message: Message) -> str:
    """The text of a message with its other fields."""
    name = f" {message.name}" if message.name else ""
    failed = " (failed)" if message.has_error else ""
    return f"{message.role}{name}{failed}: {text_of(message)}"


def shape(message: Message) -> tuple[object, ...]:
    """Everything about a message except its text."""
    return message.role, message.name, message.has_error, [m.digest for _, m in message.media]


def outputs(call: RecordedCall | None) -> dict[str, str]:
    """The outputs of a call, by name."""
    if call is None:
        return {}
    if call.response is None:
        error_text = (
            f": {type(call.error).__name__}: {call.error}" if call.error is not None else ""
        )
        return {"outcome": (call.ended_as or "in flight") + error_text}
    outputs_by_name: dict[str, str] = {}
    samples = call.response.samples
    for number, sample in enumerate(samples, 1):
        which = f" {number}" if len(samples) > 1 else ""
        outputs_by_name[f"answer{which}"] = sample.text
        if sample.tool_calls:
            outputs_by_name[f"tool calls{which}"] = "\n".join(map(str, sample.tool_calls))
        if sample.reasoning:
            outputs_by_name[f"reasoning{which}"] = sample.reasoning
        outputs_by_name[f"finish reason{which}"] = sample.finish_reason
    return outputs_by_name


def said(call: RecordedCall) -> list[str]:
    """The texts of a call that a prompt may hold."""
    texts: list[str] = []
    for sample in call.response.samples if call.response is not None else ():
        calls = sample.tool_calls
        texts += [sample.text, "\n".join(map(str, calls)), *(tool_call.id for tool_call in calls)]
    return texts


def results(used: ToolUse | None) -> dict[str, str]:
    """The results of a tool's call, by name."""
    if used is None:
        return {}
    if used.message is not None:
        return {"result": used.message.shown}
    error = f": {type(used.error).__name__}: {used.error}" if used.error is not None else ""
    return {"outcome": (used.outcome or "in flight") + error}


def results_of(used: ToolUse | None) -> list[str]:
    """The texts of a tool's call that a prompt may hold."""
    return [used.message.content] if used is not None and used.message is not None else []


def calls_tool(texts: list[str], used: ToolUse) -> bool:
    """True if one of the answers *texts* wants the tool to be called."""
    wanted = f": {used.name}({used.arguments})]"
    return any(wanted in text for text in texts)


def only(call: RecordedCall, added: bool) -> Part:
    """The last message of a call that the other run does not have."""
    last = call.messages.message if call.messages is not None else None
    text = "" if last is None else text_of(last)
    role = last.role if last is not None else "no message"
    name = f"message {len(call.messages or ())} ({role})"
    return Part(name, None, text) if added else Part(name, text, None)


def observed(trace: Trace) -> dict[str, Observation]:
    """The observations of a program, by names that tell them apart."""
    return {name_of(observation): observation for observation in trace.observations}


def name_of(observation: Observation) -> str:
    """The name of an observation: address, kind and ordinal."""
    return f"{observation.address}#{observation.kind}.{observation.ordinal}"


def value_shown(value: object) -> str:
    """An observed value, for a human."""
    return json.dumps(jsonable(value), ensure_ascii=False, sort_keys=True, default=str)
