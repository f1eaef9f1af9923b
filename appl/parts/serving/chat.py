"""A function as a model for OpenAI's clients: ``/v1/chat/completions`` and ``/v1/models``.

Invariant: the answer is the function's result, as text; nothing that a client asks for is answered
as if it had been done.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from appl.parts.serving.functions import ServedFunction
from appl.parts.serving.journal import read
from appl.parts.serving.served_run import ServedRun
from appl.parts.web.refusals import Refusal

_REFUSED = {
    "tools": "the function calls its own tools",
    "functions": "the function calls its own tools",
    "audio": "the answer is text",
    "logprobs": "a function has no log-probabilities",
}


def asked(body: Mapping[str, Any], functions: Mapping[str, ServedFunction]) -> ServedFunction:
    """The function that *body* names as its model. Raises ``Refusal``."""
    name = body.get("model")
    function = functions.get(name) if isinstance(name, str) else None
    known = [each.name for each in functions.values() if each.chat]
    if function is None or function.chat is None:
        raise Refusal(
            f"there is no model {name!r:.80}; the functions of one text here are: "
            f"{', '.join(known) or 'none'}",
            404,
            param="model",
            code="model_not_found",
        )
    if body.get("n") not in (None, 1):
        raise Refusal("one answer is given: leave n out", param="n")
    for field, reason in _REFUSED.items():
        if body.get(field):
            raise Refusal(f"{field} cannot be had here: {reason}", param=field)
    return function


def arguments(body: Mapping[str, Any], function: ServedFunction) -> dict[str, Any]:
    """The arguments of *function* for the conversation in *body*. Raises ``Refusal``."""
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        raise Refusal("messages must be a list of at least one message", param="messages")
    for message in messages:
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            raise Refusal("a message is an object with role and content", param="messages")
    assert function.chat is not None
    if function.takes_messages:
        return {function.chat: messages}
    last = messages[-1]
    if last["role"] != "user":
        raise Refusal("the last message must be the user's", param="messages")
    return {function.chat: _text(last.get("content"))}


def _text(content: object) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, list) and all(
        isinstance(part, dict) and part.get("type") == "text" and isinstance(part.get("text"), str)
        for part in content
    ):
        return "".join(part["text"] for part in content)
    raise Refusal("the content of a message is text here", param="messages")


def head(run: ServedRun, *, chunk: bool) -> dict[str, Any]:
    """The fields that begin an answer, or a piece of one."""
    kind = "chat.completion.chunk" if chunk else "chat.completion"
    return {
        "id": f"chatcmpl-{run.name}",
        "object": kind,
        "created": time.time_ns() // 10**9,
        "model": run.function.name,
    }


def answer(run: ServedRun) -> dict[str, Any]:
    """The answer of a run that finished."""
    message = {"role": "assistant", "content": text_of(run), "refusal": None}
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}
    return {**head(run, chunk=False), "choices": [choice], "usage": usage(run)}


def usage(run: ServedRun) -> dict[str, int]:
    """The tokens of all calls of *run*."""
    used = read(run.usage or "{}")
    given, made = used.get("prompt_tokens", 0), used.get("completion_tokens", 0)
    return {"prompt_tokens": given, "completion_tokens": made, "total_tokens": given + made}


def delta(run: ServedRun, said: Mapping[str, Any], finish: str | None = None) -> dict[str, Any]:
    """A piece of an answer."""
    choice = {"index": 0, "delta": dict(said), "logprobs": None, "finish_reason": finish}
    return {**head(run, chunk=True), "choices": [choice]}


def text_of(run: ServedRun) -> str:
    """The result of a run that finished: a text, or anything else as JSON."""
    assert run.value is not None
    value = read(run.value)
    return value if isinstance(value, str) else run.value


def refusal(run: ServedRun) -> Refusal:
    """Why a run has no answer."""
    data = run.as_data()
    if run.state == "waiting":
        waits = "; ".join(f"{each['text']} ({each['address']})" for each in data["waits"])
        text = f"the run {run.name} waits for: {waits}. GET /runs/{run.name} has its answer later"
        return Refusal(text, 422, code="run_waiting")
    if run.state == "interrupted":
        text = f"the server is stopping; GET /runs/{run.name} has the answer when it is back"
        return Refusal(text, 503, code="stopping", retry_after=5)
    error = data.get("error", {})
    text = f"{error.get('type')}: {error.get('message')} (run {run.name})"
    return Refusal(text, run.status, code=error.get("code"))


def models(functions: Mapping[str, ServedFunction]) -> dict[str, Any]:
    """The functions that can be asked, as a list of models."""
    cards = [card(each) for each in functions.values() if each.chat or each.embeds]
    return {"object": "list", "data": cards}


def card(function: ServedFunction) -> dict[str, Any]:
    """The entry of *function* in the list of models."""
    return {"id": function.name, "object": "model", "created": 0, "owned_by": "appl"}
