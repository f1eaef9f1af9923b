"""OpenAI's Responses interface, asked without memory on the server, and a model that reasons.

What a request may hold is told by the types of the openai SDK, against which ``FaultServer`` holds
each. The twin remembers what it said: an encrypted item that comes back changed, moved, or not at
all is refused.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from typing import Any

from appl.testing import Fault

from .chat import JSON, STREAM, Twin, arguments, json_fault, sse
from .model import GO_ON, Heard, Said, pieces
from .rules import SURROGATE, Asked, Refusal, Rule, rule, texts_in

REASONING = "https://developers.openai.com/api/docs/guides/reasoning"
MIGRATE = "https://developers.openai.com/api/docs/guides/migrate-to-responses"
REFERENCE = "https://platform.openai.com/docs/api-reference/responses/create"

QUESTION = {"role": "user", "content": "hi"}
CALL = {"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"}
RESULT = {"type": "function_call_output", "call_id": "a", "output": "1"}


def items(asked: Asked) -> list[dict[str, Any]]:
    found = asked.body.get("input")
    return found if isinstance(found, list) else [{"role": "user", "content": found}]


def of_type(asked: Asked, kind: str) -> list[dict[str, Any]]:
    return [item for item in items(asked) if item.get("type") == kind]


@rule(
    MIGRATE,
    "https://github.com/openai/openai-python/pull/2679",
    wrong={"input": [QUESTION], "messages": [QUESTION]},
    code="unknown_parameter",
)
def chat_fields(asked: Asked) -> Iterator[str]:
    for name in ("messages", "response_format", "reasoning_effort", "max_tokens", "n", "seed", "stop"):  # fmt: skip
        if name in asked.body:
            yield f"Unsupported parameter: '{name}'. It has moved in the Responses API."


@rule(
    "https://github.com/earendil-works/pi/issues/6265",
    wrong={"input": [QUESTION], "max_output_tokens": 15},
    code="integer_below_min_value",
)
def few_tokens(asked: Asked) -> Iterator[str]:
    most = asked.body.get("max_output_tokens")
    if isinstance(most, int) and most < 16:
        yield (
            "Invalid 'max_output_tokens': integer below minimum value. Expected a value >= 16, but "
            f"got {most} instead."
        )


@rule(
    "https://github.com/microsoft/agent-framework-go/issues/783",
    "https://github.com/anomalyco/opencode/issues/25065",
    wrong={"input": [QUESTION, {"type": "reasoning", "id": "", "encrypted_content": "gAAAAA"}]},
)
def broken_reasoning(asked: Asked) -> Iterator[str]:
    for at, item in enumerate(items(asked)):
        if item.get("type") != "reasoning":
            continue
        if not isinstance(item.get("summary"), list):
            yield f"Missing required parameter: 'input[{at}].summary'."
        if item.get("id") == "":
            yield f"Invalid 'input[{at}].id': ''. Expected an ID that contains letters, numbers."
        if item.get("content"):
            yield f"Invalid 'input[{at}].content': array too long. Expected maximum length 0."


@rule(
    "https://github.com/vercel/ai/issues/7543",
    "https://github.com/continuedev/continue/issues/9101",
    wrong={"input": [QUESTION, {"type": "reasoning", "id": "rs_1", "summary": []}], "store": False},
)
def items_that_nobody_stored(asked: Asked) -> Iterator[str]:
    for item in of_type(asked, "reasoning"):
        if not item.get("encrypted_content"):
            yield (
                f"Item with id '{item.get('id')}' not found. Items are not persisted when `store` is "
                "set to false. Try again with `store` set to true, or remove this item from your input."
            )


@rule(
    "https://github.com/vercel/ai/issues/7099",
    wrong={"input": [QUESTION, {"type": "reasoning", "id": "rs_1", "summary": [],
                                "encrypted_content": "gAAAAA"}]},
)  # fmt: skip
def reasoning_before_nothing(asked: Asked) -> Iterator[str]:
    found = items(asked)
    for at, item in enumerate(found):
        behind = found[at + 1] if at + 1 < len(found) else {}
        is_followed = behind.get("type") in ("reasoning", "function_call", "web_search_call")
        if item.get("type") == "reasoning" and not (
            is_followed or behind.get("role") == "assistant"
        ):
            yield (
                f"Item '{item.get('id')}' of type 'reasoning' was provided without its required "
                "following item."
            )


@rule(
    "https://github.com/openai/openai-python/issues/2677",
    wrong={"input": [QUESTION, CALL]},
)
def unanswered_calls(asked: Asked) -> Iterator[str]:
    answered = {item.get("call_id") for item in of_type(asked, "function_call_output")}
    for call in of_type(asked, "function_call"):
        if call.get("call_id") not in answered:
            yield f"No tool output found for function call {call.get('call_id')}."


@rule(
    "https://github.com/openai/openai-agents-python/issues/1789",
    wrong={"input": [QUESTION, RESULT]},
)
def results_of_no_call(asked: Asked) -> Iterator[str]:
    known = set()
    for item in items(asked):
        if item.get("type") == "function_call":
            known.add(item.get("call_id"))
        if item.get("type") == "function_call_output" and item.get("call_id") not in known:
            yield f"No tool call found for function call output with call_id {item['call_id']}."


@rule(
    "https://github.com/vercel/ai/issues/5171",
    wrong={"input": [QUESTION, {**CALL, "call_id": "x" * 65}, {**RESULT, "call_id": "x" * 65}]},
    code="string_above_max_length",
)
def long_ids(asked: Asked) -> Iterator[str]:
    for at, item in enumerate(items(asked)):
        if len(str(item.get("call_id", ""))) > 64:
            yield f"Invalid 'input[{at}].call_id': string too long. Expected maximum length 64."


@rule(
    REFERENCE,
    wrong={"input": [{"role": "assistant", "content": [{"type": "input_text", "text": "a"}]}]},
    code="invalid_value",
)
def kinds_of_parts(asked: Asked) -> Iterator[str]:
    for at, item in enumerate(items(asked)):
        content = item.get("content")
        for part in content if isinstance(content, list) and item.get("role") else ():
            ours = part.get("type") in ("output_text", "refusal")
            if (item["role"] == "assistant") != ours:
                yield f"Invalid value: '{part.get('type')}' in 'input[{at}].content'."


@rule(
    "https://github.com/mem0ai/mem0/issues/3008",
    wrong={"input": [QUESTION], "text": {"format": {"type": "json_object"}}},
)
def json_without_the_word(asked: Asked) -> Iterator[str]:
    form = (asked.body.get("text") or {}).get("format") or {}
    if form.get("type") == "json_object" and "json" not in " ".join(texts_in(items(asked))).lower():
        yield (
            "Response input messages must contain the word 'json' in some form to use 'text.format' "
            "of type 'json_object'."
        )


@rule(REFERENCE, wrong={"input": [QUESTION], "tool_choice": "required"})
def choice_without_tools(asked: Asked) -> Iterator[str]:
    if asked.body.get("tool_choice") is not None and not asked.body.get("tools"):
        yield "Tool choice 'required' must be specified with 'tools' parameter."


@rule(
    "https://github.com/Aider-AI/aider/issues/3693",
    wrong={"input": [{"role": "user", "content": "\udc97"}]},
)
def half_characters(asked: Asked) -> Iterator[str]:
    if any(map(SURROGATE.search, texts_in(asked.body))):
        yield "We could not parse the JSON body of your request."


RULES: tuple[Rule, ...] = (
    chat_fields, few_tokens, broken_reasoning, items_that_nobody_stored, reasoning_before_nothing,
    unanswered_calls, results_of_no_call, long_ids, kinds_of_parts, json_without_the_word,
    choice_without_tools, half_characters,
)  # fmt: skip

MEMORY = Rule(
    "encrypted items",
    lambda asked: iter(()),
    (REASONING, "https://github.com/0xPlaygrounds/rig/issues/751"),
    {},
)
"""The rule that a twin holds by what it remembers."""


class Responses(Twin):
    """OpenAI's Responses interface, and a model that reasons.

    ``returned`` counts the items of reasoning that came back, ``outputs`` are the answers that had
    some, by the id of each item of theirs.
    """

    name = "openai responses"
    model_name = "gpt-5-mini"
    thinks = True
    rules = RULES

    def __init__(self, seed: int = 0, failing: float = 0.05) -> None:
        super().__init__(seed, failing)
        self.outputs: dict[str, list[dict[str, Any]]] = {}
        self.returned = 0

    def __call__(self, ask: Any) -> Fault:
        asked = Asked(ask.data, ask.path, ask.headers)
        wrong = next(self._misplaced(items(asked)), None)
        if wrong is not None:
            refusal = Refusal(MEMORY, wrong)
            self.refused.append((refusal, asked))
            return self.refuse(refusal)
        return super().__call__(ask)

    def _misplaced(self, found: list[dict[str, Any]]) -> Iterator[str]:
        """What is wrong with items that were said here: they stand together, in order, unchanged."""
        encrypted = {
            each["encrypted_content"]
            for output in self.outputs.values()
            for each in output
            if each["type"] == "reasoning"
        }
        for at, item in enumerate(found):
            if item.get("type") == "reasoning":
                self.returned += 1
                if item.get("encrypted_content") not in encrypted:
                    yield (
                        f"The encrypted content for item {item.get('id')} could not be verified. "
                        "Reason: Encrypted content could not be decrypted or parsed."
                    )
            key = _key(item)
            output = self.outputs.get(key) if key else None
            if output is not None:
                number = [_key(each) for each in output].index(key)
                for back in range(number + 1):
                    before = found[at - back] if at >= back else {}
                    if not _is_same(output[number - back], before):
                        yield (
                            f"Item '{item.get('id')}' of type '{item.get('type')}' was provided "
                            f"without its required 'reasoning' item: '{output[number - back]['id']}'."
                        )

    # -- how it hears

    def hear(self, asked: Asked) -> Heard:
        body = asked.body
        heard = Heard(streams=bool(body.get("stream")))
        last = ""
        for item in items(asked):
            kind = item.get("type", "message")
            if kind == "message":
                text = self._hear(item, heard)
                if item["role"] == "user" and text.startswith(GO_ON):
                    heard.begun, heard.told = last, True
                last = text
            elif kind == "function_call":
                if last != "function_call":
                    heard.step += 1
                heard.calls.append((item["name"], item["arguments"]))
                last = "function_call"
            elif kind == "function_call_output":
                output = item["output"]
                heard.texts.append(output if isinstance(output, str) else "".join(texts_in(output)))
                last = ""
        heard.tools = list(body.get("tools") or ())
        choice = body.get("tool_choice") or "auto"
        heard.choice = choice["name"] if isinstance(choice, dict) else choice
        form = (body.get("text") or {}).get("format") or {}
        heard.schema = form.get("schema")
        heard.any_object = form.get("type") == "json_object"
        return heard

    def _hear(self, item: dict[str, Any], heard: Heard) -> str:
        content = item.get("content")
        parts = [{"type": "input_text", "text": content}] if isinstance(content, str) else content
        text = "".join(part.get("text") or part.get("refusal") or "" for part in parts or ())
        heard.texts.append(text)
        heard.images += sum(part["type"] == "input_image" for part in parts or ())
        if item["role"] == "user":
            heard.note_mark(text)
        return text

    # -- how it refuses and fails

    def refuse(self, refusal: Refusal) -> Fault:
        about = {"param": "input", "code": None, **refusal.rule.about}
        error = {"message": refusal.message, "type": "invalid_request_error", **about}
        return json_fault(refusal.rule.status, {"error": error})

    def failures(self) -> list[Fault]:
        busy = {"error": {"message": "Rate limit reached", "code": "rate_limit_exceeded"}}
        inside = {"error": {"message": "The server had an error", "type": "server_error"}}
        failed = {**self._common(random.Random(0)), "status": "failed", "output": [],
                  "error": {"code": "server_error", "message": "The model failed"}}  # fmt: skip
        return [json_fault(429, busy, retry_after_ms="1"), json_fault(500, inside), json_fault(200, failed)]  # fmt: skip

    def broken_streams(self) -> list[Fault]:
        common = self._common(random.Random(0))
        begun = sse({"type": "response.created", "sequence_number": 0, "response": common}, "response.created")  # fmt: skip
        error = {"type": "error", "code": "server_error", "message": "overloaded", "param": None, "sequence_number": 1}  # fmt: skip
        failed = {"type": "response.failed", "sequence_number": 1, "response": {
            **common, "status": "failed", "error": {"code": "rate_limit_exceeded", "message": "slow down"}}}  # fmt: skip
        return [
            *super().broken_streams(),
            Fault("error inside", 200, STREAM, begun + sse(error, "error")),
            Fault("failed inside", 200, STREAM, begun + sse(failed, "response.failed")),
        ]

    # -- how it answers

    def answer(self, heard: Heard, said: list[Said], draw: random.Random) -> Fault:
        output = self._output(said[0], heard, draw)
        if any(item["type"] == "reasoning" for item in output):
            self.outputs |= {str(_key(item)): output for item in output if _key(item)}
        status = "incomplete" if said[0].finish == "length" else "completed"
        whole = {**self._common(draw), "status": status, "output": output,
                 "incomplete_details": {"reason": "max_output_tokens"} if status == "incomplete" else None,
                 "usage": self._usage(said[0])}  # fmt: skip
        if heard.streams:
            return Fault("stream", 200, STREAM, b"".join(self._events(whole, draw)))
        return Fault("whole", 200, JSON, json.dumps(whole, ensure_ascii=draw.random() < 0.5).encode())  # fmt: skip

    def _common(self, draw: random.Random) -> dict[str, Any]:
        return {
            "id": f"resp_{draw.randrange(16**20):x}", "object": "response", "created_at": 1.0,
            "model": "gpt-5-mini-2025-08-07", "status": "in_progress", "output": [], "error": None,
            "incomplete_details": None, "parallel_tool_calls": True, "tool_choice": "auto", "tools": [],
            "store": False, "service_tier": "default",
        }  # fmt: skip

    def _usage(self, said: Said) -> dict[str, Any]:
        tokens = len(said.raw) // 4 + 10
        return {
            "input_tokens": 9, "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
            "output_tokens": tokens, "output_tokens_details": {"reasoning_tokens": 7},
            "total_tokens": 9 + tokens,
        }  # fmt: skip

    def _output(self, said: Said, heard: Heard, draw: random.Random) -> list[dict[str, Any]]:
        """The items of an answer: reasoning before each part, or before the first one alone."""
        found: list[dict[str, Any]] = []
        parts: list[dict[str, Any]] = []
        if said.raw or not said.calls:
            text = {"type": "output_text", "text": said.raw, "annotations": [], "logprobs": []}
            phase = {"phase": "commentary" if said.calls else "final_answer"}
            parts.append({"type": "message", "id": f"msg_{draw.randrange(16**24):x}", "role": "assistant",
                          "status": "completed", "content": [text],
                          **(phase if draw.random() < 0.3 else {})})  # fmt: skip
        for at, call in enumerate(said.calls):
            parts.append({
                "type": "function_call", "id": f"fc_{draw.randrange(16**24):x}", "status": "completed",
                "call_id": f"call_{draw.randrange(16**20):x}_{at}", "name": call.name,
                "arguments": arguments(call, draw)})  # fmt: skip
        between = draw.random() < 0.4
        for at, part in enumerate(parts):
            if said.reasoning is not None and (at == 0 or between):
                found.append(self._reasoning(said.reasoning if at == 0 else "", draw))
            found.append(part)
        return found

    def _reasoning(self, text: str, draw: random.Random) -> dict[str, Any]:
        summary = [{"type": "summary_text", "text": text}] if text else []
        return {"type": "reasoning", "id": f"rs_{draw.randrange(16**24):x}", "summary": summary,
                "encrypted_content": f"gAAAAAB{draw.randrange(16**200):x}+/=="}  # fmt: skip

    def _events(self, whole: dict[str, Any], draw: random.Random) -> Iterator[bytes]:
        number = iter(range(10**6))

        def event(kind: str, **more: Any) -> bytes:
            return sse({"type": kind, "sequence_number": next(number), **more}, kind)

        begun = {**whole, "status": "in_progress", "output": [], "usage": None}
        yield event("response.created", response=begun)
        yield event("response.in_progress", response=begun)
        for at, item in enumerate(whole["output"]):
            place = {"output_index": at, "item_id": item["id"]}
            yield event("response.output_item.added", output_index=at, item=_begun(item))
            if item["type"] == "message":
                yield from self._text(
                    event, item["content"][0], {**place, "content_index": 0}, draw
                )
            elif item["type"] == "function_call":
                for piece in pieces(item["arguments"], draw):
                    yield event("response.function_call_arguments.delta", delta=piece, **place)
            elif item["summary"]:
                for piece in pieces(item["summary"][0]["text"], draw):
                    kind = "response.reasoning_summary_text.delta"
                    yield event(kind, delta=piece, summary_index=0, **place)
            yield event("response.output_item.done", output_index=at, item=item)
        yield event(f"response.{whole['status']}", response=whole)

    def _text(
        self, event: Any, part: dict[str, Any], place: dict[str, Any], draw: random.Random
    ) -> Iterator[bytes]:
        yield event("response.content_part.added", part={**part, "text": ""}, **place)
        for piece in pieces(part["text"], draw):
            padding = "x" * draw.randrange(12)
            yield event("response.output_text.delta", delta=piece, logprobs=[], obfuscation=padding, **place)  # fmt: skip
        yield event("response.output_text.done", text=part["text"], logprobs=[], **place)
        yield event("response.content_part.done", part=part, **place)


def _begun(item: dict[str, Any]) -> dict[str, Any]:
    """*item* as its first event shows it: an encrypted content is not whole yet."""
    empty = {"message": {"content": []}, "function_call": {"arguments": ""},
             "reasoning": {"summary": [], "encrypted_content": "gAAAAABpartial"}}  # fmt: skip
    return {**item, "status": "in_progress", **empty[item["type"]]}


def _key(item: dict[str, Any]) -> str | None:
    """What tells an item of an answer: the id of a call, or that of a message or reasoning."""
    found = item.get("call_id") if item.get("type") == "function_call" else item.get("id")
    return found if isinstance(found, str) else None


def _is_same(said: dict[str, Any], given: dict[str, Any]) -> bool:
    """True if *given* is what was *said*, but for what the program may not have back."""
    if said["type"] == "message":
        texts = "".join(part["text"] for part in said["content"])
        back = given.get("content")
        shown = "".join(part.get("text", "") for part in back) if isinstance(back, list) else None
        # A value that is no object comes wrapped into one, and the program goes on with the value.
        return given.get("phase") == said.get("phase") and shown in (texts, str(plain_value(texts)))
    if said["type"] == "function_call":
        same = re.sub(r"\s", "", said["arguments"] or "{}") == re.sub(r"\s", "", given.get("arguments", "?"))  # fmt: skip
        return same and all(given.get(name) == said[name] for name in ("type", "id", "name", "call_id"))  # fmt: skip
    return given == said


def plain_value(text: str) -> Any:
    """The text of the value that *text* wraps into an object, or *text* itself."""
    try:
        found = json.loads(text)
    except ValueError:
        return text
    if not isinstance(found, dict) or found.keys() != {"value"}:
        return text
    value = found["value"]
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


class ResponsesPlain(Responses):
    """OpenAI's Responses interface, and a model that does not reason."""

    name = "openai responses, plain"
    model_name = "gpt-4.1-mini"
    thinks = False
