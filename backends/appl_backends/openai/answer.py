"""The JSON of a chat completion, whole or streamed, as a ``Response``.

Invariant: an answer has as many samples as were asked for, each with a finish reason; anything else
is an error.
"""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Iterator
from typing import Any, TypeGuard

from appl.backend import Chunk, Emit, Request, Response, Sample, TokenLogprob, Usage
from appl.backend_check import (
    TEXT,
    WrongField,
    checked,
    count_in,
    counts_in,
    number_in,
    read_json,
    text_in,
)
from appl.backend_http import Lines, error_of_payload, not_json, too_long
from appl.errors import BackendError, BackendRefused, BackendUnavailable, MalformedResponse
from appl.price import millionths
from appl.prompt import ToolCall

_FINISH = {
    "eos": "stop",
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "tool_use": "tool_calls",
    "function_call": "tool_calls",
}


def json_in(
    body: bytes | str, who: str, secrets: tuple[str, ...] = (), content_type: str = ""
) -> Any:
    """The JSON value in *body*. Raises ``MalformedResponse``."""
    try:
        return read_json(body)
    except ValueError:
        raise not_json(body, who, content_type=content_type, secrets=secrets) from None


def response_of(data: Any, request: Request, who: str, secrets: tuple[str, ...] = ()) -> Response:
    """The answer to *request* in the JSON *data*, which came with status 200.

    Raises ``BackendError``, with what was paid for.
    """
    if not isinstance(data, dict):
        raise not_json("" if data is None else json.dumps(data), who, secrets=secrets)
    try:
        choices = data.get("choices")
        if not isinstance(choices, list) or len(choices) < request.n:
            raise _too_few(data, request.n, who, secrets)
        ordered = choices[:1] if request.n == 1 else sorted(choices[: request.n], key=_index)
        samples = list[Sample]()
        for choice in ordered:
            samples.append(_sample(choice, data, who, secrets))
        usage, cost = usage_of(data.get("usage"))
        return checked(Response(tuple(samples), usage, data.get("model") or "", cost=cost))
    except BackendError as error:
        _note_usage(error, data)
        raise
    except _OTHER_FORM as error:
        malformed = _another_form(f"{who} answered 200 with", error)
    _note_usage(malformed, data)
    raise malformed


def _too_few(data: dict[str, Any], wanted: int, who: str, secrets: tuple[str, ...]) -> BackendError:
    choices = data.get("choices")
    if data.get("error") and not choices:
        return error_of_payload(data, who, secrets=secrets)
    got = len(choices) if isinstance(choices, list) else "none"
    return MalformedResponse(f"{who} answered 200 with {got} of {wanted} choices", status=200)


def _note_usage(error: BackendError, data: dict[str, Any]) -> None:
    """Let *error* say what the answer *data* has cost all the same, where that can be read."""
    with contextlib.suppress(ValueError):
        used, _ = usage_of(data.get("usage"))
        counts = used.prompt_tokens, used.completion_tokens, used.cached_tokens
        counts_in(*counts)
        if used != Usage():
            error.usage = counts


_OTHER_FORM = (AttributeError, IndexError, KeyError, OverflowError, TypeError, ValueError)


def _another_form(what: str, error: Exception) -> MalformedResponse:
    said = str(error) if isinstance(error, WrongField) else type(error).__name__
    return MalformedResponse(f"{what} JSON of another form ({said})", status=200)


def _index(choice: dict[str, Any]) -> int:
    return count_in(choice.get("index"), "index") or 0


def _sample(
    choice: dict[str, Any], data: dict[str, Any], who: str, secrets: tuple[str, ...]
) -> Sample:
    if choice.get("error"):
        raise error_of_payload(choice["error"], who, secrets=secrets)
    message = choice["message"]
    called = message.get("tool_calls")
    calls = tuple(_calls(called, text_in(data.get("id") or "", "id"))) if called else ()
    text, finish = message.get("content"), choice.get("finish_reason")
    if type(text) is not str or not text:
        text = _content(text) or text_in(message.get("refusal") or "", "refusal")
    if finish != "stop" or calls:
        finish = _finish(finish, bool(calls), who)
    reasoning = message.get("reasoning_content") or message.get("reasoning") or None
    logprobs = choice.get("logprobs")
    scored = None if logprobs is None else _logprobs(logprobs)
    return Sample(text, finish, scored, calls, reasoning)


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
        return "".join(text_in(part.get("text") or "", "text") for part in content)
    return text_in(content or "", "content")


def _calls(calls: Any, answer: str) -> Iterator[ToolCall]:
    for number, call in enumerate(calls):
        function = call["function"]
        name = call.get("id") or f"call_{answer or 'a'}_{number}"
        arguments = function.get("arguments")
        if not isinstance(arguments, str):  # some servers send the object itself
            arguments = json.dumps(arguments if arguments is not None else {})
        yield ToolCall(name, function["name"], arguments)


def _logprobs(logprobs: Any) -> tuple[TokenLogprob, ...] | None:
    content = logprobs.get("content") if isinstance(logprobs, dict) else None
    if content is None:
        return None
    return tuple(
        TokenLogprob(
            *_token(each),
            tuple(_token(top) for top in each.get("top_logprobs") or ()),
        )
        for each in content
    )


def _token(found: dict[str, Any]) -> tuple[str, float]:
    return text_in(found["token"], "token"), number_in(found["logprob"], "logprob")


def usage_of(usage: Any) -> tuple[Usage, int | None]:
    """The tokens that a server reports, and what it says they cost, in millionths.

    What it does not report is unknown: cached tokens are 0 only where it says so. The counts are
    those of the server, unchecked. Raises ``WrongField``.
    """
    if usage is None:
        return Usage(), None
    if not isinstance(usage, dict):
        raise WrongField(f"usage must be an object, got {type(usage).__name__}")
    details = usage.get("prompt_tokens_details")
    cached = details.get("cached_tokens") if isinstance(details, dict) else None
    if cached is None:
        cached = usage.get("prompt_cache_hit_tokens", usage.get("cached_tokens"))
    used, cost = Usage(usage.get("prompt_tokens"), usage.get("completion_tokens"), cached), None
    if (said := usage.get("cost")) is not None:
        cost = _cost(said)
    return used, cost


def _cost(cost: Any) -> int | None:
    """A cost in millionths. Raises ``WrongField``."""
    if not _is_amount(cost):
        raise WrongField(f"cost must be an amount of money, got {type(cost).__name__}")
    if cost > _DEAREST:
        raise WrongField("cost is larger than any amount of money")
    return count_in(millionths(cost), "cost")


def _is_amount(value: Any) -> TypeGuard[float]:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and 0 <= value < math.inf


_DEAREST = 1e12
_EACH = 32
"""What a piece counts for besides its characters: many small ones take memory, too."""


class EventParser:
    """Server-sent events from bytes as they come: the ``data`` of each that is complete."""

    __slots__ = ("_data", "_lines", "_size", "_who")

    def __init__(self, who: str = "the server") -> None:
        self._lines, self._who = Lines(who), who
        self._data: list[str] = []
        self._size = 0

    def feed(self, piece: bytes) -> Iterator[str]:
        """The events that *piece* completes."""
        for line in self._lines.feed(piece):
            line = line.removesuffix(b"\r")
            if line[:5] == b"data:":
                self._take(line[5:].removeprefix(b" ").decode("utf-8", "replace"))
            elif not line and self._data:
                event, self._size = "\n".join(self._data), 0
                self._data.clear()
                yield event

    def _take(self, line: str) -> None:
        self._size += len(line) + _EACH
        if self._size > TEXT:
            raise too_long(self._who)
        self._data.append(line)


class Assembly:
    """The samples of a streamed answer, put together from its events."""

    def __init__(self, request: Request, emit: Emit, who: str, secrets: tuple[str, ...]) -> None:
        self._request, self._emit, self._who, self._secrets = request, emit, who, secrets
        self._samples: dict[int, _Growing] = {}
        self._data: dict[str, Any] = {}
        self._size = 0

    def take(self, event: str) -> bool:
        """Add *event*, and pass on its text; whether it was the last one."""
        if event.startswith("[DONE]"):
            return True
        try:
            data = json_in(event, self._who, self._secrets)
            if not isinstance(data, dict):
                raise not_json(event, self._who, secrets=self._secrets)
            if data.get("error") and not data.get("choices"):
                raise error_of_payload(data, self._who, secrets=self._secrets)
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
        except _OTHER_FORM as error:
            raise _another_form(f"{self._who} streamed", error) from None

    def _add(self, choice: dict[str, Any]) -> None:
        if choice.get("error"):
            raise error_of_payload(choice["error"], self._who, secrets=self._secrets)
        index = _index(choice)
        if index >= self._request.n:
            raise WrongField(f"a choice beyond the {self._request.n} that were asked for")
        sample = self._samples.setdefault(index, _Growing(index))
        before = sample.unseen
        for chunk in sample.add(choice):
            self._size += len(chunk.text) + _EACH
            self._emit(Chunk(self._request.sample + index, chunk.text, chunk.kind))
        self._size += sample.unseen - before
        if self._size > TEXT:
            raise too_long(self._who)

    @property
    def complete(self) -> bool:
        """True if every sample has its finish reason."""
        done = [each for each in self._samples.values() if each.finish is not None]
        return len(done) == self._request.n

    def response(self) -> Response:
        """The whole answer. Raises ``MalformedResponse`` where the stream was cut off."""
        if not self.complete:
            begun = sum(len(each.text) for each in self._samples.values())
            raise MalformedResponse(
                f"{self._who} ended its stream without a finish reason, after {begun} pieces of "
                "text: the answer was cut off",
                status=200,
            )
        choices = [sample.choice() for sample in self._samples.values()]
        return response_of(
            {**self._data, "choices": choices}, self._request, self._who, self._secrets
        )


class _Growing:
    """One sample of a stream."""

    __slots__ = (
        "calls",
        "finish",
        "index",
        "logprobs",
        "reasoning",
        "refusal",
        "text",
        "unseen",
    )

    def __init__(self, index: int) -> None:
        self.index = index
        self.text: list[str] = []
        self.reasoning: list[str] = []
        self.refusal: list[str] = []
        self.calls: dict[int, dict[str, Any]] = {}
        self.logprobs: list[Any] | None = None
        self.finish: str | None = None
        self.unseen = 0  # about how much it holds that no chunk tells: calls, log-probabilities

    def add(self, choice: dict[str, Any]) -> Iterator[Chunk]:
        """Take more of it; what of that is text."""
        delta = choice.get("delta") or {}
        reasoning = delta.get("reasoning_content") or delta.get("reasoning")
        if isinstance(reasoning, str) and reasoning:
            self.reasoning.append(reasoning)
            yield Chunk(self.index, reasoning, "reasoning")
        for into, text in (
            (self.text, _content(delta.get("content"))),
            (self.refusal, text_in(delta.get("refusal") or "", "refusal")),
        ):
            if text:
                into.append(text)
                yield Chunk(self.index, text)
        for call in delta.get("tool_calls") or ():
            self._call(call)
        logprobs = choice.get("logprobs")
        if isinstance(logprobs, dict) and logprobs.get("content") is not None:
            self.logprobs = self.logprobs or []
            self.logprobs += logprobs["content"]
            self.unseen += sum(_EACH + 4 * len(each) for each in map(str, logprobs["content"]))
        self.finish = choice.get("finish_reason") or self.finish

    def _call(self, delta: dict[str, Any]) -> None:
        index = count_in(delta.get("index"), "index of a tool call")
        at = len(self.calls) if index is None else index
        call = self.calls.setdefault(at, {"id": "", "function": {"name": "", "arguments": ""}})
        call["id"] = call["id"] or delta.get("id") or ""
        function = delta.get("function") or {}
        call["function"]["name"] += text_in(function.get("name") or "", "name of a tool call")
        arguments = function.get("arguments")
        if arguments is not None and not isinstance(arguments, str):
            arguments = json.dumps(arguments)
        call["function"]["arguments"] += arguments or ""
        self.unseen += len(arguments or "") + _EACH

    def choice(self) -> dict[str, Any]:
        """It as an answer that was not streamed has it."""
        message = {
            "content": "".join(self.text),
            "refusal": "".join(self.refusal),
            "reasoning_content": "".join(self.reasoning),
            "tool_calls": [self.calls[at] for at in sorted(self.calls)],
        }
        logprobs = None if self.logprobs is None else {"content": self.logprobs}
        return {
            "index": self.index,
            "message": message,
            "finish_reason": self.finish,
            "logprobs": logprobs,
        }
