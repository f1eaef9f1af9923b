"""Anthropic's ``/v1/messages``, and the count of a prompt's tokens.

Invariant: a request is read as the chat completion that asks the same, so that both give the same
answer; what the embedded model does not have is refused.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import AsyncIterator, Iterator
from typing import Any

from aiohttp import web

from appl.parts.web.events import EventStream
from appl.parts.web.refusals import Refusal, anthropic_error
from appl.prompt import ToolCall
from appl_backends.embedded import MODEL
from appl_backends.embedded.server.chat import chat_request
from appl_backends.embedded.server.fields import Fields, parsed
from appl_backends.embedded.server.jobs import EngineJob, Jobs, Update
from appl_backends.embedded.server.shapes import check, matched
from appl_backends.embedded.server.special_tokens import Words
from appl_backends.embedded.task import EngineTask

_SAME = ("model", "temperature", "top_p", "max_tokens")
_CHOICES = {"auto": "auto", "any": "required", "none": "none"}
_STOPS = {"stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use"}


class MessagesRoute:
    """The routes ``/v1/messages`` and ``/v1/messages/count_tokens``."""

    def __init__(self, jobs: Jobs, words: Words) -> None:
        self._jobs, self._words, self._backend = jobs, words, jobs.backend

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Answer one request."""
        given = parsed(await request.read())
        if "max_tokens" not in given:
            raise Refusal("max_tokens: Field required", param="max_tokens")
        stream = given.flag("stream")
        task = await self._task(given, stream)
        task.each = stream
        shape = Shape(task, self._words)
        job = EngineJob(shape.id, task)
        if stream:
            return await self._stream(request, job, shape)
        await self._jobs.answer([job])
        return web.json_response(shape.whole())

    async def count(self, request: web.Request) -> web.Response:
        """The number of tokens of a prompt."""
        task = await self._task(parsed(await request.read()), False)
        return web.json_response({"input_tokens": len(task.prompt)})

    async def _task(self, given: Fields, stream: bool) -> EngineTask:
        _check(given)
        asked = chat_form(given)
        last = asked["messages"][-1] if asked["messages"] else {}
        begun = last.get("role") == "assistant" and not last.get("tool_calls")
        request = chat_request(Fields(asked), self._words.vocab)
        return await self._backend.task(request, stream=stream, begun=begun)

    async def _stream(
        self, request: web.Request, job: EngineJob, shape: Shape
    ) -> web.StreamResponse:
        async with self._jobs.stream([job]) as updates, EventStream(request, done=False) as events:
            async for kind, event in shape.events(updates):
                await events.send({"type": kind, **event}, kind)
        return events.response


class Shape:
    """One answer, as a message and as the events of a stream."""

    def __init__(self, task: EngineTask, words: Words) -> None:
        self.id = f"msg_{uuid.uuid4().hex}"
        self._task, self._words = task, words

    def whole(self) -> dict[str, Any]:
        """The finished message."""
        sample = self._task.live[0].sample()
        blocks: list[dict[str, Any]] = []
        if sample.text and not sample.tool_calls:
            blocks.append({"type": "text", "text": sample.text, "citations": None})
        blocks += [_block(call) for call in sample.tool_calls]
        return {**self._begun(), "content": blocks, **self._end(), "usage": self._usage()}

    def _begun(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "type": "message",
            "role": "assistant",
            "model": MODEL,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": {**self._usage(), "output_tokens": 0},
        }

    def _end(self) -> dict[str, Any]:
        run = self._task.live[0]
        text = matched(run, self._words)
        if run.finish == "stop" and isinstance(text, str):
            return {"stop_reason": "stop_sequence", "stop_sequence": text}
        return {"stop_reason": _STOPS.get(str(run.finish), run.finish), "stop_sequence": None}

    def _usage(self) -> dict[str, Any]:
        task = self._task
        cached = task.cached or 0
        return {
            "input_tokens": len(task.prompt) - cached,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": cached,
            "output_tokens": sum(run.generated for run in task.live),
            "service_tier": "standard",
        }

    async def events(
        self, updates: AsyncIterator[Update]
    ) -> AsyncIterator[tuple[str, dict[str, Any]]]:
        """The events of the stream."""
        yield "message_start", {"message": self._begun()}
        at, opened = 0, False
        async for update in updates:
            piece = update.piece
            if piece is None:
                yield "error", {"error": anthropic_error(update.refusal)}
                return
            if piece.text and not opened:
                opened = True
                empty = {"type": "text", "text": "", "citations": None}
                yield "content_block_start", {"index": 0, "content_block": empty}
            if piece.text:
                delta = {"type": "text_delta", "text": piece.text}
                yield "content_block_delta", {"index": 0, "delta": delta}
        if opened:
            yield "content_block_stop", {"index": 0}
            at = 1
        for index, call in enumerate(self._task.live[0].sample().tool_calls, at):
            for event in _call_events(call, index):
                yield event
        yield "message_delta", {"delta": self._end(), "usage": self._usage()}
        yield "message_stop", {}


def _block(call: ToolCall) -> dict[str, Any]:
    arguments = json.loads(call.arguments or "{}")
    return {"type": "tool_use", "id": call.id, "name": call.name, "input": arguments}


def _call_events(call: ToolCall, index: int) -> Iterator[tuple[str, dict[str, Any]]]:
    empty = {"type": "tool_use", "id": call.id, "name": call.name, "input": {}}
    yield "content_block_start", {"index": index, "content_block": empty}
    delta = {"type": "input_json_delta", "partial_json": call.arguments or "{}"}
    yield "content_block_delta", {"index": index, "delta": delta}
    yield "content_block_stop", {"index": index}


# -- what is asked -----------------------------------------------------------------------------


def _check(given: Fields) -> None:
    check(given)
    thinking = given.object("thinking")
    if thinking is not None and thinking.text("type") == "enabled":
        raise Refusal("the embedded model does not think: leave thinking out", param="thinking")


def chat_form(given: Fields) -> dict[str, Any]:
    """The fields of the chat completion that asks the same. Raises ``Refusal``."""
    found = {name: given.raw(name) for name in _SAME if name in given}
    found["messages"] = [*_system(given), *_messages(given)]
    if "stop_sequences" in given:
        found["stop"] = given.raw("stop_sequences")
    if tools := [_tool(each) for each in given.objects("tools")]:
        found["tools"] = tools
    choice = given.object("tool_choice")
    if choice is not None and tools:
        kind = choice.text("type") or ""
        named = {"type": "function", "function": {"name": choice.raw("name")}}
        found["tool_choice"] = _CHOICES.get(kind, named)
    config = given.object("output_config")
    form = config.object("format") if config is not None else given.object("output_format")
    if form is not None:
        schema = {"schema": form.raw("schema")}
        found["response_format"] = {"type": form.raw("type"), "json_schema": schema}
    return found


def _tool(given: Fields) -> dict[str, Any]:
    if given.text("type", "custom") != "custom":
        raise Refusal(
            f"this server has no tool of the type {given.text('type')!r:.40}", param="tools"
        )
    found = {name: given.raw(name) for name in ("name", "description") if name in given}
    return {"type": "function", "function": {**found, "parameters": given.raw("input_schema")}}


def _system(given: Fields) -> Iterator[dict[str, Any]]:
    system = given.raw("system")
    text = system if isinstance(system, str) else _text(given.objects("system"))
    if text:
        yield {"role": "system", "content": text}


def _messages(given: Fields) -> Iterator[dict[str, Any]]:
    for message in given.objects("messages"):
        role, content = message.text("role"), message.raw("content")
        if isinstance(content, str):
            yield {"role": role, "content": content}
        elif role == "assistant":
            yield _answer(message.objects("content"))
        else:
            yield from _question(role, message.objects("content"))


def _answer(blocks: list[Fields]) -> dict[str, Any]:
    calls = [block for block in blocks if block.text("type") == "tool_use"]
    found: dict[str, Any] = {
        "role": "assistant",
        "content": _text([block for block in blocks if block.text("type") != "tool_use"]),
    }
    if calls:
        found["tool_calls"] = [_call(block) for block in calls]
    return found


def _call(block: Fields) -> dict[str, Any]:
    arguments = json.dumps(block.raw("input") or {}, ensure_ascii=False)
    function = {"name": block.text("name"), "arguments": arguments}
    return {"id": block.text("id"), "type": "function", "function": function}


def _question(role: str | None, blocks: list[Fields]) -> Iterator[dict[str, Any]]:
    """Results of tools, each a message of its own, and what the user says with them."""
    rest = list[Fields]()
    for block in blocks:
        if block.text("type") != "tool_result":
            rest.append(block)
            continue
        content = block.raw("content")
        text = content if isinstance(content, str) else _text(block.objects("content"))
        yield {"role": "tool", "tool_call_id": block.text("tool_use_id"), "content": text}
    if rest:
        yield {"role": role, "content": _text(rest)}


def _text(blocks: list[Fields]) -> str:
    for block in blocks:
        kind = block.text("type")
        if kind in ("thinking", "redacted_thinking"):
            raise Refusal(
                "Invalid `signature` in `thinking` block: this model has thought none",
                param="messages",
            )
        if kind != "text":
            raise Refusal("the embedded model takes text only", param="messages")
    return "".join([block.text("text") or "" for block in blocks])
