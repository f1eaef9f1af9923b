"""Mistral, whose published library of tokenizers has the checks of its server."""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Iterator
from typing import Any

from appl.testing import Fault

from .chat import ChatTwin, json_fault
from .hosted import root_of_schemas
from .model import Heard, Said
from .rules import QUESTION, TOOL, Asked, Rule, called, calls_in, parts_of, result, rule

CHECKS = "https://github.com/mistralai/mistral-common/blob/main/src/mistral_common/protocol/instruct/validator.py"
TYPES = "https://github.com/mistralai/client-python/blob/main/src/mistralai/models/chatcompletionrequest.py"
FIELDS = frozenset(
    """
    frequency_penalty max_tokens messages metadata model n parallel_tool_calls prediction
    presence_penalty prompt_mode random_seed reasoning_effort response_format safe_prompt stop stream
    temperature tool_choice tools top_p
""".split()
)
MESSAGES = {
    "system": {"role", "content"}, "user": {"role", "content"},
    "assistant": {"role", "content", "tool_calls", "prefix"},
    "tool": {"role", "content", "tool_call_id", "name"},
}  # fmt: skip


@rule(
    TYPES,
    "https://github.com/avante-corp/avante.nvim/issues/2347",
    "https://github.com/openai/openai-agents-python/issues/442",
    "https://github.com/editor-code-assistant/eca/issues/231",
    wrong={"stream": True, "stream_options": {"include_usage": True}},
    status=422,
)
def extra_fields(asked: Asked) -> Iterator[str]:
    for name in asked.body.keys() - FIELDS:
        yield f"body {name}"


@rule(
    "https://github.com/charmbracelet/crush/issues/1590",
    "https://github.com/BerriAI/litellm/issues/30882",
    "https://github.com/Gage-Technologies/mistral-go/pull/2",
    wrong={"messages": [{**QUESTION, "name": "Ann"}]},
    status=422,
)
def extra_fields_of_messages(asked: Asked) -> Iterator[str]:
    for at, message in enumerate(asked.messages):
        role = str(message.get("role"))
        for name in message.keys() - MESSAGES.get(role, set()):
            yield f"body messages {at} {role} {name}"


ID = re.compile(r"[a-zA-Z0-9]{9}")


@rule(
    CHECKS,
    "https://github.com/anomalyco/opencode/issues/1680",
    "https://github.com/nearai/ironclaw/issues/1241",
    wrong={"messages": [QUESTION, called("call_1"), result("call_1")]},
    type="invalid_function_call",
    code="3280",
)
def ids(asked: Asked) -> Iterator[str]:
    found = [call.get("id") for _, _, call in calls_in(asked)]
    found += [each.get("tool_call_id") for each in asked.messages if each.get("role") == "tool"]
    for id in found:
        if not ID.fullmatch(str(id)):
            yield f"Tool call id was {id} but must be a-z, A-Z, 0-9, with a length of 9."


NEXT = {
    "system": {"user", "assistant", "system"}, "user": {"assistant", "system", "user"},
    "assistant": {"assistant", "user", "tool"}, "tool": {"assistant", "tool"},
}  # fmt: skip


@rule(
    CHECKS,
    "https://github.com/pipecat-ai/pipecat-flows/issues/178",
    "https://github.com/NousResearch/hermes-agent/issues/20154",
    wrong={"messages": [QUESTION, called("abcdefghi"), result("abcdefghi"), QUESTION]},
    type="invalid_request_message_order",
    code="3230",
)
def order(asked: Asked) -> Iterator[str]:
    roles = [str(each.get("role")) for each in asked.messages]
    for before, role in itertools.pairwise(roles):
        if role not in NEXT.get(before, set()):
            yield f"Unexpected role '{role}' after role '{before}'"


@rule(
    CHECKS,
    "https://github.com/huggingface/smolagents/issues/757",
    wrong={"messages": [QUESTION, {"role": "assistant", "content": "a"}]},
    type="invalid_request_message_order",
    code="3230",
)
def last_role(asked: Asked) -> Iterator[str]:
    last = asked.messages[-1]
    if last.get("role") not in ("user", "tool") and not last.get("prefix"):
        yield (
            "Expected last role User or Tool (or Assistant with prefix True) for serving but got "
            f"{last.get('role')}"
        )
    if any(each.get("prefix") for each in asked.messages[:-1]):
        yield "Assistant message with prefix True must be last message"


@rule(CHECKS, wrong={"messages": [QUESTION, called("abcdefghi", "abcdefghj"), result("abcdefghi")]})
def number_of_results(asked: Asked) -> Iterator[str]:
    wanted = 0
    for message in asked.messages:
        if message.get("role") == "tool":
            wanted -= 1
        elif message.get("role") == "assistant":
            if wanted != 0:
                break
            wanted = len(message.get("tool_calls") or ())
    if wanted != 0:
        yield "Not the same number of function calls and responses"


@rule(
    "https://github.com/solbrowse/extension/issues/16",
    "https://github.com/OpenHands/OpenHands/issues/8685",
    wrong={"messages": [QUESTION, {"role": "assistant", "content": ""}, QUESTION]},
)
def neither_text_nor_calls(asked: Asked) -> Iterator[str]:
    for message in asked.messages:
        said = message.get("content") or message.get("tool_calls")
        if message.get("role") == "assistant" and not said:
            yield "Assistant message must have either content or tool_calls, but not none."


@rule(
    CHECKS,
    wrong={"tools": [{**TOOL, "function": {**TOOL["function"], "name": "a b"}}]},  # type: ignore[dict-item]
)
def names(asked: Asked) -> Iterator[str]:
    for tool in asked.tools:
        if not re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", tool.get("name", "")):
            yield f"Function name was {tool.get('name')} but must be a-z, A-Z, 0-9, or contain _-."


@rule(
    "https://github.com/partITech/php-mistral/issues/76",
    wrong={"tools": []},
    status=422,
)
def empty_tools(asked: Asked) -> Iterator[str]:
    if asked.body.get("tools") == []:
        yield "body tools"


class Mistral(ChatTwin):
    """Mistral.

    An answer that goes on from a prefix begins with it
    (https://github.com/SillyTavern/SillyTavern/issues/2557, https://github.com/vercel/ai/pull/3256).
    A stream has each call whole.
    """

    name = "mistral"
    model_name = "mistral-medium-latest"
    continues = True
    echoes_begun = True
    rules: tuple[Rule, ...] = (
        extra_fields, extra_fields_of_messages, ids, order, last_role, number_of_results,
        neither_text_nor_calls, names, empty_tools, root_of_schemas,
    )  # fmt: skip

    def refuse(self, refusal: Any) -> Fault:
        rule, message = refusal.rule, refusal.message
        about = {"object": "error", "type": "invalid_request_error", "param": None, "code": None}
        if rule.status == 422:
            place = message.split(" ")
            detail = {
                "type": "extra_forbidden",
                "loc": place,
                "msg": "Extra inputs are not permitted",
            }
            return json_fault(422, {**about, "message": {"detail": [detail]}})
        return json_fault(400, {**about, "message": message, **rule.about, "raw_status_code": 400})

    def failures(self) -> list[Fault]:
        busy = {"object": "error", "message": "Requests rate limit exceeded", "type": "rate_limited",
                "code": "1300"}  # fmt: skip
        loaded = {"object": "error", "message": "Service unavailable.", "type": "unavailable"}
        return [json_fault(429, busy, Retry_After="0"), json_fault(503, loaded)]

    def common(self, draw: random.Random) -> dict[str, Any]:
        return {"id": f"{draw.randrange(16**32):032x}", "created": 1, "model": self.model_name}

    def call_id(self, at: int, heard: Heard, draw: random.Random) -> str:
        letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
        return "".join(draw.choice(letters) for _ in range(9))

    def message(self, said: Said, heard: Heard, draw: random.Random) -> dict[str, Any]:
        found = super().message(said, heard, draw)
        found["content"] = said.raw
        return {"tool_calls": None, "prefix": False, **found}

    def finish(self, said: Said) -> str | None:
        return {"length": "length"}.get(said.finish, said.finish)

    def events(
        self, heard: Heard, said: list[Said], draw: random.Random
    ) -> Iterator[dict[str, Any] | bytes]:
        found = [e for e in super().events(heard, said, draw) if isinstance(e, dict)][:-1]
        found[-1]["usage"] = self.usage(said, draw)
        yield from found

    def call_pieces(
        self, said: Said, heard: Heard, draw: random.Random
    ) -> Iterator[dict[str, Any]]:
        for at, each in enumerate(said.calls):
            yield {**self.call(at, each, heard, draw), "index": at}


__all__ = ["Mistral", "parts_of"]
