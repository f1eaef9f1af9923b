"""Messages in the JSON form of OpenTelemetry's generative AI conventions.

Invariant: images and sounds are named, and their bytes are not in it.
"""

from __future__ import annotations

from appl.backend import Response
from appl.prompt import Message, ToolCall


def said_data(message: Message) -> dict[str, object]:
    """One message of a prompt."""
    if message.role == "tool":
        part = {"type": "tool_call_response", "id": message.tool_call_id, "response": message.shown}
        return {"role": "tool", "parts": [part]}
    parts: list[dict[str, object]] = [
        {"type": "text", "content": part}
        if isinstance(part, str)
        else {"type": part.kind, "content": str(part)}
        for part in message.parts
    ]
    parts += [_called(call) for call in message.tool_calls]
    data: dict[str, object] = {"role": message.role, "parts": parts}
    return {**data, "name": message.name} if message.name else data


def output_data(response: Response) -> list[dict[str, object]]:
    """The samples of an answer."""
    data: list[dict[str, object]] = []
    for sample in response.samples:
        parts: list[dict[str, object]] = []
        if sample.reasoning:
            parts.append({"type": "reasoning", "content": sample.reasoning})
        if sample.text:
            parts.append({"type": "text", "content": sample.text})
        parts += [_called(call) for call in sample.tool_calls]
        data.append({"role": "assistant", "parts": parts, "finish_reason": sample.finish_reason})
    return data


def _called(call: ToolCall) -> dict[str, object]:
    return {"type": "tool_call", "id": call.id, "name": call.name, "arguments": call.arguments}
