"""OpenAI's ``/v1/chat/completions``, with the fields that SGLang adds to it.

Invariant: a conversation asked here gets the answer that the embedded backend gives in the
program's own process.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from aiohttp import web

from appl.backend import Request, Sampling, canonical
from appl.errors import ApplError
from appl.parts.web.events import EventStream
from appl.parts.web.refusals import Refusal, streamed
from appl.prompt import Message, Messages, ToolCall, as_message
from appl_backends.embedded.probe import TokenProbe
from appl_backends.embedded.server.fields import Fields, parsed
from appl_backends.embedded.server.jobs import EngineJob, Jobs
from appl_backends.embedded.server.sampling import (
    HOTTEST,
    MOST_PRIORITY,
    MOST_SAMPLES,
    MOST_STOPS,
    check_schema,
    grammar,
    seed,
)
from appl_backends.embedded.server.shapes import (
    check,
    content,
    head,
    matched,
    said,
    told,
    usage,
    wants_usage,
)
from appl_backends.embedded.server.special_tokens import Words
from appl_backends.embedded.task import AnswerPiece, EngineTask, SequenceRun

_FIELDS = ("role", "content", "name", "tool_calls", "tool_call_id")
_MOST_TOP = 20


class Chat:
    """The route ``/v1/chat/completions``."""

    def __init__(self, jobs: Jobs, words: Words) -> None:
        self._jobs, self._words, self._backend = jobs, words, jobs.backend

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Answer one request."""
        given = parsed(await request.read())
        check(given)
        stream, shown = given.flag("stream"), given.flag("logprobs")
        top = given.whole("top_logprobs", 0, 0, _MOST_TOP)
        asked = chat_request(given, self._words.vocab)
        begun = given.flag("continue_final_message")
        task = await self._backend.task(asked, stream=stream, begun=begun)
        task.each = stream
        if shown:
            task.probe = TokenProbe(len(task.prompt), top)
        opening = head("chat.completion.chunk" if stream else "chat.completion", "chatcmpl")
        job = EngineJob(given.text("rid") or opening["id"], task)
        if stream:
            return await self._stream(request, job, opening, wants_usage(given))
        await self._jobs.answer([job])
        choices = [self._choice(run, task) for run in task.live]
        return web.json_response({**opening, "choices": choices, **told([task])})

    def _choice(self, run: SequenceRun, task: EngineTask) -> dict[str, Any]:
        sample = run.sample()
        text = None if sample.tool_calls else sample.text
        return {
            "index": run.index,
            "message": {
                "role": "assistant",
                "content": text,
                "reasoning_content": None,
                "tool_calls": _calls(sample.tool_calls) or None,
            },
            "logprobs": self._logprobs(run, task, 0, len(run.probed)),
            "finish_reason": run.finish,
            "matched_stop": matched(run, self._words),
        }

    def _logprobs(
        self, run: SequenceRun, task: EngineTask, start: int, end: int
    ) -> dict[str, Any] | None:
        if task.probe is None:
            return None
        shown = said(run, run.probed[start:end], self._words)
        return {"content": content(shown, self._words)}

    async def _stream(
        self, request: web.Request, job: EngineJob, opening: dict[str, Any], counted: bool
    ) -> web.StreamResponse:
        sent: dict[int, int] = {}
        async with self._jobs.stream([job]) as updates, EventStream(request) as events:
            async for update in updates:
                if update.piece is None:
                    await events.send(streamed(update.refusal))
                    continue
                for choice in self._choices(job, update.piece, sent):
                    await events.send({**opening, "choices": [choice]})
            if counted:
                await events.send({**opening, "choices": [], "usage": usage([job.task])})
        return events.response

    def _choices(
        self, job: EngineJob, piece: AnswerPiece, sent: dict[int, int]
    ) -> list[dict[str, Any]]:
        """The choices to send after *piece*; *sent* counts the tokens sent of each sample."""
        run, found = job.task.live[piece.sample], []
        if piece.sample not in sent:
            found.append(_delta(run, {"role": "assistant", "content": ""}))
        start = sent.setdefault(piece.sample, 0)
        if piece.text:
            logprobs = self._logprobs(run, job.task, start, piece.tokens)
            found.append(_delta(run, {"content": piece.text}, logprobs))
            sent[piece.sample] = piece.tokens
        return found + (_ending(run, self._words) if piece.finish else [])


def _ending(run: SequenceRun, words: Words) -> list[dict[str, Any]]:
    """The last choices of a stream: its tool calls, and why it ends."""
    calls = run.sample().tool_calls
    found = [_delta(run, {"tool_calls": _calls(calls, numbered=True)})] if calls else []
    last = _delta(run, {})
    return [*found, {**last, "finish_reason": run.finish, "matched_stop": matched(run, words)}]


def _delta(
    run: SequenceRun, said: dict[str, Any], logprobs: dict[str, Any] | None = None
) -> dict[str, Any]:
    return {
        "index": run.index,
        "delta": {"reasoning_content": None, **said},
        "logprobs": logprobs,
        "finish_reason": None,
        "matched_stop": None,
    }


def _calls(calls: Sequence[ToolCall], *, numbered: bool = False) -> list[dict[str, Any]]:
    return [
        {**({"index": index} if numbered else {}), **call.as_dict()}
        for index, call in enumerate(calls)
    ]


# -- what is asked -----------------------------------------------------------------------------


def chat_request(given: Fields, vocab: int) -> Request:
    """The request that the fields of a chat completion ask for. Raises ``Refusal``."""
    most = "max_completion_tokens" if "max_completion_tokens" in given else "max_tokens"
    form = _form(given)
    sampling = Sampling(
        max_tokens=given.whole(most, 1, 1, 1 << 30) if most in given else None,
        stop=given.texts("stop", MOST_STOPS),
        temperature=_number(given, "temperature", HOTTEST),
        top_p=_number(given, "top_p", 1.0),
        seed=seed(given, "seed"),
        tools=_tools(given),
        tool_choice=_tool_choice(given),
        stop_tokens=given.tokens("stop_token_ids", vocab),
        regex=form.get("regex"),
        grammar=form.get("grammar"),
        schema=form.get("schema"),
    )
    n = given.whole("n", 1, 1, MOST_SAMPLES)
    priority = given.whole("priority", 0, -MOST_PRIORITY, MOST_PRIORITY)
    return Request("", 0, "", _messages(given), sampling, n, priority=priority)


def _number(given: Fields, name: str, high: float) -> float | None:
    return given.number(name, 0.0, 0.0, high) if name in given else None


def _messages(given: Fields) -> Messages | None:
    found = [_message(fields) for fields in given.objects("messages")]
    if not found:
        raise Refusal("Messages cannot be empty.", param="messages")
    return Messages.of(found)


def _message(given: Fields) -> Message:
    parts, calls = given.raw("content"), given.objects("tool_calls")
    if isinstance(parts, list):
        kinds = [given_part.text("type") for given_part in given.objects("content")]
        if any(kind != "text" for kind in kinds):
            raise Refusal("the embedded model takes text only", param="messages")
    for name in ("role", "name", "tool_call_id"):
        given.text(name)
    data = {name: given.raw(name) for name in _FIELDS if name in given}
    if calls and "content" not in data:
        data["content"] = ""
    try:
        message = as_message(data)
    except ApplError as error:
        raise Refusal(str(error), param="messages") from None
    for call in message.tool_calls:
        _check_arguments(call)
    return message


def _check_arguments(call: ToolCall) -> None:
    try:
        fine = isinstance(json.loads(call.arguments or "{}"), dict)
    except (ValueError, RecursionError):
        fine = False
    if not fine:
        raise Refusal(f"the arguments of tool call {call.id[:80]!r} are not a JSON object")


def _tools(given: Fields) -> tuple[str, ...]:
    return tuple(_tool(fields) for fields in given.objects("tools"))


def _tool(given: Fields) -> str:
    function = given.object("function")
    name = function.text("name") if function is not None else None
    if function is None or not name:
        raise given.wrong("function", "an object with a name")
    parameters = function.raw("parameters") or {"type": "object", "properties": {}}
    if not isinstance(parameters, dict):
        raise function.wrong("parameters", "a JSON schema")
    description = function.text("description", "") or ""
    return canonical({"name": name, "description": description, "parameters": parameters})


def _tool_choice(given: Fields) -> str | None:
    choice = given.raw("tool_choice")
    if choice is None or not given.objects("tools"):
        if choice not in (None, "auto", "none"):
            raise Refusal("Tools cannot be empty if a tool is required.", param="tool_choice")
        return None
    if isinstance(choice, str):
        if choice not in ("auto", "none", "required"):
            raise given.wrong("tool_choice", "auto, none, required or a function")
        return choice
    chosen = given.object("tool_choice")
    function = chosen.object("function") if chosen is not None else None
    name = function.text("name") if function is not None else None
    if not name:
        raise given.wrong("tool_choice", "auto, none, required or a function")
    return name


def _form(given: Fields) -> dict[str, str]:
    """The constraint of the answer, as fields of ``Sampling``."""
    found = {name: given.text(name) or "" for name in ("regex", "ebnf")}
    forms = {name: text for name, text in found.items() if text}
    wanted = given.object("response_format")
    kind = wanted.text("type") if wanted is not None else "text"
    if wanted is not None and kind == "json_schema":
        forms["schema"] = _schema(wanted)
    elif kind == "json_object":
        forms["schema"] = '{"type":"object"}'
    elif kind != "text":
        raise Refusal(f"response_format.type {kind!r} is not supported", param="response_format")
    if len(forms) > 1:
        raise Refusal("Only one of regex, ebnf and response_format can be set.")
    if "ebnf" in forms:
        forms["grammar"] = grammar(forms.pop("ebnf"))
    return forms


def _schema(wanted: Fields) -> str:
    given = wanted.object("json_schema")
    schema = given.raw("schema") if given is not None else None
    if not isinstance(schema, dict):
        raise wanted.wrong("json_schema", "an object with a schema")
    text = json.dumps(schema)
    check_schema(text)
    return text
