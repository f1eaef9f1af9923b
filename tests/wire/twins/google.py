"""Gemini: its endpoint with OpenAI's interface, and its own interface."""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Iterator
from typing import Any

from appl.testing import Fault

from .chat import JSON, STREAM, ChatTwin, Twin, json_fault, sse
from .hosted import COMMON
from .model import GO_ON, Call, Heard, Said, pieces, written
from .rules import (
    QUESTION,
    Asked,
    Rule,
    called,
    calls_in,
    parts_of,
    result,
    rule,
    texts_in,
    unanswered,
)

SIGNATURES = "https://ai.google.dev/gemini-api/docs/thought-signatures"
COMPATIBILITY = "https://ai.google.dev/gemini-api/docs/openai"
FIELDS = frozenset(
    """
    extra_body function_call functions max_completion_tokens max_tokens messages modalities model n
    parallel_tool_calls reasoning_effort response_format service_tier stop stream stream_options
    temperature tool_choice tools top_p user
""".split()
)
MESSAGE_FIELDS = frozenset(
    {"role", "content", "name", "tool_calls", "tool_call_id", "extra_content"}
)
MISSING = (
    "Function call is missing a thought_signature in functionCall parts. This is required for tools "
    "to work correctly, and missing thought_signature may lead to degraded model performance. "
    "Additional data, function call `default_api:{}` , position {}. Please refer to "
    "https://ai.google.dev/gemini-api/docs/thought-signatures for more details."
)
DUMMY = ("skip_thought_signature_validator", "context_engineering_is_the_way_to_go")
"""What SIGNATURES lets one send for a call that another model made; litellm sends it in base64."""


@rule(
    "https://github.com/Vali-98/ChatterUI/issues/227",
    "https://github.com/mcpchecker/mcpchecker/pull/188",
    "https://github.com/MinLL/SkyrimNet-GamePlugin/issues/77",
    "https://github.com/n4ze3m/page-assist/issues/418",
    wrong={"seed": 3},
)
def unknown_names(asked: Asked) -> Iterator[str]:
    for name in asked.body.keys() - FIELDS:
        yield f'Invalid JSON payload received. Unknown name "{name}": Cannot find field.'


@rule(
    "https://github.com/gera2ld/ai.nvim/issues/13",
    "https://github.com/Alishahryar1/free-claude-code/issues/542",
    wrong={"messages": [{**QUESTION, "prefix": True}]},
)
def unknown_names_of_messages(asked: Asked) -> Iterator[str]:
    for at, message in enumerate(asked.messages):
        for name in message.keys() - MESSAGE_FIELDS:
            yield (
                f"Invalid JSON payload received. Unknown name \"{name}\" at 'messages[{at}]': Cannot "
                "find field."
            )


def current_turn(asked: Asked) -> int:
    """The number of the last message with which the user begins a turn (SIGNATURES)."""
    users = [at for at, each in enumerate(asked.messages) if each.get("role") == "user"]
    return users[-1] if users else 0


@rule(
    SIGNATURES,
    "https://github.com/langroid/langroid/issues/969",
    "https://github.com/Gitlawb/openclaude/issues/67",
    wrong={"messages": [QUESTION, called("a"), result("a")]},
)
def missing_signature(asked: Asked) -> Iterator[str]:
    for at, number, call in calls_in(asked):
        signature = ((call.get("extra_content") or {}).get("google") or {}).get("thought_signature")
        if at > current_turn(asked) and number == 0 and not signature:
            yield MISSING.format(call["function"]["name"], at + 1)


@rule(
    SIGNATURES,
    "https://docs.apiyi.com/en/faq/gemini-thought-signature-missing.md",
    wrong={"messages": [QUESTION, called("a", extra_content={"google": {"thought_signature": "?"}}),
                        result("a")]},
)  # fmt: skip
def corrupted_signature(asked: Asked) -> Iterator[str]:
    found = [message.get("extra_content") for message in asked.messages]
    found += [call.get("extra_content") for _, _, call in calls_in(asked)]
    for each in found:
        signature = ((each or {}).get("google") or {}).get("thought_signature")
        if signature and not is_signature(signature):
            yield "Corrupted thought signature."


def is_signature(text: str) -> bool:
    """True if this is a signature that a twin made: base64 of bytes that begin as they do."""
    if text in DUMMY:
        return True
    try:
        found = base64.b64decode(text, validate=True)
        return found.startswith(b"\x12thought") or found in map(str.encode, DUMMY)
    except ValueError:
        return False


def signature(draw: random.Random) -> str:
    return base64.b64encode(b"\x12thought" + draw.randbytes(40)).decode()


@rule(
    "https://github.com/microsoft/vscode/issues/299295",
    wrong={"messages": [QUESTION, called("a", "b"), result("a")]},
)
def number_of_results(asked: Asked) -> Iterator[str]:
    for _ in unanswered(asked):
        yield (
            "Please ensure that the number of function response parts is equal to the number of "
            "function call parts of the function call turn."
        )


@rule(
    "https://github.com/google-gemini/gemini-cli/issues/11814",
    "https://github.com/continuedev/continue/issues/11164",
    wrong={"messages": [called("a"), result("a")]},
)
def order_of_calls(asked: Asked) -> Iterator[str]:
    turns = [each for each in asked.messages if each.get("role") != "system"]
    for at, message in enumerate(turns):
        before = turns[at - 1].get("role") if at else None
        if message.get("tool_calls") and before not in ("user", "tool"):
            yield (
                "Please ensure that function call turn comes immediately after a user turn or after "
                "a function response turn."
            )


@rule(
    "https://github.com/vercel/ai/issues/3775",
    "https://github.com/router-for-me/CLIProxyAPI/issues/1292",
    wrong={"messages": [{"role": "user", "content": ""}]},
)
def empty_contents(asked: Asked) -> Iterator[str]:
    for at, message in enumerate(asked.messages):
        said = [part for part in parts_of(message) if part.get("type") != "text" or part["text"]]
        if not said and not message.get("tool_calls") and message.get("role") != "tool":
            yield f"* GenerateContentRequest.contents[{at}].parts: contents.parts must not be empty."


@rule(
    "https://ai.google.dev/api/caching#FunctionCall",
    COMPATIBILITY,
    wrong={"messages": [QUESTION, {"role": "assistant", "content": None, "tool_calls": [
        {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{"},
         "extra_content": {"google": {"thought_signature": DUMMY[0]}}}]}, result("a")]},
)  # fmt: skip
def arguments_that_are_no_object(asked: Asked) -> Iterator[str]:
    """The interface translates a call's arguments into a Struct, which is a JSON object."""
    for _, _, call in calls_in(asked):
        if not is_object(call["function"].get("arguments")):
            yield "Invalid value at 'contents.parts.function_call.args' (type.googleapis.com/google.protobuf.Struct)"  # fmt: skip


def is_object(text: Any) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (TypeError, ValueError):
        return False


class GeminiOpenAI(ChatTwin):
    """Gemini 3 with OpenAI's interface.

    Its errors are lists. A stream has each call whole, all with the index 0, and ends with "stop".
    """

    name = "gemini, OpenAI's interface"
    model_name = "gemini-3-pro-preview"
    cuts = False
    rules: tuple[Rule, ...] = (
        unknown_names, unknown_names_of_messages, missing_signature, corrupted_signature,
        number_of_results, order_of_calls, empty_contents, arguments_that_are_no_object, *COMMON,
    )  # fmt: skip

    def refuse(self, refusal: Any) -> Fault:
        error = {"code": 400, "message": refusal.message, "status": "INVALID_ARGUMENT"}
        return json_fault(400, [{"error": error}])

    def failures(self) -> list[Fault]:
        busy = {"code": 429, "message": "Resource exhausted. Please retry in 1ms.",
                "status": "RESOURCE_EXHAUSTED"}  # fmt: skip
        loaded = {"code": 503, "message": "The model is overloaded.", "status": "UNAVAILABLE"}
        return [json_fault(429, [{"error": busy}]), json_fault(503, [{"error": loaded}])]

    def finish(self, said: Said) -> str | None:
        return "stop" if said.calls else said.finish

    def message(self, said: Said, heard: Heard, draw: random.Random) -> dict[str, Any]:
        found = super().message(said, heard, draw)
        if said.calls:
            signed = {"google": {"thought_signature": signature(draw)}}
            found["tool_calls"][0]["extra_content"] = signed
            different = {str(call) for call in said.calls}
            if len(different) == len(said.calls) and draw.random() < 0.2:
                for call in found["tool_calls"]:
                    call["id"] = ""
            if not said.raw:
                del found["content"]
        elif draw.random() < 0.3:
            found["extra_content"] = {"google": {"thought_signature": signature(draw)}}
        return found

    def call(self, at: int, call: Call, heard: Heard, draw: random.Random) -> dict[str, Any]:
        found = super().call(at, call, heard, draw)
        found["function"]["arguments"] = written(call.arguments, draw)
        return found

    def call_id(self, at: int, heard: Heard, draw: random.Random) -> str:
        return f"function-call-{draw.randrange(10**20)}"

    def events(
        self, heard: Heard, said: list[Said], draw: random.Random
    ) -> Iterator[dict[str, Any] | bytes]:
        for at, each in enumerate(said):
            message = self.message(each, heard, draw)
            deltas: list[dict[str, Any]] = []
            for piece in pieces(each.raw, draw):
                deltas.append({"role": "assistant", "content": piece})
            for call in message.get("tool_calls", ()):
                deltas.append({"role": "assistant", "tool_calls": [{**call, "index": 0}]})
            last = {name: message[name] for name in ("extra_content",) if name in message}
            deltas = deltas or [{"role": "assistant", "content": ""}]
            deltas[-1] = {**deltas[-1], **last}
            for number, delta in enumerate(deltas):
                end = self.finish(each) if number == len(deltas) - 1 else None
                yield {
                    "choices": [self.chunk(at, delta, end, heard)],
                    "usage": self.usage(said, draw),
                }


# -- Gemini's own interface

METHOD = "https://ai.google.dev/api/generate-content"
REQUEST = frozenset(
    """
    contents tools toolConfig tool_config safetySettings safety_settings systemInstruction
    system_instruction generationConfig generation_config cachedContent cached_content labels store
""".split()
)
PART = frozenset(
    """
    text inlineData inline_data fileData file_data functionCall function_call functionResponse
    function_response executableCode codeExecutionResult thought thoughtSignature thought_signature
    videoMetadata mediaResolution media_resolution partMetadata
""".split()
)
CONFIG = frozenset(
    """
    stop_sequences stopSequences response_mime_type responseMimeType response_schema responseSchema
    response_json_schema responseJsonSchema _responseJsonSchema candidate_count candidateCount
    max_output_tokens maxOutputTokens temperature top_p topP top_k topK seed presence_penalty
    presencePenalty frequency_penalty frequencyPenalty response_logprobs responseLogprobs logprobs
    thinkingConfig thinking_config responseModalities mediaResolution speechConfig
""".split()
)


def contents(asked: Asked) -> list[dict[str, Any]]:
    found = asked.body.get("contents")
    return found if isinstance(found, list) else []


def native_calls(content: dict[str, Any]) -> list[dict[str, Any]]:
    """The parts of *content* that are calls."""
    parts = content.get("parts") or ()
    return [part for part in parts if "functionCall" in part or "function_call" in part]


def native_results(content: dict[str, Any]) -> list[dict[str, Any]]:
    parts = content.get("parts") or ()
    return [part for part in parts if "functionResponse" in part or "function_response" in part]


A_CALL = {"functionCall": {"name": "f", "args": {}}, "thoughtSignature": DUMMY[0]}
A_RESULT = {"functionResponse": {"name": "f", "response": {"content": "1"}}}
ASKS = {"role": "user", "parts": [{"text": "hi"}]}


@rule(METHOD, "https://github.com/gera2ld/ai.nvim/issues/13",
      wrong={"contents": [{"role": "user", "parts": [{"text": "a", "cache_control": {}}]}]})  # fmt: skip
def native_fields(asked: Asked) -> Iterator[str]:
    config = asked.body.get("generationConfig") or {}
    found = [(name, "") for name in asked.body.keys() - REQUEST]
    found += [(name, "generation_config") for name in config.keys() - CONFIG]
    for at, content in enumerate(contents(asked)):
        found += [(name, f"contents[{at}]") for name in content.keys() - {"role", "parts"}]
        for number, part in enumerate(content.get("parts") or ()):
            found += [(name, f"contents[{at}].parts[{number}]") for name in part.keys() - PART]
    for name, place in found:
        at_place = f" at '{place}'" if place else ""
        yield f'Invalid JSON payload received. Unknown name "{name}"{at_place}: Cannot find field.'


@rule(METHOD, wrong={"contents": [{"role": "assistant", "parts": [{"text": "a"}]}]})
def native_roles(asked: Asked) -> Iterator[str]:
    for content in contents(asked):
        if content.get("role", "user") not in ("user", "model", "function"):
            yield "Please use a valid role: user, model."


@rule(
    "https://github.com/vercel/ai/issues/3775",
    "https://github.com/router-for-me/CLIProxyAPI/issues/1292",
    wrong={"contents": [{"role": "user", "parts": []}]},
)
def native_empty(asked: Asked) -> Iterator[str]:
    if not contents(asked):
        yield "* GenerateContentRequest.contents: contents is not specified"
    for at, content in enumerate(contents(asked)):
        if not content.get("parts"):
            yield f"* GenerateContentRequest.contents[{at}].parts: contents.parts must not be empty."
        for number, part in enumerate(content.get("parts") or ()):
            if not part.keys() - {"thought", "thoughtSignature"} or part.get("text") == "":
                yield (
                    f"* GenerateContentRequest.contents[{at}].parts[{number}].data: required oneof "
                    "field 'data' must have one initialized field"
                )


@rule(
    "https://github.com/microsoft/vscode/issues/299295",
    "https://github.com/langchain-ai/langchain/issues/27799",
    wrong={"contents": [ASKS, {"role": "model", "parts": [A_CALL, A_CALL]},
                        {"role": "user", "parts": [A_RESULT]}]},
)  # fmt: skip
def native_results_match(asked: Asked) -> Iterator[str]:
    found = contents(asked)
    for at, content in enumerate(found):
        calls = len(native_calls(content))
        behind = found[at + 1] if at + 1 < len(found) else {}
        if calls and len(native_results(behind)) != calls:
            yield (
                "Please ensure that the number of function response parts is equal to the number of "
                "function call parts of the function call turn."
            )
        if native_results(content) and not (at and native_calls(found[at - 1])):
            yield "Please ensure that function response turn comes immediately after a function call turn."


@rule(
    "https://github.com/google-gemini/gemini-cli/issues/11814",
    wrong={
        "contents": [{"role": "model", "parts": [A_CALL]}, {"role": "user", "parts": [A_RESULT]}]
    },
)
def native_order(asked: Asked) -> Iterator[str]:
    found = contents(asked)
    for at, content in enumerate(found):
        if native_calls(content) and (not at or found[at - 1].get("role", "user") == "model"):
            yield (
                "Please ensure that function call turn comes immediately after a user turn or after "
                "a function response turn."
            )


@rule(
    SIGNATURES,
    "https://github.com/langgenius/dify-official-plugins/issues/2088",
    wrong={"contents": [ASKS, {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {}}}]},
                        {"role": "user", "parts": [A_RESULT]}]},
)  # fmt: skip
def native_signature(asked: Asked) -> Iterator[str]:
    found = contents(asked)
    starts = [at for at, each in enumerate(found) if each.get("role", "user") == "user" and not native_results(each)]  # fmt: skip
    for at, content in enumerate(found):
        calls = native_calls(content)
        if calls and at > max(starts, default=0):
            signed = calls[0].get("thoughtSignature") or calls[0].get("thought_signature")
            if not signed:
                yield MISSING.format(calls[0].get("functionCall", {}).get("name"), at + 1)
            elif not is_signature(signed):
                yield "Corrupted thought signature."


SCHEMA_WORDS = frozenset(
    """
    type format title description nullable enum maxItems minItems properties required minProperties
    maxProperties minLength maxLength pattern example anyOf propertyOrdering default items minimum
    maximum additionalProperties $ref $defs $id $anchor prefixItems oneOf const
    max_items min_items any_of property_ordering
""".split()
)


@rule(
    "https://github.com/zed-industries/zed/issues/44875",
    "https://ai.google.dev/api/caching#Schema",
    wrong={"tools": [{"functionDeclarations": [{"name": "f", "parameters": {
        "type": "object", "properties": {"a": {"const": 1}}}}]}]},
)  # fmt: skip
def native_schemas(asked: Asked) -> Iterator[str]:
    for tool in asked.body.get("tools") or ():
        for at, each in enumerate(
            tool.get("functionDeclarations") or tool.get("function_declarations") or ()
        ):
            for name in _unknown_words(each.get("parameters")):
                yield (
                    f'Invalid JSON payload received. Unknown name "{name}" at \'tools[0].'
                    f"function_declarations[{at}].parameters': Cannot find field."
                )


def _unknown_words(schema: Any) -> Iterator[str]:
    if not isinstance(schema, dict):
        return
    known = SCHEMA_WORDS - {
        "const",
        "additionalProperties",
        "$ref",
        "$defs",
        "$id",
        "$anchor",
        "oneOf",
    }
    yield from schema.keys() - known
    for inner in (schema.get("properties") or {}).values():
        yield from _unknown_words(inner)
    yield from _unknown_words(schema.get("items"))
    for inner in schema.get("anyOf") or ():
        yield from _unknown_words(inner)


class Gemini(Twin):
    """Gemini 3 with its own interface."""

    name = "gemini, by litellm"
    model_name = "gemini-3-pro-preview"
    cuts = False
    thinks = True
    rules: tuple[Rule, ...] = (
        native_fields, native_roles, native_empty, native_results_match, native_order,
        native_signature, native_schemas,
    )  # fmt: skip

    def hear(self, asked: Asked) -> Heard:
        body = asked.body
        heard = Heard(streams="stream" in asked.path)
        system = body.get("systemInstruction") or body.get("system_instruction") or {}
        heard.texts += [part["text"] for part in system.get("parts", ())]
        for content in contents(asked):
            self._hear(content, heard)
        for tool in body.get("tools") or ():
            heard.tools += (
                tool.get("functionDeclarations") or tool.get("function_declarations") or []
            )
        config = (body.get("toolConfig") or body.get("tool_config") or {}).get(
            "functionCallingConfig"
        ) or {}
        mode = str(config.get("mode", "AUTO")).upper()
        names = config.get("allowedFunctionNames") or config.get("allowed_function_names")
        heard.choice = {"ANY": "required", "NONE": "none"}.get(mode, "auto")
        if names and mode == "ANY":
            heard.choice = names[0]
        options = body.get("generationConfig") or {}
        for name in (
            "responseJsonSchema",
            "response_json_schema",
            "responseSchema",
            "response_schema",
        ):
            heard.schema = heard.schema or options.get(name)
        mime = options.get("responseMimeType") or options.get("response_mime_type")
        heard.any_object = mime == "application/json" and heard.schema is None
        heard.stop = options.get("stopSequences") or options.get("stop_sequences") or []
        heard.n = options.get("candidateCount") or options.get("candidate_count") or 1
        return heard

    def _hear(self, content: dict[str, Any], heard: Heard) -> None:
        user = content.get("role", "user") == "user"
        for part in content["parts"]:
            if "text" in part and not part.get("thought"):
                heard.texts.append(part["text"])
                if user:
                    heard.note_mark(part["text"])
                if user and part["text"].startswith(GO_ON):
                    heard.told, heard.begun = True, self._last
                self._last = part["text"]
            for name in ("functionResponse", "function_response"):
                if name in part:
                    heard.texts += texts_in(part[name]["response"])
            for name in ("functionCall", "function_call"):
                if name in part:
                    heard.calls.append((part[name]["name"], part[name].get("args")))
            heard.images += "inlineData" in part or "inline_data" in part or "fileData" in part
        heard.step += bool(native_calls(content))

    _last = ""

    def refuse(self, refusal: Any) -> Fault:
        error = {"code": 400, "message": refusal.message, "status": "INVALID_ARGUMENT"}
        return json_fault(400, {"error": error})

    def failures(self) -> list[Fault]:
        busy = {"code": 429, "message": "Resource exhausted. Please retry in 1ms.",
                "status": "RESOURCE_EXHAUSTED"}  # fmt: skip
        loaded = {"code": 503, "message": "The model is overloaded.", "status": "UNAVAILABLE"}
        return [json_fault(429, {"error": busy}), json_fault(503, {"error": loaded})]

    def answer(self, heard: Heard, said: list[Said], draw: random.Random) -> Fault:
        parts = [self._parts(each, draw) for each in said]
        common = {"modelVersion": self.model_name, "responseId": f"r{draw.randrange(10**9)}"}
        common["usageMetadata"] = self._usage(said)
        if not heard.streams:
            found = [
                self._candidate(at, each, self._end(said[at])) for at, each in enumerate(parts)
            ]
            return Fault("whole", 200, JSON, json.dumps({"candidates": found, **common}).encode())
        body = b""
        for at, each in enumerate(parts):
            split = [piece for part in each for piece in self._split(part, draw)]
            for number, piece in enumerate(split):
                end = self._end(said[at]) if number == len(split) - 1 else None
                body += sse({"candidates": [self._candidate(at, [piece], end)], **common})
        return Fault("stream", 200, STREAM, body)

    def _parts(self, said: Said, draw: random.Random) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        if said.reasoning:
            found.append({"text": said.reasoning, "thought": True})
        if said.raw:
            found.append({"text": said.raw})
        for at, call in enumerate(said.calls):
            part: dict[str, Any] = {"functionCall": {"name": call.name, "args": call.arguments}}
            if at == 0:
                part["thoughtSignature"] = signature(draw)
            found.append(part)
        if not said.calls and (draw.random() < 0.3 or not found):
            found.append({"text": "", "thoughtSignature": signature(draw)})
        return found

    def _split(self, part: dict[str, Any], draw: random.Random) -> Iterator[dict[str, Any]]:
        if not part.get("text"):
            yield part
            return
        for piece in pieces(part["text"], draw):
            yield {**part, "text": piece}

    def _candidate(self, at: int, parts: list[dict[str, Any]], end: str | None) -> dict[str, Any]:
        found: dict[str, Any] = {"content": {"parts": parts, "role": "model"}, "index": at}
        return {**found, "finishReason": end} if end else found

    def _end(self, said: Said) -> str:
        return "MAX_TOKENS" if said.finish == "length" else "STOP"

    def _usage(self, said: list[Said]) -> dict[str, Any]:
        tokens = sum(len(each.raw) for each in said) // 4 + 1
        return {"promptTokenCount": 9, "candidatesTokenCount": tokens, "thoughtsTokenCount": 3,
                "totalTokenCount": 12 + tokens,
                "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 9}]}  # fmt: skip


__all__ = ["Call", "Gemini", "GeminiOpenAI", "is_object", "written"]
