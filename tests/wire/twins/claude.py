"""Anthropic's interface, which litellm speaks."""

from __future__ import annotations

import hashlib
import json
import random
import re
from collections.abc import Iterator
from typing import Any

from appl.testing import Fault

from .chat import JSON, STREAM, Twin, json_fault, sse
from .model import GO_ON, Heard, Said, pieces
from .rules import QUESTION, SURROGATE, Asked, Refusal, Rule, rule, texts_in

REFERENCE = "https://docs.anthropic.com/en/api/messages"
THINKING = "https://docs.anthropic.com/en/docs/build-with-claude/extended-thinking"
ERRORS = "https://platform.claude.com/docs/en/api/errors"
STOPS = "https://docs.anthropic.com/en/api/handling-stop-reasons"

FIELDS = frozenset(
    """
    cache_control container context_management inference_geo max_tokens mcp_servers messages metadata
    model output_config output_format service_tier speed stop_sequences stream system temperature
    thinking tool_choice tools top_k top_p
""".split()
)
BLOCKS = {
    "text": {"text", "citations"}, "image": {"source"}, "document": {"source", "title", "context"},
    "tool_use": {"id", "name", "input", "caller"},
    "tool_result": {"tool_use_id", "content", "is_error"},
    "thinking": {"thinking", "signature"}, "redacted_thinking": {"data"},
}  # fmt: skip
JSON_TOOL = "json_tool_call"
"""The tool by which litellm asks older models for an object."""


def blocks(message: dict[str, Any]) -> list[dict[str, Any]]:
    content = message.get("content")
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content or ())


def of_type(message: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    return [each for each in blocks(message) if each.get("type") == kind]


def uses(*ids: str, before: tuple[dict[str, Any], ...] = ()) -> dict[str, Any]:
    calls = [{"type": "tool_use", "id": id, "name": "f", "input": {}} for id in ids]
    return {"role": "assistant", "content": [*before, *calls]}


def results(*ids: str) -> dict[str, Any]:
    found = [{"type": "tool_result", "tool_use_id": id, "content": "1"} for id in ids]
    return {"role": "user", "content": found}


@rule(REFERENCE, "https://github.com/anthropics/claude-code/issues/4378", wrong={"seed": 3})
def unknown_fields(asked: Asked) -> Iterator[str]:
    for name in asked.body.keys() - FIELDS:
        yield f"{name}: Extra inputs are not permitted"
    for at, message in enumerate(asked.messages):
        for name in message.keys() - {"role", "content"}:
            yield f"messages.{at}.{name}: Extra inputs are not permitted"
        for number, block in enumerate(blocks(message)):
            kind = block.get("type", "")
            for name in block.keys() - {"type", "cache_control"} - BLOCKS.get(kind, set()):
                yield f"messages.{at}.content.{number}.{kind}.{name}: Extra inputs are not permitted"


@rule(REFERENCE, "https://github.com/Mesh-LLM/mesh-llm/pull/1911", wrong={"max_tokens": None})
def length(asked: Asked) -> Iterator[str]:
    if not isinstance(asked.body.get("max_tokens"), int):
        yield "max_tokens: Field required"


@rule(REFERENCE, wrong={"messages": [{"role": "system", "content": "a"}, QUESTION]})
def roles(asked: Asked) -> Iterator[str]:
    for message in asked.messages:
        if message.get("role") not in ("user", "assistant"):
            yield f'messages: Unexpected role "{message.get("role")}".'
    if not asked.messages:
        yield "messages: at least one message is required"


@rule(
    "https://github.com/lobehub/lobehub/issues/1601",
    "https://github.com/mckaywrigley/chatbot-ui/issues/1656",
    wrong={"messages": [{"role": "assistant", "content": "a"}, QUESTION]},
)
def first_role(asked: Asked) -> Iterator[str]:
    if asked.messages and asked.messages[0].get("role") != "user":
        yield 'messages: first message must use the "user" role'


@rule(
    "https://github.com/anthropics/claude-code/issues/59812",
    "https://github.com/anthropics/claude-code/issues/23369",
    "https://github.com/home-assistant/core/issues/175637",
    wrong={"messages": [QUESTION, {"role": "assistant", "content": [{"type": "text", "text": "\n"}]},
                        QUESTION]},
)  # fmt: skip
def empty_texts(asked: Asked) -> Iterator[str]:
    system = asked.body.get("system")
    places = [blocks({"content": system})] if system is not None else []
    places += [blocks(message) for message in asked.messages]
    for block in (block for place in places for block in place if block.get("type") == "text"):
        if not block.get("text"):
            yield "messages: text content blocks must be non-empty"
        elif not block["text"].strip():
            yield "messages: text content blocks must contain non-whitespace text"


@rule(
    "https://github.com/writingmate/chatlabs/pull/35",
    "https://github.com/glowingjade/obsidian-smart-composer/pull/156",
    wrong={"messages": [QUESTION, {"role": "assistant", "content": []}, QUESTION]},
)
def empty_messages(asked: Asked) -> Iterator[str]:
    for at, message in enumerate(asked.messages):
        last = at == len(asked.messages) - 1 and message.get("role") == "assistant"
        if not blocks(message) and not last:
            yield (
                f"messages.{at}: all messages must have non-empty content except for the optional "
                "final assistant message"
            )


@rule(
    "https://github.com/anthropics/claude-code/issues/8210",
    "https://github.com/OpenHands/OpenHands/issues/7512",
    wrong={"messages": [QUESTION, uses("a", "b"), results("a")]},
)
def unanswered(asked: Asked) -> Iterator[str]:
    for at, message in enumerate(asked.messages):
        wanted = [block["id"] for block in of_type(message, "tool_use")]
        behind = asked.messages[at + 1] if at + 1 < len(asked.messages) else {}
        got = [block.get("tool_use_id") for block in of_type(behind, "tool_result")]
        missing = [id for id in wanted if id not in got]
        if missing:
            yield (
                f"messages.{at}: `tool_use` ids were found without `tool_result` blocks immediately "
                f"after: {', '.join(missing)}. Each `tool_use` block must have a corresponding "
                "`tool_result` block in the next message."
            )


@rule(
    "https://github.com/anthropics/claude-code/issues/18947",
    "https://github.com/anthropics/claude-code/issues/13460",
    wrong={"messages": [QUESTION, {"role": "assistant", "content": "a"}, results("a")]},
)
def orphans(asked: Asked) -> Iterator[str]:
    for at, message in enumerate(asked.messages):
        before = asked.messages[at - 1] if at else {}
        known = {block["id"] for block in of_type(before, "tool_use")}
        for number, block in enumerate(of_type(message, "tool_result")):
            if block.get("tool_use_id") not in known:
                yield (
                    f"messages.{at}.content.{number}: unexpected `tool_use_id` found in `tool_result` "
                    f"blocks: {block.get('tool_use_id')}."
                )


@rule(
    "https://github.com/trycua/cua/issues/524",
    "https://github.com/BerriAI/litellm/issues/23510",
    wrong={"messages": [QUESTION, uses("a", "a"), results("a", "a")]},
)
def equal_ids(asked: Asked) -> Iterator[str]:
    seen = set[str]()
    for at, message in enumerate(asked.messages):
        for number, block in enumerate(of_type(message, "tool_use")):
            if block["id"] in seen:
                yield f"messages.{at}.content.{number}: `tool_use` ids must be unique"
            seen.add(block["id"])


@rule(
    "https://github.com/maximhq/bifrost/issues/5097",
    "https://github.com/HKUDS/nanobot/pull/4356",
    wrong={"messages": [QUESTION, uses("functions.f:0"), results("functions.f:0")]},
)
def ids(asked: Asked) -> Iterator[str]:
    for at, message in enumerate(asked.messages):
        for number, block in enumerate(blocks(message)):
            for name in ("id", "tool_use_id"):
                if name in block and not re.fullmatch(r"[a-zA-Z0-9_-]+", str(block[name])):
                    yield (
                        f"messages.{at}.content.{number}.{block['type']}.{name}: String should match "
                        "pattern '^[a-zA-Z0-9_-]+$'"
                    )


@rule(
    "https://github.com/tailcallhq/forgecode/issues/892",
    wrong={"tools": [{"name": "f", "input_schema": {"type": "object"}}] * 2},
)
def tools(asked: Asked) -> Iterator[str]:
    names = [tool.get("name") for tool in asked.body.get("tools") or ()]
    if len(set(names)) < len(names):
        yield "tools: Tool names must be unique."
    for at, name in enumerate(names):
        if not re.fullmatch(r"[a-zA-Z0-9_-]{1,128}", str(name)):
            yield f"tools.{at}.custom.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'"


@rule(
    "https://github.com/tailcallhq/forgecode/issues/1872",
    "https://github.com/crewAIInc/crewAI/issues/4413",
    wrong={"messages": [QUESTION, {"role": "assistant", "content": "Name: "}]},
)
def space_at_the_end(asked: Asked) -> Iterator[str]:
    last = asked.messages[-1]
    texts = [block.get("text", "") for block in blocks(last)]
    if last.get("role") == "assistant" and texts and texts[-1] != texts[-1].rstrip():
        yield "messages: final assistant content cannot end with trailing whitespace"


@rule(
    "https://github.com/BerriAI/litellm/issues/15097",
    "https://github.com/cloud-apim/otoroshi-llm-extension/issues/140",
    wrong={"temperature": 0.5, "top_p": 0.5},
)
def both_samplers(asked: Asked) -> Iterator[str]:
    if {"temperature", "top_p"} <= asked.body.keys():
        yield (
            "`temperature` and `top_p` cannot both be specified for this model. Please use only one."
        )


NO_PREFILL = re.compile(r"claude-(opus|sonnet|haiku)-(4-[6-9]|[5-9])|claude-fable")


@rule(
    ERRORS,
    "https://github.com/agenticloops-ai/agentic-ai-engineering/issues/43",
    "https://github.com/lanl/ursa/issues/283",
    wrong={
        "model": "claude-opus-4-6",
        "messages": [QUESTION, {"role": "assistant", "content": "a"}],
    },
)
def prefill(asked: Asked) -> Iterator[str]:
    if NO_PREFILL.match(asked.model) and asked.messages[-1].get("role") == "assistant":
        yield (
            "This model does not support assistant message prefill. The conversation must end with a "
            "user message."
        )


THOUGHT = {"type": "thinking", "thinking": "a", "signature": "EqQB"}


@rule(
    THINKING,
    "https://github.com/deepset-ai/haystack-core-integrations/issues/2146",
    "https://github.com/pydantic/pydantic-ai/issues/2075",
    wrong={"thinking": {"type": "enabled", "budget_tokens": 1024},
           "messages": [QUESTION, uses("a"), results("a")]},
)  # fmt: skip
def thinking_before_calls(asked: Asked) -> Iterator[str]:
    if (asked.body.get("thinking") or {}).get("type") != "enabled":
        return
    starts = [
        at
        for at, each in enumerate(asked.messages)
        if each.get("role") == "user" and not of_type(each, "tool_result")
    ]
    for at, message in enumerate(asked.messages):
        kinds = [block.get("type") for block in blocks(message)]
        if (
            at > starts[-1]
            and "tool_use" in kinds
            and kinds[0] not in ("thinking", "redacted_thinking")
        ):
            yield (
                f"messages.{at}.content.0.type: Expected `thinking` or `redacted_thinking`, but found "
                f"`{kinds[0]}`. When `thinking` is enabled, a final `assistant` message must start with "
                "a thinking block (preceeding the lastmost set of `tool_use` and `tool_result` blocks)."
            )


@rule(
    THINKING,
    "https://github.com/anthropics/claude-code/issues/10627",
    wrong={
        "messages": [QUESTION, uses("a", before=({**THOUGHT, "signature": "?"},)), results("a")]
    },
)
def signatures(asked: Asked) -> Iterator[str]:
    for at, message in enumerate(asked.messages):
        for number, block in enumerate(of_type(message, "thinking")):
            if not str(block.get("signature", "")).startswith("EqQB"):
                yield f"messages.{at}.content.{number}: Invalid `signature` in `thinking` block"


@rule(
    THINKING,
    "https://github.com/anthropics/anthropic-sdk-python/blob/main/src/anthropic/types/thinking_block_param.py",
    wrong={"messages": [QUESTION, uses("a", before=({"type": "thinking", "signature": "EqQB"},)),
                        results("a")]},
)  # fmt: skip
def empty_thoughts(asked: Asked) -> Iterator[str]:
    for at, message in enumerate(asked.messages):
        for number, block in enumerate(of_type(message, "thinking")):
            if not isinstance(block.get("thinking"), str):
                yield f"messages.{at}.content.{number}.thinking.thinking: Field required"


@rule(
    THINKING,
    wrong={"thinking": {"type": "enabled", "budget_tokens": 1024}, "tool_choice": {"type": "any"},
           "tools": [{"name": "f", "input_schema": {"type": "object"}}]},
)  # fmt: skip
def thinking_and_more(asked: Asked) -> Iterator[str]:
    thinking = asked.body.get("thinking") or {}
    if thinking.get("type") != "enabled":
        return
    if (asked.body.get("tool_choice") or {}).get("type") in ("any", "tool"):
        yield "Thinking may not be enabled when tool_choice forces tool use."
    if asked.body.get("temperature", 1) != 1:
        yield "`temperature` may only be set to 1 when thinking is enabled."
    if thinking.get("budget_tokens", 0) >= asked.body.get("max_tokens", 0):
        yield "`max_tokens` must be greater than `thinking.budget_tokens`."


@rule(REFERENCE, wrong={"tool_choice": {"type": "auto"}})
def choice_without_tools(asked: Asked) -> Iterator[str]:
    if asked.body.get("tool_choice") and not asked.body.get("tools"):
        yield "tool_choice: tool_choice may only be specified while providing tools."


@rule(REFERENCE, wrong={"messages": [{"role": "user", "content": [
    {"type": "image", "source": {"type": "base64", "media_type": "image/bmp", "data": "Qk0="}}]}]})  # fmt: skip
def pictures(asked: Asked) -> Iterator[str]:
    for at, message in enumerate(asked.messages):
        for block in of_type(message, "image"):
            kind = block.get("source", {}).get("media_type", "image/png")
            if kind not in ("image/jpeg", "image/png", "image/gif", "image/webp"):
                yield f"messages.{at}.content.0.image.source.base64.media_type: Input should be 'image/jpeg'"


@rule(
    "https://github.com/anthropics/claude-code/issues/5934",
    "https://github.com/anomalyco/opencode/pull/13985",
    wrong={"messages": [{"role": "user", "content": "\udc97"}]},
)
def half_characters(asked: Asked) -> Iterator[str]:
    if any(map(SURROGATE.search, texts_in(asked.body))):
        yield "The request body is not valid JSON: no low surrogate in string: line 1 column 9 (char 8)"


class Claude(Twin):
    """Claude, with a model that can be told how to begin its answer, and does not think."""

    name = "anthropic, by litellm"
    model_name = "claude-sonnet-4-5"
    cuts = False
    rules: tuple[Rule, ...] = (
        unknown_fields, length, roles, first_role, empty_texts, empty_messages, unanswered, orphans,
        equal_ids, ids, tools, space_at_the_end, both_samplers, prefill, thinking_before_calls,
        signatures, empty_thoughts, thinking_and_more, choice_without_tools, pictures, half_characters,
    )  # fmt: skip

    def hear(self, asked: Asked) -> Heard:
        body = asked.body
        heard = Heard(streams=bool(body.get("stream")))
        heard.texts += [block["text"] for block in blocks({"content": body.get("system") or []})]
        for message in asked.messages:
            self._hear(message, heard)
        heard.tools = [
            {"name": tool["name"], "parameters": tool.get("input_schema")}
            for tool in body.get("tools") or ()
        ]
        choice = body.get("tool_choice") or {}
        heard.choice = {"any": "required", "tool": choice.get("name", "")}.get(
            choice.get("type", ""), choice.get("type", "auto")
        )
        format = body.get("output_format") or (body.get("output_config") or {}).get("format") or {}
        heard.schema = format.get("schema")
        heard.stop = body.get("stop_sequences") or []
        last = asked.messages[-1]
        if last["role"] == "assistant":
            heard.begun = "".join(block.get("text", "") for block in blocks(last))
        return heard

    def _hear(self, message: dict[str, Any], heard: Heard) -> None:
        user = message["role"] == "user"
        for block in blocks(message):
            if block["type"] == "text":
                if user and block["text"].startswith(GO_ON):
                    heard.told, heard.begun = True, self._last
                heard.texts.append(block["text"])
                self._last = block["text"]
                if user:
                    heard.note_mark(block["text"])
            elif block["type"] == "tool_result":
                heard.texts += [each["text"] for each in blocks(block) if each["type"] == "text"]
            elif block["type"] == "tool_use":
                heard.calls.append((block["name"], block["input"]))
            heard.images += block["type"] == "image"
        heard.step += bool(of_type(message, "tool_use"))

    _last = ""

    def refuse(self, refusal: Any) -> Fault:
        error = {"type": "invalid_request_error", "message": refusal.message}
        return json_fault(400, {"type": "error", "error": error, "request_id": "req_1"})

    def failures(self) -> list[Fault]:
        busy = {"type": "error", "error": {"type": "rate_limit_error", "message": "slow down"}}
        loaded = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
        return [json_fault(429, busy, retry_after="0"), json_fault(529, loaded)]

    def broken_streams(self) -> list[Fault]:
        loaded = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
        start = {"id": "msg_1", "type": "message", "role": "assistant", "content": [], "model": "c",
                 "stop_reason": None, "stop_sequence": None,
                 "usage": {"input_tokens": 9, "output_tokens": 1}}  # fmt: skip
        body = sse({"type": "message_start", "message": start}, "message_start")
        return [Fault("overloaded inside", 200, STREAM, body + sse(loaded, "error"))]

    def answer(self, heard: Heard, said: list[Said], draw: random.Random) -> Fault:
        found = self._blocks(said[0], heard, draw)
        reason = {"stop": "end_turn", "tool_calls": "tool_use", "length": "max_tokens"}[
            said[0].finish
        ]
        tokens = len(said[0].raw) // 4 + 1
        usage = {"input_tokens": 9, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0,
                 "output_tokens": tokens, "service_tier": "standard"}  # fmt: skip
        message = {"id": f"msg_{draw.randrange(16**12):x}", "type": "message", "role": "assistant",
                   "model": self.model_name, "content": found, "stop_reason": reason,
                   "stop_sequence": None, "usage": usage}  # fmt: skip
        if not heard.streams:
            return Fault("whole", 200, JSON, json.dumps(message).encode())
        return Fault("stream", 200, STREAM, b"".join(self._events(message, draw)))

    def _blocks(self, said: Said, heard: Heard, draw: random.Random) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        if said.reasoning is not None:
            sign = f"EqQB{draw.randrange(16**40):x}"
            found.append({"type": "thinking", "thinking": said.reasoning, "signature": sign})
        if said.raw:
            found.append({"type": "text", "text": said.raw})
        for call in said.calls:
            id = f"toolu_01{draw.randrange(16**22):022x}"
            found.append({"type": "tool_use", "id": id, "name": call.name, "input": call.arguments})
        return found

    def _events(self, message: dict[str, Any], draw: random.Random) -> Iterator[bytes]:
        def event(kind: str, **more: Any) -> bytes:
            return sse({"type": kind, **more}, kind)

        yield event("message_start", message={**message, "content": [], "stop_reason": None})
        yield event("ping")
        for at, block in enumerate(message["content"]):
            kind = block["type"]
            empty = {"text": {"text": ""}, "thinking": {"thinking": "", "signature": ""},
                     "tool_use": {"input": {}}, "redacted_thinking": {}}[kind]  # fmt: skip
            yield event("content_block_start", index=at, content_block={**block, **empty})
            for delta in _deltas(block, draw):
                yield event("content_block_delta", index=at, delta=delta)
                if draw.random() < 0.03:
                    yield event("ping")
            yield event("content_block_stop", index=at)
        end = {"stop_reason": message["stop_reason"], "stop_sequence": None}
        yield event(
            "message_delta", delta=end, usage={"output_tokens": message["usage"]["output_tokens"]}
        )
        yield event("message_stop")


def _deltas(block: dict[str, Any], draw: random.Random) -> Iterator[dict[str, Any]]:
    kind = block["type"]
    if kind == "text":
        for piece in pieces(block["text"], draw):
            yield {"type": "text_delta", "text": piece}
    elif kind == "thinking":
        for piece in pieces(block["thinking"], draw):
            yield {"type": "thinking_delta", "thinking": piece}
        yield {"type": "signature_delta", "signature": block["signature"]}
    elif kind == "tool_use":
        text = json.dumps(block["input"], ensure_ascii=False)
        for piece in ["", *(pieces(text, draw) if block["input"] else ())]:
            yield {"type": "input_json_delta", "partial_json": piece}


class ClaudeThinking(Claude):
    """Claude, with a model that thinks when it is asked to, and begins each answer itself."""

    name = "anthropic, thinking, by litellm"
    model_name = "claude-opus-4-6"
    thinks = True


# -- thoughts that come back

PRESERVED = "https://platform.claude.com/docs/en/build-with-claude/preserved-thinking/prefix-checks"
MEMORY = Rule("thoughts", lambda asked: iter(()), (PRESERVED, THINKING), {})
"""The rule that a twin holds by what it remembers."""
THOUGHTS = ("thinking", "redacted_thinking")


def sign_of(block: dict[str, Any]) -> str:
    return str(block.get("signature") or block.get("data"))


class Remembers(ClaudeThinking):
    """Claude with a memory of its thoughts, which have to come back unchanged and in their places.

    ``returned`` counts those that came back. With ``checks_prefix`` a thought is bound to what
    stood before it: the system's text, the tools and all blocks (PRESERVED).
    """

    name = "anthropic, thinking"
    checks_prefix = False

    def __init__(self, seed: int = 0, failing: float = 0.05) -> None:
        super().__init__(seed, failing)
        self.thoughts: dict[str, tuple[dict[str, Any], str]] = {}
        self.answers: dict[str, list[dict[str, Any]]] = {}
        self.returned = 0

    def __call__(self, ask: Any) -> Fault:
        asked = Asked(ask.data, ask.path, ask.headers)
        wrong = next(self._misplaced(asked), None)
        if wrong is not None:
            refusal = Refusal(MEMORY, wrong)
            self.refused.append((refusal, asked))
            return self.refuse(refusal)
        self._before = _flat(asked)
        return super().__call__(ask)

    def _misplaced(self, asked: Asked) -> Iterator[str]:
        """What is wrong with the thoughts of *asked*, and where some are missing."""
        system, flat = _flat(asked)
        for at, (_, block) in enumerate(flat):
            if block["type"] in THOUGHTS:
                self.returned += 1
                said, prefix = self.thoughts.get(sign_of(block), ({}, ""))
                if not said:
                    yield f"{at}: Invalid `signature` in `thinking` block"
                if said != block:
                    yield (
                        f"{at}: `thinking` or `redacted_thinking` blocks in the latest assistant message "
                        "cannot be modified."
                    )
                if self.checks_prefix and prefix != _digest((system, flat[:at])):
                    yield (
                        f"{at}: Invalid `signature` in `thinking` block. The block is bound to a "
                        "different conversation."
                    )
            answer = self.answers.get(block["id"]) if block["type"] == "tool_use" else None
            if answer is not None and self._takes_thoughts(asked):
                number = [each.get("id") for each in answer].index(block["id"])
                wanted = [each["type"] for each in answer[:number]]
                kinds = [each["type"] for _, each in flat[max(0, at - number) : at]]
                begins = at - sum(kind not in THOUGHTS for kind in wanted)
                _, prefix = self.thoughts[sign_of(answer[0])]
                is_bound = self.checks_prefix and prefix != _digest((system, flat[:begins]))
                if kinds != wanted and not is_bound:
                    yield f"{at}: the blocks before the call {block['id']} are {kinds}, and were {wanted}"

    def _takes_thoughts(self, asked: Asked) -> bool:
        """True if the model may think, and what it thought belongs into the conversation."""
        return self.checks_prefix or (asked.body.get("thinking") or {}).get("type") == "enabled"

    def _blocks(self, said: Said, heard: Heard, draw: random.Random) -> list[dict[str, Any]]:
        """The blocks of an answer: a thought before each of them, or before the first one alone."""
        found, between = list[dict[str, Any]](), draw.random() < 0.4
        plain = [
            block for block in super()._blocks(said, heard, draw) if block["type"] != "thinking"
        ]
        system, flat = self._before
        for at, block in enumerate(plain):
            if said.reasoning is not None and (
                at == 0 or (between and block["type"] == "tool_use")
            ):
                thought = _thought(said.reasoning if at == 0 else "", draw)
                self.thoughts[sign_of(thought)] = (
                    thought,
                    _digest((system, [*flat, *_as_said(found)])),
                )
                found.append(thought)
            found.append(block)
        if any(block["type"] in THOUGHTS for block in found):
            self.answers |= {block["id"]: found for block in found if block["type"] == "tool_use"}
        return found


class Preserved(Remembers):
    """A model that takes a thought only behind what stood before it when it had it."""

    name = "anthropic, preserved thinking"
    model_name = "claude-fable-5-1"
    checks_prefix = True


def _thought(text: str, draw: random.Random) -> dict[str, Any]:
    sign = f"EqQB{draw.randrange(16**40):x}+/=="
    if draw.random() < 0.2:
        return {"type": "redacted_thinking", "data": sign}
    return {"type": "thinking", "thinking": text, "signature": sign}


Flat = tuple[str, list[tuple[str, dict[str, Any]]]]


def _flat(asked: Asked) -> Flat:
    """What stands before all blocks of a request, and the blocks, each with its speaker."""
    system = json.dumps([asked.body.get("system"), asked.body.get("tools")], sort_keys=True)
    found = [(message["role"], block) for message in asked.messages for block in blocks(message)]
    return _unmarked(system), [(role, {k: v for k, v in b.items() if k != "cache_control"}) for role, b in found]  # fmt: skip


def _unmarked(text: str) -> str:
    return re.sub(r'"cache_control": \{[^}]*\}(, )?', "", text)


def _as_said(found: list[dict[str, Any]]) -> list[tuple[str, dict[str, Any]]]:
    return [("assistant", block) for block in found]


def _digest(flat: Flat) -> str:
    return hashlib.sha256(json.dumps(flat, sort_keys=True).encode()).hexdigest()


__all__ = ["Claude", "ClaudeThinking", "Preserved", "Remembers"]
