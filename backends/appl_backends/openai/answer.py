"""The JSON of a chat completion, whole or streamed, as a ``Response``.

Invariant: an answer has as many samples as were asked for, each with a finish reason; anything else
is an error.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any, TypeGuard

from appl.backend import Chunk, Emit, Request, Response, Sample, TokenLogprob, Usage
from appl.backend_http import error_of_payload, not_json
from appl.errors import BackendError, BackendRefused, BackendUnavailable, MalformedResponse
from appl.price import millionths
from appl.prompt import ToolCall

_FINISH = {
    "eos": "stop", "end_turn": "stop", "stop_sequence": "stop", "max_tokens": "length",
    "tool_use": "tool_calls", "function_call": "tool_calls",
}  # fmt: skip


def response_of(
    body: bytes,
    request: Request,
    who: str,
    *,
    content_type: str = "",
    secrets: tuple[str, ...] = (),
) -> Response:
    """The answer to *request* in *body*, which came with status 200. Raises ``BackendError``."""
    data = _object(body, who, content_type, secrets)
    return response_of_data(data, request, who, secrets)


def _object(body: bytes | str, who: str, content_type: str, secrets: tuple[str, ...]) -> Any:
    try:
        data = json.loads(body)
    except (ValueError, RecursionError):
        data = None
    if not isinstance(data, dict):
        raise not_json(body, who, content_type=content_type, secrets=secrets)
    if data.get("error") and not data.get("choices"):
        raise error_of_payload(data, who, secrets=secrets)
    return data


def response_of_data(
    data: dict[str, Any], request: Request, who: str, secrets: tuple[str, ...]
) -> Response:
    """The answer in the JSON object *data*. Raises ``BackendError``, with what was paid for."""
    try:
        return _response(data, request, who, secrets)
    except BackendError as error:
        used, _ = usage_of(data.get("usage"))
        if used != Usage():
            error.usage = (used.prompt_tokens, used.completion_tokens, used.cached_tokens)
        raise


def _response(
    data: dict[str, Any], request: Request, who: str, secrets: tuple[str, ...]
) -> Response:
    choices = data.get("choices")
    if not isinstance(choices, list) or len(choices) < request.n:
        got = len(choices) if isinstance(choices, list) else "none"
        raise MalformedResponse(f"{who} answered 200 with {got} of {request.n} choices", status=200)
    try:
        ordered = sorted(choices[: request.n], key=lambda choice: choice.get("index", 0))
        samples = tuple(_sample(choice, data, who, secrets) for choice in ordered)
        usage, cost = usage_of(data.get("usage"))
    except BackendError:
        raise
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise MalformedResponse(
            f"{who} answered 200 with JSON of another form ({type(error).__name__}: {error})",
            status=200,
        ) from None
    return Response(samples, usage, str(data.get("model") or ""), cost=cost)


def _sample(
    choice: dict[str, Any], data: dict[str, Any], who: str, secrets: tuple[str, ...]
) -> Sample:
    if choice.get("error"):
        raise error_of_payload(choice["error"], who, secrets=secrets)
    message = choice["message"]
    calls = tuple(_calls(message.get("tool_calls") or (), str(data.get("id") or "")))
    text = _content(message.get("content")) or message.get("refusal") or ""
    finish = _finish(choice.get("finish_reason"), bool(calls), who)
    reasoning = message.get("reasoning_content") or message.get("reasoning") or None
    return Sample(
        text, finish, _logprobs(choice.get("logprobs")), calls,
        reasoning if isinstance(reasoning, str) else None,
    )  # fmt: skip


def _finish(reason: Any, calls: bool, who: str) -> str:
    if not isinstance(reason, str) or not reason:
        raise MalformedResponse(
            f"{who} answered without a finish reason: the answer was cut off", status=200
        )
    if reason == "content_filter":
        raise BackendRefused(
            f"{who}: its content filter stopped the answer", status=200, worked=True
        )
    if reason in ("error", "abort"):
        raise BackendUnavailable(f"{who} gave up while it answered ({reason})", status=200)
    reason = _FINISH.get(reason, reason)
    return "tool_calls" if calls and reason == "stop" else reason


def _content(content: Any) -> str:
    """The text of a message, which some servers send as a list of parts."""
    if isinstance(content, list):
        return "".join(str(part.get("text") or "") for part in content)
    if content is not None and not isinstance(content, str):
        raise TypeError(f"content is {content!r:.40}")
    return content or ""


def _calls(calls: Any, answer: str) -> Iterator[ToolCall]:
    for number, call in enumerate(calls):
        function = call["function"]
        arguments = function.get("arguments")
        if not isinstance(arguments, str):  # some servers send the object itself
            arguments = json.dumps(arguments if arguments is not None else {})
        yield ToolCall(
            call.get("id") or f"call_{answer or 'a'}_{number}", function["name"], arguments
        )


def _logprobs(logprobs: Any) -> tuple[TokenLogprob, ...] | None:
    content = logprobs.get("content") if isinstance(logprobs, dict) else None
    if content is None:
        return None
    return tuple(
        TokenLogprob(
            each["token"], float(each["logprob"]),
            tuple((top["token"], float(top["logprob"])) for top in each.get("top_logprobs") or ()),
        )
        for each in content
    )  # fmt: skip


def usage_of(usage: Any) -> tuple[Usage, int | None]:
    """The tokens that a server reports, and what it says they cost, in millionths.

    What it does not report is unknown: cached tokens are 0 only where it says so.
    """
    if not isinstance(usage, dict):
        return Usage(), None
    details = usage.get("prompt_tokens_details")
    cached = details.get("cached_tokens") if isinstance(details, dict) else None
    if cached is None:
        cached = usage.get("prompt_cache_hit_tokens", usage.get("cached_tokens"))
    cost = usage.get("cost")
    return (
        Usage(_count(usage.get("prompt_tokens")), _count(usage.get("completion_tokens")),
              _count(cached)),
        millionths(cost) if _is_amount(cost) else None,
    )  # fmt: skip


def _is_amount(value: Any) -> TypeGuard[float]:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and 0 <= value < math.inf


def _count(value: Any) -> int | None:
    number = isinstance(value, int) and not isinstance(value, bool)
    return value if number and value >= 0 else None


class Events:
    """Server-sent events from bytes as they come: the ``data`` of each that is complete."""

    __slots__ = ("_data", "_rest")

    def __init__(self) -> None:
        self._rest = b""
        self._data: list[str] = []

    def feed(self, piece: bytes) -> Iterator[str]:
        """The events that *piece* completes."""
        *lines, self._rest = (self._rest + piece).split(b"\n")
        for line in lines:
            line = line.removesuffix(b"\r")
            if line[:5] == b"data:":
                self._data.append(line[5:].removeprefix(b" ").decode("utf-8", "replace"))
            elif not line and self._data:
                event = "\n".join(self._data)
                self._data.clear()
                yield event


class Assembly:
    """The samples of a streamed answer, put together from its events."""

    def __init__(self, request: Request, emit: Emit, who: str, secrets: tuple[str, ...]) -> None:
        self._request, self._emit, self._who, self._secrets = request, emit, who, secrets
        self._samples: dict[int, _Growing] = {}
        self._data: dict[str, Any] = {}

    def take(self, event: str) -> bool:
        """Add *event*, and pass on its text; whether it was the last one."""
        if event.startswith("[DONE]"):
            return True
        try:
            data = _object(event, self._who, "", self._secrets)
        except BackendError as error:
            error.worked = bool(self._samples) or error.worked  # it had begun to answer
            raise
        self.take_data(data)
        return False

    def take_data(self, data: dict[str, Any]) -> None:
        """Add the JSON object of an event."""
        for key in ("id", "model", "usage"):
            if data.get(key):
                self._data[key] = data[key]
        try:
            for choice in data.get("choices") or ():
                self._add(choice)
        except BackendError as error:
            error.worked = bool(self._samples) or error.worked
            raise
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise MalformedResponse(
                f"{self._who} streamed JSON of another form ({type(error).__name__}: {error})",
                status=200,
            ) from None

    def _add(self, choice: dict[str, Any]) -> None:
        if choice.get("error"):
            raise error_of_payload(choice["error"], self._who, secrets=self._secrets)
        index = choice.get("index", 0)
        if not 0 <= index < self._request.n:
            raise ValueError(f"choice {index} of {self._request.n}")
        sample = self._samples.setdefault(index, _Growing(index))
        for chunk in sample.add(choice):
            self._emit(Chunk(self._request.sample + index, chunk.text, chunk.kind))

    @property
    def complete(self) -> bool:
        """Whether every sample has its finish reason."""
        done = [each for each in self._samples.values() if each.finish is not None]
        return len(done) == self._request.n

    def response(self) -> Response:
        """The whole answer. Raises ``MalformedResponse`` where the stream was cut off."""
        if not self.complete:
            begun = sum(len(each.text) for each in self._samples.values())
            raise MalformedResponse(
                f"{self._who} ended its stream without a finish reason, after {begun} pieces of "
                "text: the answer was cut off", status=200,
            )  # fmt: skip
        choices = [sample.choice() for sample in self._samples.values()]
        return response_of_data(
            {**self._data, "choices": choices}, self._request, self._who, self._secrets
        )


class _Growing:
    """One sample of a stream."""

    __slots__ = ("calls", "finish", "index", "logprobs", "reasoning", "refusal", "text")

    def __init__(self, index: int) -> None:
        self.index = index
        self.text: list[str] = []
        self.reasoning: list[str] = []
        self.refusal: list[str] = []
        self.calls: dict[int, dict[str, Any]] = {}
        self.logprobs: list[Any] | None = None
        self.finish: str | None = None

    def add(self, choice: dict[str, Any]) -> Iterator[Chunk]:
        """Take more of it; what of that is text."""
        delta = choice.get("delta") or {}
        reasoning = delta.get("reasoning_content") or delta.get("reasoning")
        if isinstance(reasoning, str) and reasoning:
            self.reasoning.append(reasoning)
            yield Chunk(self.index, reasoning, "reasoning")
        for into, text in (
            (self.text, _content(delta.get("content"))),
            (self.refusal, delta.get("refusal") or ""),
        ):
            if text:
                into.append(text)
                yield Chunk(self.index, text)
        for call in delta.get("tool_calls") or ():
            self._call(call)
        logprobs = choice.get("logprobs")
        if isinstance(logprobs, dict) and logprobs.get("content") is not None:
            self.logprobs = [*(self.logprobs or ()), *logprobs["content"]]
        self.finish = choice.get("finish_reason") or self.finish

    def _call(self, delta: dict[str, Any]) -> None:
        index = delta.get("index")
        at = index if isinstance(index, int) else len(self.calls)
        call = self.calls.setdefault(at, {"id": "", "function": {"name": "", "arguments": ""}})
        call["id"] = call["id"] or delta.get("id") or ""
        function = delta.get("function") or {}
        call["function"]["name"] += function.get("name") or ""
        arguments = function.get("arguments")
        if arguments is not None and not isinstance(arguments, str):
            arguments = json.dumps(arguments)
        call["function"]["arguments"] += arguments or ""

    def choice(self) -> dict[str, Any]:
        """It as an answer that was not streamed has it."""
        message = {
            "content": "".join(self.text), "refusal": "".join(self.refusal),
            "reasoning_content": "".join(self.reasoning),
            "tool_calls": [self.calls[at] for at in sorted(self.calls)],
        }  # fmt: skip
        logprobs = None if self.logprobs is None else {"content": self.logprobs}
        return {"index": self.index, "message": message, "finish_reason": self.finish,
                "logprobs": logprobs}  # fmt: skip
