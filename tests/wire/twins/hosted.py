"""OpenAI, Azure and OpenRouter.

What a request may hold is told by the types of the openai SDK, which OpenAI publishes.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from functools import cache
from typing import Any, get_type_hints

from appl.testing import Fault

from .chat import STREAM, ChatTwin, json_fault, sse
from .model import Call, Heard, Said, pieces
from .rules import (
    QUESTION,
    SURROGATE,
    TOOL,
    Asked,
    Rule,
    called,
    calls_in,
    orphans,
    parts_of,
    result,
    rule,
    texts_in,
    unanswered,
)

REFERENCE = "https://platform.openai.com/docs/api-reference/chat/create"
STRUCTURED = "https://platform.openai.com/docs/guides/structured-outputs"


@cache
def fields_of(kind: str) -> frozenset[str]:
    """The fields of one of the openai SDK's types."""
    from openai.types import chat

    if kind == "request":
        from openai.types.chat import completion_create_params as types

        found = get_type_hints(types.CompletionCreateParamsStreaming)
        return frozenset(found)
    return frozenset(get_type_hints(getattr(chat, f"ChatCompletion{kind}Param")))


@rule("https://github.com/umputun/tg-spam/issues/304", REFERENCE, wrong={"top_k": 3})
def unknown_fields(asked: Asked) -> Iterator[str]:
    for name in asked.body.keys() - fields_of("request"):
        yield f"Unrecognized request argument supplied: {name}"


ROLES = {"system": "System", "developer": "Developer", "user": "User", "assistant": "Assistant",
         "tool": "Tool"}  # fmt: skip


@rule(
    "https://github.com/openai/openai-node/issues/1161",
    "https://github.com/songquanpeng/one-api/issues/1319",
    wrong={"messages": [QUESTION, {"role": "assistant", "content": "a", "reasoning_content": "b"},
                        QUESTION]},
    code="unknown_parameter",
)  # fmt: skip
def unknown_fields_of_messages(asked: Asked) -> Iterator[str]:
    for at, message in enumerate(asked.messages):
        role = ROLES.get(message.get("role", ""))
        known = fields_of(f"{role}Message") if role else set()
        for name in message.keys() - known:
            yield f"Unknown parameter: 'messages[{at}].{name}'."
    for at, number, call in calls_in(asked):
        for name in call.keys() - {"id", "type", "function"}:
            yield f"Unknown parameter: 'messages[{at}].tool_calls[{number}].{name}'."


@rule(
    "https://github.com/RamiAwar/dataline/issues/172",
    wrong={"messages": [QUESTION, called("a", "b"), result("a")]},
)
def unanswered_calls(asked: Asked) -> Iterator[str]:
    for _, missing in unanswered(asked):
        yield (
            "An assistant message with 'tool_calls' must be followed by tool messages responding to "
            "each 'tool_call_id'. The following tool_call_ids did not have response messages: "
            + ", ".join(missing)
        )


@rule("https://github.com/simonw/llm/issues/937", wrong={"messages": [QUESTION, result("a")]})
def results_of_no_call(asked: Asked) -> Iterator[str]:
    for at in orphans(asked):
        yield (
            "Invalid parameter: messages with role 'tool' must be a response to a preceeding message "
            f"with 'tool_calls'. (messages.[{at}].role)"
        )


@rule(
    "https://github.com/agno-agi/agno/issues/5116",
    wrong={"messages": [QUESTION, called("a"), result("a"), result("a")]},
)
def two_results_of_one_call(asked: Asked) -> Iterator[str]:
    seen: dict[Any, int] = {}
    for at, message in enumerate(asked.messages):
        if message.get("role") != "tool":
            seen.clear()
        elif message.get("tool_call_id") in seen:
            id, first = message["tool_call_id"], seen[message["tool_call_id"]]
            yield (
                f"Invalid parameter: Duplicate value for 'tool_call_id' of '{id}', in "
                f"messages[{first}] and messages[{at}]."
            )
        else:
            seen[message.get("tool_call_id")] = at


@rule(
    "https://github.com/vercel/ai/issues/5171",
    "https://github.com/microsoft/autogen/issues/6377",
    wrong={"messages": [QUESTION, called("x" * 41), result("x" * 41)]},
    code="string_above_max_length",
)
def long_ids(asked: Asked) -> Iterator[str]:
    for at, number, call in calls_in(asked):
        if len(str(call.get("id", ""))) > 40:
            yield (
                f"Invalid 'messages[{at}].tool_calls[{number}].id': string too long. Expected a "
                f"string with maximum length 40, but got a string with length {len(call['id'])} "
                "instead."
            )


@rule(
    "https://github.com/docker/docker-agent/issues/63",
    wrong={"messages": [QUESTION, {"role": "assistant", "content": None}, QUESTION]},
)
def no_content(asked: Asked) -> Iterator[str]:
    for message in asked.messages:
        if message.get("content") is None and not message.get("tool_calls"):
            yield "Invalid value for 'content': expected a string, got null."


@rule(
    "https://github.com/home-assistant/core/pull/118577",
    wrong={
        "messages": [QUESTION, {"role": "assistant", "content": "a", "tool_calls": []}, QUESTION]
    },
    code="empty_array",
)
def empty_calls(asked: Asked) -> Iterator[str]:
    for at, message in enumerate(asked.messages):
        if message.get("tool_calls") == []:
            yield (
                f"Invalid 'messages[{at}].tool_calls': empty array. Expected an array with minimum "
                "length 1, but got an empty array instead."
            )


IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}


@rule(
    "https://github.com/OpenHands/OpenHands/issues/7700",
    "https://github.com/openai/openai-node/issues/1030",
    wrong={"messages": [{"role": "system", "content": [IMAGE]}, QUESTION]},
)
def pictures_of_others(asked: Asked) -> Iterator[str]:
    for at, message in enumerate(asked.messages):
        kinds = {part.get("type") for part in parts_of(message)}
        if message.get("role") != "user" and "image_url" in kinds:
            yield (
                f"Invalid 'messages[{at}]'. Image URLs are only allowed for messages with role "
                f"'user', but this message with role '{message['role']}' contains an image URL."
            )


@rule(
    "https://github.com/vercel/ai/issues/1544",
    wrong={"messages": [{"role": "user", "content": [
        {"type": "image_url", "image_url": {"url": "data:image/bmp;base64,Qk0="}}]}]},
)  # fmt: skip
def other_pictures(asked: Asked) -> Iterator[str]:
    for message in asked.messages:
        for part in parts_of(message):
            url = str((part.get("image_url") or {}).get("url", "https:"))
            if not re.match(r"https?:|data:image/(png|jpeg|gif|webp);base64,", url):
                yield (
                    "You uploaded an unsupported image. Please make sure your image is below 20 MB "
                    "in size and is of one the following formats: ['png', 'jpeg', 'gif', 'webp']."
                )


@rule(
    "https://github.com/QwenLM/Qwen-Agent/issues/228",
    REFERENCE,
    wrong={"stop": list("abcde")},
    code="array_above_max_length",
)
def many_stops(asked: Asked) -> Iterator[str]:
    stop = asked.body.get("stop")
    if isinstance(stop, list) and len(stop) > 4:
        yield (
            "Invalid 'stop': array too long. Expected an array with maximum length 4, but got an "
            f"array with length {len(stop)} instead."
        )


@rule(
    "https://github.com/vllm-project/vllm/pull/39780",
    "https://github.com/pydantic/pydantic-ai/issues/155",
    wrong={"tools": []},
    code="empty_array",
)
def empty_tools(asked: Asked) -> Iterator[str]:
    if asked.body.get("tools") == []:
        yield "Invalid 'tools': empty array. Expected an array with minimum length 1."


@rule(
    "https://github.com/vishalmysore/Tools4AI/issues/16",
    wrong={"tools": [TOOL] * 129},
    code="array_above_max_length",
)
def many_tools(asked: Asked) -> Iterator[str]:
    if len(asked.tools) > 128:
        yield "Invalid 'tools': array too long. Expected an array with maximum length 128."


@rule("https://github.com/dapr/dapr-agents/issues/248", wrong={"tool_choice": "auto"})
def choice_without_tools(asked: Asked) -> Iterator[str]:
    if asked.body.get("tool_choice") is not None and not asked.tools:
        yield (
            "Invalid value for 'tool_choice': 'tool_choice' is only allowed when 'tools' are "
            "specified."
        )


NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


@rule(
    "https://github.com/brekkylab/ailoy/pull/109",
    "https://github.com/jekalmin/extended_openai_conversation/issues/251",
    wrong={"messages": [{**QUESTION, "name": "Ann Lee"}]},
    code="invalid_value",
)
def names(asked: Asked) -> Iterator[str]:
    found = [(f"tools[{at}].function", tool) for at, tool in enumerate(asked.tools)]
    found += [(f"messages[{at}]", each) for at, each in enumerate(asked.messages) if "name" in each]
    for place, named in found:
        if not NAME.fullmatch(str(named.get("name"))):
            yield (
                f"Invalid '{place}.name': string does not match pattern. Expected a string that "
                "matches the pattern '^[a-zA-Z0-9_-]+$'."
            )


@rule(
    "https://github.com/mem0ai/mem0/issues/3008",
    wrong={"response_format": {"type": "json_object"}},
)
def json_without_the_word(asked: Asked) -> Iterator[str]:
    format = asked.body.get("response_format") or {}
    said = " ".join(texts_in([m.get("content") for m in asked.messages])).lower()
    if format.get("type") == "json_object" and "json" not in said:
        yield (
            "'messages' must contain the word 'json' in some form, to use 'response_format' of type "
            "'json_object'."
        )


@rule(STRUCTURED, wrong={"response_format": {"type": "json_schema", "json_schema": {
    "name": "a", "schema": {"type": "array", "items": {"type": "string"}}}}})  # fmt: skip
def root_of_schemas(asked: Asked) -> Iterator[str]:
    format = (asked.body.get("response_format") or {}).get("json_schema") or {}
    schema = format.get("schema", {"type": "object"})
    if schema.get("type") != "object":
        yield (
            f"Invalid schema for response_format '{format.get('name')}': schema must be a JSON "
            f"Schema of 'type: \"object\"', got 'type: \"{schema.get('type')}\"'."
        )
    for tool in asked.tools:
        if tool.get("parameters", {"type": "object"}).get("type") != "object":
            yield f"Invalid schema for function '{tool['name']}': it must be of 'type: \"object\"'."


@rule(REFERENCE, wrong={"stream_options": {"include_usage": True}})
def options_without_stream(asked: Asked) -> Iterator[str]:
    if asked.body.get("stream_options") and not asked.body.get("stream"):
        yield "The 'stream_options' parameter is only allowed when 'stream' is enabled."


@rule(REFERENCE, wrong={"top_logprobs": 2})
def scores(asked: Asked) -> Iterator[str]:
    top = asked.body.get("top_logprobs")
    if top is not None and not asked.body.get("logprobs"):
        yield "The 'top_logprobs' parameter is only allowed when 'logprobs' is enabled."
    if isinstance(top, int) and top > 20:
        yield "Invalid value for 'top_logprobs': must be less than or equal to 20."


@rule(
    "https://github.com/Aider-AI/aider/issues/3693",
    "https://github.com/JohnnyZ93/oai-compatible-copilot/issues/206",
    wrong={"messages": [{"role": "user", "content": "\udc97"}]},
)
def half_characters(asked: Asked) -> Iterator[str]:
    if any(map(SURROGATE.search, texts_in(asked.body))):
        yield "We could not parse the JSON body of your request."


COMMON: tuple[Rule, ...] = (
    unanswered_calls, results_of_no_call, two_results_of_one_call, no_content, half_characters,
    choice_without_tools, root_of_schemas, options_without_stream,
)  # fmt: skip
"""What nearly all servers with OpenAI's interface refuse as OpenAI does."""

OPENAI: tuple[Rule, ...] = (
    unknown_fields, unknown_fields_of_messages, *COMMON, long_ids, empty_calls, pictures_of_others,
    other_pictures, many_stops, empty_tools, many_tools, names, json_without_the_word, scores,
)  # fmt: skip


class OpenAI(ChatTwin):
    """OpenAI, and a model that does not reason."""

    name = "openai"
    model_name = "gpt-4.1-mini"
    rules = OPENAI

    def common(self, draw: random.Random) -> dict[str, Any]:
        return {
            "id": f"chatcmpl-{draw.randrange(16**14):x}", "created": 1, "model": "gpt-4.1-mini-2025-04-14",
            "service_tier": "default", "system_fingerprint": f"fp_{draw.randrange(16**8):x}",
        }  # fmt: skip

    def message(self, said: Said, heard: Heard, draw: random.Random) -> dict[str, Any]:
        found = super().message(said, heard, draw)
        return {**found, "refusal": None, "annotations": []}

    def usage(self, said: list[Said], draw: random.Random) -> Any:
        details = {"reasoning_tokens": 0, "audio_tokens": 0, "accepted_prediction_tokens": 0}
        prompt = {"cached_tokens": 0, "audio_tokens": 0}
        found = super().usage(said, draw)
        return {**found, "prompt_tokens_details": prompt, "completion_tokens_details": details}

    def deltas(self, said: Said, heard: Heard, draw: random.Random) -> Iterator[dict[str, Any]]:
        yield {"role": "assistant", "content": None if said.calls else "", "refusal": None}
        for piece in pieces(said.raw, draw):
            yield {"content": piece}
        for each in self.call_pieces(said, heard, draw):
            yield {"tool_calls": [each]}

    def events(
        self, heard: Heard, said: list[Said], draw: random.Random
    ) -> Iterator[dict[str, Any] | bytes]:
        for event in super().events(heard, said, draw):
            padding = "x" * draw.randrange(12)
            yield (
                event
                if isinstance(event, bytes)
                else {"usage": None, "obfuscation": padding, **event}
            )


NOT_WITH_REASONING = ("temperature", "top_p", "presence_penalty", "frequency_penalty")


@rule(
    "https://github.com/fish2018/YPrompt/issues/26",
    wrong={"max_tokens": 5},
    code="unsupported_parameter",
)
def max_tokens_of_reasoning(asked: Asked) -> Iterator[str]:
    if "max_tokens" in asked.body:
        yield (
            "Unsupported parameter: 'max_tokens' is not supported with this model. Use "
            "'max_completion_tokens' instead."
        )


@rule(
    "https://github.com/griptape-ai/griptape/issues/1915",
    "https://github.com/huggingface/smolagents/issues/1671",
    "https://platform.openai.com/docs/guides/reasoning",
    wrong={"stop": ["a"]},
    code="unsupported_parameter",
)
def options_of_reasoning(asked: Asked) -> Iterator[str]:
    for name in ("stop", "logprobs", "logit_bias"):
        if asked.body.get(name):
            yield f"Unsupported parameter: '{name}' is not supported with this model."
    for name in NOT_WITH_REASONING:
        if asked.body.get(name) not in (None, 1, 0 if name.endswith("penalty") else 1):
            yield (
                f"Unsupported value: '{name}' does not support {asked.body[name]} with this model. "
                "Only the default (1) value is supported."
            )


class OpenAIReasoning(OpenAI):
    """OpenAI, and a model that reasons, which shows nothing of that."""

    name = "openai, reasoning"
    model_name = "gpt-5-mini"
    rules = (*OPENAI, max_tokens_of_reasoning, options_of_reasoning)


# -- Azure

FILTER = {
    name: {"filtered": False, "severity": "safe"} for name in ("hate", "sexual", "violence")
} | {"protected_material_text": {"detected": False, "filtered": False}}
AZURE_STREAMING = "https://learn.microsoft.com/azure/ai-foundry/openai/concepts/content-streaming"


@rule(
    "https://learn.microsoft.com/azure/ai-foundry/openai/reference",
    wrong={
        "response_format": {"type": "json_schema", "json_schema": {"schema": {"type": "object"}}}
    },
)
def unnamed_formats(asked: Asked) -> Iterator[str]:
    format = asked.body.get("response_format") or {}
    if format.get("type") == "json_schema" and "name" not in (format.get("json_schema") or {}):
        yield "Missing required parameter: 'response_format.json_schema.name'."


class Azure(OpenAI):
    """Azure: the model is a deployment in the address, and a filter looks at all texts.

    A stream begins with a chunk without choices, and with an asynchronous filter it has choices
    without a delta (AZURE_STREAMING).
    """

    name = "azure"
    model_name = "my-deployment"
    rules = (*OPENAI, unnamed_formats)

    def failures(self) -> list[Fault]:
        text = "Requests to the ChatCompletions_Create Operation have exceeded call rate limit."
        busy = {"error": {"code": "429", "message": text}}
        timeout = {"error": {"code": "Timeout", "message": "The operation was timeout."}}
        return [json_fault(429, busy, retry_after_ms="1"), json_fault(408, timeout)]

    def choice(self, at: int, said: Said, heard: Heard, draw: random.Random) -> dict[str, Any]:
        found = super().choice(at, said, heard, draw)
        return {"content_filter_results": {} if said.calls else FILTER, **found}

    def events(
        self, heard: Heard, said: list[Said], draw: random.Random
    ) -> Iterator[dict[str, Any] | bytes]:
        seen = [{"prompt_index": 0, "content_filter_results": FILTER}]
        yield {"id": "", "object": "", "model": "", "choices": [], "prompt_filter_results": seen}
        asynchronous = draw.random() < 0.5
        for event in super().events(heard, said, draw):
            if isinstance(event, dict) and event["choices"]:
                event["choices"][0]["content_filter_results"] = {} if asynchronous else FILTER
                yield event
                if asynchronous and draw.random() < 0.3:
                    place = {"check_offset": 1, "start_offset": 1, "end_offset": 9}
                    note = {"index": event["choices"][0]["index"], "finish_reason": None,
                            "content_filter_results": FILTER, "content_filter_offsets": place}  # fmt: skip
                    yield {"id": "", "object": "", "model": "", "choices": [note]}
            else:
                yield event


# -- OpenRouter

OPENROUTER_STREAMING = "https://openrouter.ai/docs/api-reference/streaming"
OPENROUTER_ERRORS = "https://openrouter.ai/docs/api/reference/errors-and-debugging"
OPENROUTER_REASONING = "https://openrouter.ai/docs/use-cases/reasoning-tokens"


def details_of(said: Said, draw: random.Random) -> list[dict[str, Any]]:
    """The reasoning of an answer as OpenRouter shows it; a signature goes with a call of a tool."""
    found: list[dict[str, Any]] = []
    if said.reasoning:
        found.append({"type": "reasoning.text", "text": said.reasoning, "format": "google-gemini-v1",
                      "index": 0})  # fmt: skip
    if said.calls:
        data = f"EqoB{draw.randrange(16**40):x}/+="
        found.append({"type": "reasoning.encrypted", "data": data, "format": "google-gemini-v1",
                      "id": "tool_0", "index": len(found)})  # fmt: skip
    return found


@rule(
    OPENROUTER_REASONING,
    "https://github.com/OpenHands/software-agent-sdk/issues/1500",
    "https://github.com/RooCodeInc/Roo-Code/pull/9506",
    wrong={"messages": [QUESTION, called("tool_0_f"), result("tool_0_f")]},
)
def reasoning_details(asked: Asked) -> Iterator[str]:
    for message in asked.messages:
        ours = any(
            str(c.get("id", "")).startswith("tool_") for c in message.get("tool_calls") or ()
        )
        kinds = {each.get("type") for each in message.get("reasoning_details") or ()}
        if ours and "reasoning.encrypted" not in kinds:
            yield "Function call is missing a thought_signature in functionCall parts."


class OpenRouter(ChatTwin):
    """OpenRouter, with a model of Google's behind it.

    It passes over fields that it does not know. Comments keep a stream alive
    (OPENROUTER_STREAMING). An error while the model answers has the status 200, and is a body, or an
    event, with ``error`` (OPENROUTER_ERRORS).
    """

    name = "openrouter"
    model_name = "google/gemini-3-pro"
    thinks = True
    reasoning_field = "reasoning"
    rules = (*COMMON, reasoning_details)

    def refuse(self, refusal: Any) -> Fault:
        meta = {"raw": refusal.message, "provider_name": "Google"}
        error = {"message": "Provider returned error", "code": 400, "metadata": meta}
        return json_fault(400, {"error": error, "user_id": "u"})

    def failures(self) -> list[Fault]:
        gone = {"error": {"code": 502, "message": "Provider returned error"}, "user_id": "u"}
        busy = {"error": {"code": 429, "message": "Rate limit exceeded"}, "user_id": "u"}
        return [
            json_fault(200, gone),
            json_fault(502, gone),
            json_fault(429, busy, Retry_After="0"),
        ]

    def broken_streams(self) -> list[Fault]:
        error = {"code": "server_error", "message": "Provider disconnected unexpectedly"}
        last = {"index": 0, "delta": {"content": ""}, "finish_reason": "error"}
        body = sse({"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]})
        body = b": OPENROUTER PROCESSING\n\n" + body + sse({"error": error, "choices": [last]})
        return [*super().broken_streams(), Fault("error inside", 200, STREAM, body)]

    def common(self, draw: random.Random) -> dict[str, Any]:
        return {
            "provider": "Google AI Studio",
            **super().common(draw),
            "id": f"gen-{draw.random()}",
        }

    def call_id(self, at: int, heard: Heard, draw: random.Random) -> str:
        return f"tool_{at}_f_{draw.randrange(16**20):020x}{draw.randrange(16**20):020x}"

    def choice(self, at: int, said: Said, heard: Heard, draw: random.Random) -> dict[str, Any]:
        native = {"stop": "STOP", "tool_calls": "STOP", "length": "MAX_TOKENS"}[said.finish]
        return {"native_finish_reason": native, **super().choice(at, said, heard, draw)}

    def message(self, said: Said, heard: Heard, draw: random.Random) -> dict[str, Any]:
        found = {**super().message(said, heard, draw), "refusal": None}
        found["reasoning_details"] = details_of(said, draw)
        return found

    def usage(self, said: list[Said], draw: random.Random) -> Any:
        return {
            **super().usage(said, draw),
            "cost": 0.00014,
            "is_byok": False,
            "cost_details": None,
        }

    def events(
        self, heard: Heard, said: list[Said], draw: random.Random
    ) -> Iterator[dict[str, Any] | bytes]:
        for _ in range(draw.randrange(4)):
            yield b": OPENROUTER PROCESSING\n\n"
        for event in super().events(heard, said, draw):
            if isinstance(event, dict) and not event["choices"]:
                delta = {"role": "assistant", "content": ""}
                event["choices"] = [{"index": 0, "delta": delta, "finish_reason": None}]
            yield event
            if draw.random() < 0.05:
                yield b": OPENROUTER PROCESSING\n\n"

    def deltas(self, said: Said, heard: Heard, draw: random.Random) -> Iterator[dict[str, Any]]:
        role = {"role": "assistant", "content": ""}
        for detail in details_of(said, draw):
            whole = detail.get("text", "")
            for piece in pieces(whole, draw) if whole else [None]:
                one = detail if piece is None else {**detail, "text": piece}
                yield {**role, "reasoning": piece, "reasoning_details": [one]}
        for piece in pieces(said.raw, draw):
            yield {"role": "assistant", "content": piece}
        for each in self.call_pieces(said, heard, draw):
            yield {"role": "assistant", "content": None, "tool_calls": [each]}

    def call_pieces(
        self, said: Said, heard: Heard, draw: random.Random
    ) -> Iterator[dict[str, Any]]:
        for at, each in enumerate(said.calls):
            yield {**self.call(at, each, heard, draw), "index": at}


__all__ = ["Azure", "Call", "OpenAI", "OpenAIReasoning", "OpenRouter"]
