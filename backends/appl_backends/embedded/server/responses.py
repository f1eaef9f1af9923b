"""OpenAI's ``/v1/responses``, without a memory: each request holds its whole conversation.

Invariant: a request is read as the chat completion that asks the same, so that both give the same
answer; what would need a memory, or another model, is refused.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import AsyncIterator, Iterator
from typing import Any

from aiohttp import web

from appl.parts.web.events import EventStream
from appl.parts.web.refusals import Refusal
from appl.prompt import ToolCall
from appl_backends.embedded import MODEL
from appl_backends.embedded.probe import TokenProbe
from appl_backends.embedded.server.chat import chat_request
from appl_backends.embedded.server.fields import Fields, parsed
from appl_backends.embedded.server.jobs import EngineJob, Jobs, Update
from appl_backends.embedded.server.shapes import check, content, said
from appl_backends.embedded.server.special_tokens import Words
from appl_backends.embedded.task import EngineTask, SequenceRun

_MEMORY = ("previous_response_id", "conversation", "prompt")
_LOGPROBS = "message.output_text.logprobs"
_SAME = ("model", "temperature", "top_p", "seed", "regex", "ebnf", "priority", "rid")
_MOST_TOP = 20


class Responses:
    """The route ``/v1/responses``."""

    def __init__(self, jobs: Jobs, words: Words) -> None:
        self._jobs, self._words, self._backend = jobs, words, jobs.backend

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Answer one request."""
        given = parsed(await request.read())
        check(given)
        _check(given)
        stream, asked = given.flag("stream"), chat_form(given)
        task = await self._backend.task(
            chat_request(Fields(asked), self._words.vocab), stream=stream, begun=False
        )
        task.each = stream
        if _LOGPROBS in (given.raw("include") or ()):
            task.probe = TokenProbe(len(task.prompt), given.whole("top_logprobs", 0, 0, _MOST_TOP))
        shape = Shape(given, task, self._words)
        job = EngineJob(shape.id, task)
        if stream:
            return await self._stream(request, job, shape)
        await self._jobs.answer([job])
        return web.json_response(shape.whole())

    async def _stream(
        self, request: web.Request, job: EngineJob, shape: Shape
    ) -> web.StreamResponse:
        async with self._jobs.stream([job]) as updates, EventStream(request, done=False) as events:
            number = 0
            async for kind, event in shape.events(updates):
                await events.send({"type": kind, "sequence_number": number, **event}, kind)
                number += 1
        return events.response


class Shape:
    """One answer, as a response and as the events of a stream."""

    def __init__(self, given: Fields, task: EngineTask, words: Words) -> None:
        self.id = f"resp_{uuid.uuid4().hex}"
        self._given, self._task, self._words = given, task, words
        self._message_id, self._created = f"msg_{uuid.uuid4().hex}", time.time()

    @property
    def _run(self) -> SequenceRun:
        return self._task.live[0]

    def whole(self) -> dict[str, Any]:
        """The finished response."""
        cut = self._run.finish == "length"
        return {
            **self._response("incomplete" if cut else "completed", list(self._items())),
            "incomplete_details": {"reason": "max_output_tokens"} if cut else None,
            "usage": self._usage(),
        }

    def _response(self, status: str, output: list[dict[str, Any]]) -> dict[str, Any]:
        given = self._given
        return {
            "id": self.id,
            "object": "response",
            "created_at": self._created,
            "status": status,
            "background": False,
            "error": None,
            "incomplete_details": None,
            "instructions": given.raw("instructions"),
            "max_output_tokens": given.raw("max_output_tokens"),
            "metadata": given.raw("metadata") or {},
            "model": MODEL,
            "output": output,
            "parallel_tool_calls": True,
            "previous_response_id": None,
            "reasoning": {"effort": None, "summary": None},
            "service_tier": "default",
            "store": False,
            "temperature": given.raw("temperature"),
            "text": given.raw("text") or {"format": {"type": "text"}},
            "tool_choice": given.raw("tool_choice") or "auto",
            "tools": given.raw("tools") or [],
            "top_p": given.raw("top_p"),
            "truncation": "disabled",
            "usage": None,
        }

    def _usage(self) -> dict[str, Any]:
        prompt, generated = len(self._task.prompt), self._run.generated
        return {
            "input_tokens": prompt,
            "input_tokens_details": {
                "cached_tokens": self._task.cached or 0,
                "cache_write_tokens": 0,
            },
            "output_tokens": generated,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": prompt + generated,
        }

    def _items(self) -> Iterator[dict[str, Any]]:
        sample = self._run.sample()
        if sample.text or not sample.tool_calls:
            yield self._message(sample.text)
        for call in sample.tool_calls:
            yield _call_item(call)

    def _message(self, text: str, status: str = "completed") -> dict[str, Any]:
        return {
            "type": "message",
            "id": self._message_id,
            "role": "assistant",
            "status": status,
            "content": [self._part(text)] if status == "completed" else [],
        }

    def _part(self, text: str) -> dict[str, Any]:
        found: dict[str, Any] = {
            "type": "output_text",
            "text": text,
            "annotations": [],
            "logprobs": [],
        }
        run = self._run
        if text and self._task.probe is not None:
            found["logprobs"] = content(said(run, run.probed, self._words), self._words)
        return found

    async def events(
        self, updates: AsyncIterator[Update]
    ) -> AsyncIterator[tuple[str, dict[str, Any]]]:
        """The events of the stream, without their numbers."""
        begun = self._response("in_progress", [])
        yield "response.created", {"response": begun}
        yield "response.in_progress", {"response": begun}
        text, place = "", {"item_id": self._message_id, "output_index": 0, "content_index": 0}
        opened = False
        async for update in updates:
            piece = update.piece
            if piece is None:
                yield "error", _error(update.refusal)
                return
            if piece.text and not opened:
                opened = True
                for event in self._opening(place):
                    yield event
            if piece.text:
                text += piece.text
                yield "response.output_text.delta", {"delta": piece.text, "logprobs": [], **place}
        for at, item in enumerate(self._items()):
            if item["type"] == "message":
                if not opened:
                    for event in self._opening(place):
                        yield event
                yield "response.output_text.done", {"text": text, "logprobs": [], **place}
                yield "response.content_part.done", {"part": item["content"][0], **place}
            else:
                for event in _call_events(item, at):
                    yield event
            yield "response.output_item.done", {"output_index": at, "item": item}
        whole = self.whole()
        yield f"response.{whole['status']}", {"response": whole}

    def _opening(self, place: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
        item = self._message("", "in_progress")
        yield "response.output_item.added", {"output_index": 0, "item": item}
        part = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
        yield "response.content_part.added", {"part": part, **place}


def _call_item(call: ToolCall) -> dict[str, Any]:
    return {
        "type": "function_call",
        "id": f"fc_{call.id.removeprefix('call_')}",
        "call_id": call.id,
        "name": call.name,
        "arguments": call.arguments or "{}",
        "status": "completed",
    }


def _call_events(item: dict[str, Any], at: int) -> Iterator[tuple[str, dict[str, Any]]]:
    place = {"item_id": item["id"], "output_index": at}
    begun = {**item, "arguments": "", "status": "in_progress"}
    yield "response.output_item.added", {"output_index": at, "item": begun}
    yield "response.function_call_arguments.delta", {"delta": item["arguments"], **place}
    done = {"arguments": item["arguments"], "name": item["name"]}
    yield "response.function_call_arguments.done", {**done, **place}


def _error(refusal: Refusal) -> dict[str, Any]:
    code = "server_error" if refusal.status >= 500 else "invalid_request_error"
    return {"code": refusal.code or code, "message": str(refusal), "param": refusal.param}


# -- what is asked -----------------------------------------------------------------------------


def _check(given: Fields) -> None:
    for name in _MEMORY:
        if given.raw(name) is not None:
            raise Refusal(
                f"{name} needs a memory, and this server keeps no responses: send the whole "
                "conversation as input",
                param=name,
            )
    given.only("background", False)
    given.only("truncation", "disabled")


def chat_form(given: Fields) -> dict[str, Any]:
    """The fields of the chat completion that asks the same. Raises ``Refusal``."""
    found = {name: given.raw(name) for name in _SAME if name in given}
    found["messages"] = list(_messages(given))
    if "max_output_tokens" in given:
        found["max_tokens"] = given.raw("max_output_tokens")
    if tools := [_tool(each) for each in given.objects("tools")]:
        found["tools"] = tools
    choice = given.raw("tool_choice")
    if isinstance(choice, dict):
        choice = {"type": "function", "function": {"name": choice.get("name")}}
    if choice is not None and (tools or choice != "auto"):
        found["tool_choice"] = choice
    text = given.object("text")
    form = text.object("format") if text is not None else None
    if form is not None:
        kind = form.text("type", "text") or "text"
        found["response_format"] = {"type": kind, "json_schema": {"schema": form.raw("schema")}}
    return found


def _tool(given: Fields) -> dict[str, Any]:
    if given.text("type") != "function":
        raise Refusal(
            f"this server has no tool of the type {given.text('type')!r:.40}, only functions",
            param="tools",
        )
    names = ("name", "description", "parameters")
    return {"type": "function", "function": {n: given.raw(n) for n in names if n in given}}


def _messages(given: Fields) -> Iterator[dict[str, Any]]:
    """The messages of the conversation; an answer's text and calls are one of them."""
    instructions = given.text("instructions")
    if instructions:
        yield {"role": "system", "content": instructions}
    asked = given.raw("input")
    if isinstance(asked, str):
        yield {"role": "user", "content": asked}
        return
    open_message: dict[str, Any] | None = None
    for item in given.objects("input"):
        kind = item.text("type", "message")
        if kind == "function_call":
            if open_message is None or open_message["role"] != "assistant":
                if open_message is not None:
                    yield open_message
                open_message = {"role": "assistant", "content": "", "tool_calls": []}
            open_message.setdefault("tool_calls", []).append(_call(item))
            continue
        if open_message is not None:
            yield open_message
        open_message = _message(item, kind)
    if open_message is not None:
        yield open_message


def _call(item: Fields) -> dict[str, Any]:
    function = {"name": item.text("name"), "arguments": item.text("arguments") or "{}"}
    return {"id": item.text("call_id"), "type": "function", "function": function}


def _message(item: Fields, kind: str | None) -> dict[str, Any]:
    if kind == "function_call_output":
        output = item.raw("output")
        text = output if isinstance(output, str) else _text(item, "output")
        return {"role": "tool", "tool_call_id": item.text("call_id"), "content": text}
    if kind == "reasoning":
        raise Refusal(
            f"The encrypted content for item {item.text('id')} could not be verified: this model "
            "gives none",
            param="input",
            code="invalid_encrypted_content",
        )
    if kind != "message":
        raise Refusal(f"an item of the type {kind!r:.40} is not supported", param="input")
    written = item.raw("content")
    text = written if isinstance(written, str) else _text(item, "content")
    return {"role": item.raw("role"), "content": text}


def _text(item: Fields, name: str) -> str:
    parts = item.objects(name)
    if any(part.text("type") not in _TEXTS for part in parts):
        raise Refusal("the embedded model takes text only", param="input")
    return "".join([part.text("text") or part.text("refusal") or "" for part in parts])


_TEXTS = ("input_text", "output_text", "text", "refusal")
