"""DeepSeek, with a model that thinks, as it does unless it is told otherwise."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from appl.testing import Fault

from .chat import ChatTwin, json_fault
from .hosted import COMMON, json_without_the_word, names
from .model import Heard, Said, pieces
from .rules import QUESTION, Asked, Rule, called, parts_of, result, rule

THINKING = "https://api-docs.deepseek.com/guides/thinking_mode"
REFERENCE = "https://api-docs.deepseek.com/api/create-chat-completion"
PREFIX = "https://api-docs.deepseek.com/guides/chat_prefix_completion"
ALIVE = "https://api-docs.deepseek.com/quick_start/rate_limit"


@rule(
    THINKING,
    "https://github.com/moltis-org/moltis/issues/959",
    "https://github.com/MoonshotAI/kimi-cli/issues/2141",
    "https://github.com/JohnnyZ93/oai-compatible-copilot/issues/215",
    wrong={"messages": [QUESTION, called("a"), result("a")]},
    code="invalid_request_error",
)
def reasoning_of_calls(asked: Asked) -> Iterator[str]:
    for message in asked.messages:
        if message.get("tool_calls") and "reasoning_content" not in message:
            yield "The `reasoning_content` in the thinking mode must be passed back to the API."


@rule(
    THINKING,
    "https://github.com/openclaw/openclaw/issues/73417",
    wrong={"messages": [QUESTION, called("a", reasoning_content="b"), result("a"),
                        {"role": "assistant", "content": "c"}, QUESTION]},
    code="invalid_request_error",
)  # fmt: skip
def reasoning_of_turns_with_calls(asked: Asked) -> Iterator[str]:
    """ "Between two user messages, if the model performed a tool call, the intermediate assistant's
    reasoning_content must" go back "in all subsequent user interaction turns" (THINKING)."""
    calling = False
    for message in asked.messages:
        if message.get("role") == "user":
            calling = False
        calling = calling or bool(message.get("tool_calls"))
        if calling and message.get("role") == "assistant" and "reasoning_content" not in message:
            yield "The `reasoning_content` in the thinking mode must be passed back to the API."


@rule(
    "https://github.com/browser-use/browser-use/pull/215",
    REFERENCE,
    wrong={"response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": {"type": "object"}}}},
    code="invalid_request_error",
)  # fmt: skip
def schemas(asked: Asked) -> Iterator[str]:
    if (asked.body.get("response_format") or {}).get("type") not in (None, "text", "json_object"):
        yield (
            "Failed to deserialize the JSON body into the target type: response_format: "
            "response_format.type `json_schema` is unavailable now at line 1 column 12440"
        )


@rule(
    "https://github.com/esengine/DeepSeek-Reasonix/issues/7859",
    "https://github.com/deepseek-ai/DeepSeek-V3/issues/337",
    wrong={"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://x.org/a.png"}}]}]},
    code="invalid_request_error",
)  # fmt: skip
def pictures(asked: Asked) -> Iterator[str]:
    for at, message in enumerate(asked.messages):
        for part in parts_of(message):
            if part.get("type") != "text":
                yield (
                    f"Failed to deserialize the JSON body into the target type: messages[{at}]: "
                    f"unknown variant `{part.get('type')}`, expected `text` at line 1 column 99"
                )


@rule(THINKING, wrong={"logprobs": True}, code="invalid_request_error")
def scores(asked: Asked) -> Iterator[str]:
    """ "Setting logprobs, top_logprobs will trigger an error" (THINKING, of deepseek-reasoner)."""
    if asked.body.get("logprobs") or asked.body.get("top_logprobs"):
        yield "deepseek-reasoner does not support the parameter `logprobs`"


@rule(REFERENCE, wrong={"stop": [str(each) for each in range(17)]}, code="invalid_request_error")
def many_stops(asked: Asked) -> Iterator[str]:
    stop = asked.body.get("stop")
    if isinstance(stop, list) and len(stop) > 16:
        yield "Invalid 'stop': array too long. Expected an array with maximum length 16."


class DeepSeek(ChatTwin):
    """DeepSeek.

    While a request waits, it sends empty lines before the JSON, and comments in a stream (ALIVE).
    """

    name = "deepseek"
    model_name = "deepseek-v4-pro"
    thinks = True
    rules: tuple[Rule, ...] = (
        reasoning_of_calls, reasoning_of_turns_with_calls, schemas, pictures, scores, many_stops,
        json_without_the_word, names, *COMMON,
    )  # fmt: skip

    def failures(self) -> list[Fault]:
        busy = {"error": {"message": "Rate limit reached", "type": "rate_limit_error"}}
        loaded = {"error": {"message": "Service is too busy.", "type": "service_unavailable_error"}}
        return [json_fault(429, busy, Retry_After="0"), json_fault(503, loaded)]

    def common(self, draw: random.Random) -> dict[str, Any]:
        name = f"fp_{draw.randrange(16**10):x}_prod0820"
        return {**super().common(draw), "system_fingerprint": name}

    def whole(self, heard: Heard, said: list[Said], draw: random.Random) -> bytes:
        return b"\n" * draw.randrange(4) + super().whole(heard, said, draw)

    def call_id(self, at: int, heard: Heard, draw: random.Random) -> str:
        return f"call_{at:02}_{draw.randrange(36**12):024d}"

    def usage(self, said: list[Said], draw: random.Random) -> Any:
        found = super().usage(said, draw)
        return {**found, "prompt_cache_hit_tokens": 0, "prompt_cache_miss_tokens": 9,
                "prompt_tokens_details": {"cached_tokens": 0},
                "completion_tokens_details": {"reasoning_tokens": 3}}  # fmt: skip

    def deltas(self, said: Said, heard: Heard, draw: random.Random) -> Iterator[dict[str, Any]]:
        yield {"role": "assistant", "content": None, "reasoning_content": ""}
        for piece in pieces(said.reasoning or "", draw):
            yield {"content": None, "reasoning_content": piece}
        for piece in pieces(said.raw, draw):
            yield {"content": piece, "reasoning_content": None}
        for each in self.call_pieces(said, heard, draw):
            yield {"tool_calls": [each]}

    def events(
        self, heard: Heard, said: list[Said], draw: random.Random
    ) -> Iterator[dict[str, Any] | bytes]:
        for _ in range(draw.randrange(3)):
            yield b": keep-alive\n\n"
        yield from super().events(heard, said, draw)


@rule(PREFIX, wrong={"messages": [QUESTION, {"role": "assistant", "content": "a", "prefix": True}, QUESTION]},
      code="invalid_request_error")  # fmt: skip
def prefix_not_last(asked: Asked) -> Iterator[str]:
    if any(message.get("prefix") for message in asked.messages[:-1]):
        yield "The `prefix` parameter is only supported for the last message of the assistant."


class DeepSeekBeta(DeepSeek):
    """DeepSeek's address for continuations, with a model that does not think (PREFIX)."""

    name = "deepseek, beta"
    model_name = "deepseek-chat"
    thinks = False
    continues = True
    rules = (schemas, pictures, many_stops, json_without_the_word, names, prefix_not_last, *COMMON)
