"""vLLM, SGLang, Ollama and llama.cpp. Their sources are public: the rules are those of the code."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from typing import Any

from appl.testing import Fault

from .chat import ChatTwin, json_fault
from .google import is_object
from .hosted import SURROGATE, empty_tools
from .model import Call, Heard, Said, pieces, written
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
)

# -- vLLM

VLLM = "https://github.com/vllm-project/vllm/blob/main/vllm/entrypoints/openai/chat_completion/protocol.py"
VLLM_MESSAGES = "https://github.com/vllm-project/vllm/blob/main/vllm/entrypoints/chat_utils.py"
HALF = {"role": "assistant", "content": None, "tool_calls": [
    {"id": "a", "type": "function", "function": {"name": "f", "arguments": ""}}]}  # fmt: skip


def unparsed(asked: Asked, words: str) -> Iterator[str]:
    """*words* for each call whose arguments are no JSON."""
    for _, _, call in calls_in(asked):
        text = call["function"].get("arguments")
        if isinstance(text, str) and not is_json(text):
            yield words


@rule(
    VLLM_MESSAGES,
    "https://github.com/vllm-project/vllm/issues/19419",
    wrong={"messages": [QUESTION, HALF, result("a")]},
    status=500,
)
def vllm_arguments(asked: Asked) -> Iterator[str]:
    """Until 0.20 the JSON of arguments was parsed, and what cannot be parsed was an error inside."""
    yield from unparsed(asked, "Expecting value: line 1 column 1 (char 0)")


def is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


@rule(VLLM, wrong={"continue_final_message": True, "add_generation_prompt": True})
def vllm_continuation(asked: Asked) -> Iterator[str]:
    body = asked.body
    if body.get("continue_final_message") and body.get("add_generation_prompt", True):
        yield "Cannot set both `continue_final_message` and `add_generation_prompt` to True."
    if body.get("continue_final_message") and asked.messages[-1].get("role") != "assistant":
        yield "continue_final_message is set but the final message does not appear in the chat."


@rule(VLLM, wrong={"tool_choice": "required"})
def vllm_choice(asked: Asked) -> Iterator[str]:
    choice = asked.body.get("tool_choice")
    if choice in (None, "none"):
        return
    if not asked.tools:
        yield "When using `tool_choice`, `tools` must be set."
    names = [tool.get("name") for tool in asked.tools]
    if isinstance(choice, dict) and choice["function"]["name"] not in names:
        yield "The tool specified in `tool_choice` does not match any of the specified `tools`"


@rule(VLLM, wrong={"stream_options": {"include_usage": True}})
def vllm_stream_options(asked: Asked) -> Iterator[str]:
    if asked.body.get("stream_options") and not asked.body.get("stream"):
        yield "Stream options can only be defined when `stream=True`."


@rule(VLLM, wrong={"top_logprobs": 2})
def vllm_logprobs(asked: Asked) -> Iterator[str]:
    if asked.body.get("top_logprobs") and not asked.body.get("logprobs"):
        yield "when using `top_logprobs`, `logprobs` must be set to true."


@rule(VLLM, wrong={"prompt_logprobs": 1, "stream": True})
def vllm_prompt_logprobs(asked: Asked) -> Iterator[str]:
    if asked.body.get("prompt_logprobs") is not None and asked.body.get("stream"):
        yield "`prompt_logprobs` are not available when `stream=True`."


@rule(VLLM, wrong={"structured_outputs": {"regex": "a", "json": {}}})
def vllm_constraints(asked: Asked) -> Iterator[str]:
    given = asked.body.get("structured_outputs") or {}
    named = [name for name in ("json", "regex", "choice") if given.get(name) is not None]
    if len(named) > 1:
        yield "You can only use one kind of constraints for structured outputs."
    if named and isinstance(asked.body.get("tool_choice"), dict):
        yield "You can only either use constraints for structured outputs or tools, not both."


@rule(VLLM, wrong={"messages": [{"role": "nobody", "content": "a"}]})
def vllm_roles(asked: Asked) -> Iterator[str]:
    for message in asked.messages:
        role, content = message.get("role"), message.get("content")
        if role not in ("system", "developer", "user", "assistant", "tool", "function"):
            yield f"Unknown role: {role}"
        if role != "assistant" and content is None:
            yield f"1 validation error: messages.{role}.content Field required"


class VLLM_(ChatTwin):
    """vLLM, with a model that thinks; the ids of its calls are long."""

    name = "vllm"
    model_name = "Qwen/Qwen3-8B"
    continues = True
    thinks = True
    reasoning_field = "reasoning"
    rules: tuple[Rule, ...] = (
        vllm_arguments, vllm_continuation, vllm_choice, vllm_stream_options, vllm_logprobs,
        vllm_prompt_logprobs, vllm_constraints, vllm_roles, empty_tools,
    )  # fmt: skip

    def refuse(self, refusal: Any) -> Fault:
        error = {"message": refusal.message, "type": "BadRequestError", "param": None,
                 "code": refusal.rule.status}  # fmt: skip
        return json_fault(refusal.rule.status, {"error": error})

    def failures(self) -> list[Fault]:
        dead = {"error": {"message": "EngineCore encountered an issue.", "code": 500}}
        return [json_fault(500, dead), json_fault(503, {"error": {"message": "overloaded"}})]

    def regex_of(self, body: dict[str, Any]) -> str | None:
        found = (body.get("structured_outputs") or {}).get("regex")
        return found if isinstance(found, str) else None

    def call_id(self, at: int, heard: Heard, draw: random.Random) -> str:
        return f"chatcmpl-tool-{draw.randrange(16**32):032x}"

    def choice(self, at: int, said: Said, heard: Heard, draw: random.Random) -> dict[str, Any]:
        return {**super().choice(at, said, heard, draw), "stop_reason": None, "token_ids": None}

    def message(self, said: Said, heard: Heard, draw: random.Random) -> dict[str, Any]:
        found = {"refusal": None, "annotations": None, "audio": None, "function_call": None,
                 "tool_calls": [], **super().message(said, heard, draw)}  # fmt: skip
        return {**found, "reasoning": said.reasoning or None}

    def deltas(self, said: Said, heard: Heard, draw: random.Random) -> Iterator[dict[str, Any]]:
        yield {"role": "assistant", "content": ""}
        for piece in pieces(said.reasoning or "", draw):
            yield {"reasoning": piece, "reasoning_content": piece}
        for piece in pieces(said.raw, draw):
            yield {"content": piece}
        for each in self.call_pieces(said, heard, draw):
            yield {"tool_calls": [each]}


# -- SGLang

SGLANG = "https://github.com/sgl-project/sglang/blob/main/python/sglang/srt/entrypoints/openai/serving_chat.py"
SGLANG_TYPES = "https://github.com/sgl-project/sglang/blob/main/python/sglang/srt/entrypoints/openai/protocol.py"


@rule(
    SGLANG,
    "https://github.com/sgl-project/sglang/pull/28035",
    wrong={"messages": [QUESTION, HALF, result("a")]},
)
def sglang_arguments(asked: Asked) -> Iterator[str]:
    for _, _, call in calls_in(asked):
        if not is_object(call["function"].get("arguments")):
            yield "Assistant tool call function.arguments must be valid JSON."


@rule(SGLANG_TYPES, wrong={"messages": [{"role": "nobody", "content": "a"}]})
def sglang_roles(asked: Asked) -> Iterator[str]:
    for message in asked.messages:
        role, content = message.get("role"), message.get("content")
        if role not in ("system", "assistant", "tool", "function", "developer", "user"):
            yield "'role' must be one of 'system', 'assistant', 'tool', 'function', 'developer'."
        if role == "user" and not isinstance(content, str | list):
            yield "content: Input should be a valid string"


@rule(
    "https://github.com/sgl-project/sglang/pull/10550",
    wrong={"tool_choice": {"type": "function", "function": {"name": "g"}}},
)
def sglang_choice(asked: Asked) -> Iterator[str]:
    choice = asked.body.get("tool_choice")
    names = [tool.get("name") for tool in asked.tools]
    if choice == "required" and not names:
        yield "Tools cannot be empty if tool choice is set to required."
    if isinstance(choice, dict) and choice["function"]["name"] not in names:
        yield f"Tool '{choice['function']['name']}' not found in tools list."


@rule(SGLANG_TYPES, wrong={"n": "2"})
def sglang_types(asked: Asked) -> Iterator[str]:
    kinds = {"n": int, "logprobs": bool, "stream": bool, "continue_final_message": bool}
    for name, kind in kinds.items():
        if not isinstance(asked.body.get(name, kind()), kind):
            yield f"{name}: Input should be a valid {kind.__name__}"


class SGLang(ChatTwin):
    """SGLang: fields that say nothing are null, and later pieces of a call have no id and no name."""

    name = "sglang"
    model_name = "default"
    continues = True
    thinks = True
    rules: tuple[Rule, ...] = (sglang_arguments, sglang_roles, sglang_choice, sglang_types)

    def refuse(self, refusal: Any) -> Fault:
        return json_fault(400, {"object": "error", "message": refusal.message, "type": "BadRequest",
                                "param": None, "code": 400})  # fmt: skip

    def failures(self) -> list[Fault]:
        full = {"object": "error", "message": "The request queue is full.", "code": 503}
        return [json_fault(503, full), json_fault(500, {"object": "error", "message": "abort"})]

    def common(self, draw: random.Random) -> dict[str, Any]:
        return {"id": f"{draw.randrange(16**32):032x}", "created": 1, "model": "default"}

    def call_id(self, at: int, heard: Heard, draw: random.Random) -> str:
        return f"call_{draw.randrange(16**24):024x}"

    def choice(self, at: int, said: Said, heard: Heard, draw: random.Random) -> dict[str, Any]:
        return {
            **super().choice(at, said, heard, draw),
            "matched_stop": 151645,
            "hidden_states": None,
        }

    def message(self, said: Said, heard: Heard, draw: random.Random) -> dict[str, Any]:
        found = {"tool_calls": None, **super().message(said, heard, draw)}
        return {**found, "reasoning_content": said.reasoning or None}

    def chunk(
        self, at: int, delta: dict[str, Any], finish: str | None, heard: Heard
    ) -> dict[str, Any]:
        nothing = {"role": None, "content": None, "reasoning_content": None, "tool_calls": None}
        found = super().chunk(at, {**nothing, **delta}, finish, heard)
        return {**found, "matched_stop": None}

    def call_pieces(
        self, said: Said, heard: Heard, draw: random.Random
    ) -> Iterator[dict[str, Any]]:
        for each in super().call_pieces(said, heard, draw):
            if "id" not in each:
                function = {"name": None, **each["function"]}
                each = {"id": None, "type": "function", **each, "function": function}
            yield each


# -- Ollama

OLLAMA = "https://github.com/ollama/ollama/blob/main/openai/openai.go"


@rule(OLLAMA, wrong={"messages": [QUESTION, HALF, result("a")]})
def ollama_arguments(asked: Asked) -> Iterator[str]:
    for _, _, call in calls_in(asked):
        if not is_object(call["function"].get("arguments")):
            yield "invalid tool call arguments"


@rule(
    OLLAMA,
    wrong={"messages": [{"role": "user", "content": [
        {"type": "image_url", "image_url": {"url": "https://x.org/a.png"}}]}]},
)  # fmt: skip
def ollama_pictures(asked: Asked) -> Iterator[str]:
    for message in asked.messages:
        for part in parts_of(message):
            if part.get("type") == "image_url":
                url = part["image_url"]["url"]
                if not re.match(r"data:(image/(jpeg|jpg|png|webp))?;base64,", url):
                    yield "invalid image input"
            elif part.get("type") != "text":
                yield "invalid message format"


@rule(OLLAMA, wrong={"messages": [{"role": "user", "content": None}]})
def ollama_content(asked: Asked) -> Iterator[str]:
    for message in asked.messages:
        if message.get("content") is None and "tool_calls" not in message:
            yield "invalid message content type: <nil>"


@rule(OLLAMA, wrong={"reasoning_effort": "minimal"})
def ollama_effort(asked: Asked) -> Iterator[str]:
    effort = asked.body.get("reasoning_effort")
    if effort not in (None, "high", "medium", "low", "none"):
        yield f'invalid reasoning value: \'{effort}\' (must be "high", "medium", "low", or "none")'


@rule(OLLAMA, wrong={"max_tokens": "5"})
def ollama_types(asked: Asked) -> Iterator[str]:
    """The body is read into a Go structure; a value of another type is an error."""
    kinds = {"max_tokens": int, "seed": int, "stream": bool, "temperature": int | float}
    for name, kind in kinds.items():
        value = asked.body.get(name)
        if value is not None and not isinstance(value, kind):
            yield f"json: cannot unmarshal {type(value).__name__} into Go struct field {name}"


class Ollama(ChatTwin):
    """Ollama: each call is whole and has the index 0; ``n`` and log-probabilities are passed over."""

    name = "ollama"
    model_name = "qwen3:8b"
    thinks = True
    cuts = False
    reasoning_field = "reasoning"
    rules: tuple[Rule, ...] = (
        ollama_arguments, ollama_pictures, ollama_content, ollama_effort, ollama_types,
    )  # fmt: skip

    def hear(self, asked: Asked) -> Heard:
        heard = super().hear(asked)
        heard.n, heard.choice, heard.logprobs = 1, "auto", False  # it has no such fields
        return heard

    def failures(self) -> list[Fault]:
        busy = {"error": {"message": "server busy, please try again.", "type": "api_error"}}
        return [
            json_fault(503, busy),
            json_fault(500, {"error": {"message": "llama runner stopped"}}),
        ]

    def common(self, draw: random.Random) -> dict[str, Any]:
        return {"id": f"chatcmpl-{draw.randrange(1000)}", "created": 1, "model": self.model_name,
                "system_fingerprint": "fp_ollama"}  # fmt: skip

    def call(self, at: int, call: Call, heard: Heard, draw: random.Random) -> dict[str, Any]:
        return {**super().call(at, call, heard, draw), "index": 0}

    def call_id(self, at: int, heard: Heard, draw: random.Random) -> str:
        return f"call_{draw.randrange(36**8):08d}"

    def deltas(self, said: Said, heard: Heard, draw: random.Random) -> Iterator[dict[str, Any]]:
        for piece in pieces(said.reasoning or "", draw):
            yield {"role": "assistant", "content": "", "reasoning": piece}
        for piece in pieces(said.raw, draw):
            yield {"role": "assistant", "content": piece}
        calls = [self.call(at, each, heard, draw) for at, each in enumerate(said.calls)]
        if calls and draw.random() < 0.5:
            yield {"role": "assistant", "content": "", "tool_calls": calls}
        else:
            for call in calls:
                yield {"role": "assistant", "content": "", "tool_calls": [call]}


# -- llama.cpp

LLAMA = "https://github.com/ggml-org/llama.cpp/blob/master/tools/server/server-common.cpp"
LLAMA_CHAT = "https://github.com/ggml-org/llama.cpp/blob/master/common/chat.cpp"


@rule(
    LLAMA_CHAT,
    "https://github.com/noonghunna/club-3090/issues/665",
    wrong={"messages": [QUESTION, HALF, result("a")]},
    status=500,
)
def llama_arguments(asked: Asked) -> Iterator[str]:
    yield from unparsed(
        asked, "Failed to parse tool call arguments as JSON: parse error at line 1, column 1"
    )


@rule(LLAMA, wrong={"messages": [{"role": "user"}]})
def llama_content(asked: Asked) -> Iterator[str]:
    for message in asked.messages:
        if message.get("role") != "assistant" and "content" not in message:
            yield "All non-assistant messages must contain 'content'"
        if not message.keys() & {"content", "tool_calls"}:
            yield "Assistant message must contain either 'content' or 'tool_calls'!"
        for part in parts_of(message):
            if part.get("type") not in ("text", "image_url", "input_audio"):
                yield "unsupported content[].type"


@rule(LLAMA, wrong={"messages": [QUESTION, *[{"role": "assistant", "content": "a"}] * 2]})
def llama_two_at_the_end(asked: Asked) -> Iterator[str]:
    if [message.get("role") for message in asked.messages[-2:]] == ["assistant"] * 2:
        yield "Cannot have 2 or more assistant messages at the end of the list."


@rule(
    LLAMA,
    wrong={"grammar": 'root ::= "a"', "tools": [{"type": "function", "function": {"name": "f"}}]},
)
def llama_grammar(asked: Asked) -> Iterator[str]:
    if "grammar" in asked.body and asked.tools and asked.body.get("tool_choice") != "none":
        yield "Cannot use custom grammar constraints with tools."
    schema = (asked.body.get("response_format") or {}).get("type") == "json_schema"
    if schema and asked.body.get("grammar"):
        yield "Cannot use both json_schema and grammar"


@rule(LLAMA, wrong={"logprobs": True, "stream": True,
                    "tools": [{"type": "function", "function": {"name": "f"}}]})  # fmt: skip
def llama_logprobs(asked: Asked) -> Iterator[str]:
    body = asked.body
    if body.get("logprobs") and asked.tools and body.get("stream"):
        yield "logprobs is not supported with tools + stream"
    if body.get("top_logprobs") is not None and not body.get("logprobs"):
        yield "top_logprobs requires logprobs to be set to true"


@rule(LLAMA, wrong={"response_format": {"type": "regex"}})
def llama_formats(asked: Asked) -> Iterator[str]:
    kind = (asked.body.get("response_format") or {}).get("type", "text")
    if kind not in ("text", "json_object", "json_schema"):
        yield f'response_format type must be one of "text" or "json_object", but got: {kind}'


@rule(LLAMA, "https://json.nlohmann.me/home/exceptions/#jsonexceptionparse_error101",
      wrong={"messages": [{"role": "user", "content": "\udc97"}]})  # fmt: skip
def llama_characters(asked: Asked) -> Iterator[str]:
    if any(map(SURROGATE.search, texts_in(asked.body))):
        yield "[json.exception.parse_error.101] invalid string: surrogate U+D800..U+DBFF"


class LlamaCpp(ChatTwin):
    """llama.cpp, with a model that does not think: it goes on from text of the assistant by itself.

    Some versions repeat the name of a tool in each piece of a call
    (https://github.com/ggml-org/llama.cpp/issues/13774), and some give calls no id
    (https://github.com/microsoft/semantic-kernel/issues/10842).
    """

    name = "llama.cpp"
    model_name = "gemma-3-27b-it"
    continues = True
    rules: tuple[Rule, ...] = (
        llama_arguments, llama_content, llama_two_at_the_end, llama_grammar, llama_logprobs,
        llama_formats, llama_characters,
    )  # fmt: skip

    def refuse(self, refusal: Any) -> Fault:
        status = refusal.rule.status
        kind = "server_error" if status == 500 else "invalid_request_error"
        return json_fault(
            status, {"error": {"code": status, "message": refusal.message, "type": kind}}
        )

    def failures(self) -> list[Fault]:
        loading = {"code": 503, "message": "Loading model", "type": "unavailable_error"}
        return [json_fault(503, {"error": loading})]

    def call(self, at: int, call: Call, heard: Heard, draw: random.Random) -> dict[str, Any]:
        found = super().call(at, call, heard, draw)
        if isinstance(call.arguments, dict) and not call.arguments:
            found["function"]["arguments"] = written({}, draw)
        return found

    def call_id(self, at: int, heard: Heard, draw: random.Random) -> str:
        old = self.model.draw(heard, "version").random() < 0.2
        return "" if old else f"{draw.randrange(36**31):032d}"[:32]

    def usage(self, said: list[Said], draw: random.Random) -> Any:
        return None if draw.random() < 0.2 else super().usage(said, draw)

    def events(
        self, heard: Heard, said: list[Said], draw: random.Random
    ) -> Iterator[dict[str, Any] | bytes]:
        found = [event for event in super().events(heard, said, draw) if isinstance(event, dict)]
        timings = {"prompt_n": 9, "predicted_per_second": 51.2}
        yield from found[:-1]
        yield {**found[-1], "timings": timings}

    def deltas(self, said: Said, heard: Heard, draw: random.Random) -> Iterator[dict[str, Any]]:
        yield {"role": "assistant", "content": None}
        for piece in pieces(said.raw, draw):
            yield {"content": piece}
        for each in self.call_pieces(said, heard, draw):
            yield {"tool_calls": [each]}

    def call_pieces(
        self, said: Said, heard: Heard, draw: random.Random
    ) -> Iterator[dict[str, Any]]:
        repeats = draw.random() < 0.2
        for at, each in enumerate(said.calls):
            call = self.call(at, each, heard, draw)
            text = call["function"]["arguments"]
            parts = list(pieces(text, draw)) or [""]
            yield {**call, "index": at, "function": {"name": each.name, "arguments": parts[0]}}
            for piece in parts[1:]:
                again = {"id": call["id"], "type": "function"} if repeats else {}
                name = {"name": each.name} if repeats else {}
                yield {"index": at, **again, "function": {**name, "arguments": piece}}


__all__ = ["VLLM_", "LlamaCpp", "Ollama", "SGLang", "called"]
