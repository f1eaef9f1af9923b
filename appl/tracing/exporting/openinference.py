"""The attributes that OpenInference's viewers, as Phoenix, look for, beside those of OpenTelemetry.

Invariant: as everywhere, texts are in them only with *content*, and usage only where it was paid.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from appl.prompt import Message, ToolCall
from appl.tracing.exporting import conventions as names
from appl.tracing.format import sampling
from appl.tracing.reading.tooluse import ToolUse
from appl.tracing.reading.trace import RecordedCall

Value = str | bool | int | float


def tool(used: ToolUse, content: bool) -> dict[str, Value]:
    """The attributes of a tool's call."""
    attributes: dict[str, Value] = {names.KIND: names.TOOL, names.OI_TOOL: used.name}
    if content:
        attributes[names.OI_TOOL_PARAMETERS] = attributes[names.OI_IN] = used.arguments
        if used.message is not None:
            attributes[names.OI_OUT] = used.message.shown
    return attributes


def call(recorded: RecordedCall, content: bool, cost: float | None) -> dict[str, Value]:
    """The attributes of a model's call that cost *cost* units of currency."""
    response = recorded.response
    attributes: dict[str, Value] = {names.KIND: names.LLM}
    model = (response.model if response else "") or recorded.model
    if model:
        attributes[names.OI_MODEL] = model
    parameters = sampling.parameters(recorded.sampling)
    plain = {key: parameters[key] for key in names.REQUEST if key in parameters}
    attributes[names.OI_PARAMETERS] = json.dumps(parameters if content else plain, sort_keys=True)
    if response is not None and recorded.source is None:
        attributes |= _usage(recorded, cost)
    if content:
        attributes |= _messages(names.OI_INPUT, recorded.messages or ())
        if recorded.messages is not None:
            attributes[names.OI_IN] = recorded.messages.message.shown
        if response is not None:
            messages = [
                Message("assistant", sample.text, (), sample.tool_calls)
                for sample in response.samples
            ]
            attributes |= _messages(names.OI_OUTPUT, messages)
            attributes[names.OI_OUT] = response.text
    return attributes


def _usage(recorded: RecordedCall, cost: float | None) -> dict[str, Value]:
    assert recorded.response is not None
    used = recorded.response.usage
    both = (used.prompt_tokens, used.completion_tokens)
    total = None if None in both else sum(count or 0 for count in both)
    counts = {
        names.OI_PROMPT_TOKENS: used.prompt_tokens,
        names.OI_ANSWER_TOKENS: used.completion_tokens,
        names.OI_CACHED_TOKENS: used.cached_tokens,
        names.OI_WRITTEN_TOKENS: used.all_written_tokens,
        names.OI_REASONING_TOKENS: used.reasoning_tokens,
        names.OI_TOTAL_TOKENS: total,
        names.OI_COST: cost,
    }
    return {name: value for name, value in counts.items() if value is not None}


def _messages(prefix: str, messages: Iterable[Message]) -> dict[str, Value]:
    attributes: dict[str, Value] = {}
    for number, message in enumerate(messages):
        at = f"{prefix}.{number}."
        attributes[at + names.OI_ROLE] = message.role
        attributes[at + names.OI_CONTENT] = "".join(map(str, message.parts))
        if message.tool_call_id:
            attributes[at + names.OI_CALL_ID] = message.tool_call_id
        for index, call in enumerate(message.tool_calls):
            attributes |= _called(f"{at}{names.OI_CALLS}.{index}.", call)
    return attributes


def _called(at: str, call: ToolCall) -> dict[str, Value]:
    return {
        at + names.OI_TOOL_ID: call.id,
        at + names.OI_TOOL_NAME: call.name,
        at + names.OI_TOOL_ARGUMENTS: call.arguments,
    }
