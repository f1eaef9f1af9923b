"""The JSON of a response, whole or in the events of a stream, as a ``Response``.

Invariant: it is read as a chat completion that says the same, so that both interfaces agree on what
is an answer, an end, a refusal, a count and an error.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from appl.backend import Chunk, Emit, Response
from appl.backend.check import MOST, TEXT
from appl.backend.http import is_error, too_long
from appl.errors import BackendError, MalformedResponse
from appl.prompt import ProviderFields, ToolCall
from appl_backends.http.events import Event
from appl_backends.openai.answer import OTHER_FORM, ChatReader, another_form
from appl_backends.openai.responses.items import ITEMS, kept_items
from appl_backends.openai.streamed import event_data

_EACH = 32
"""The weight of an event besides its characters: many small ones take memory, too."""
_ENDS = {"max_output_tokens": "length", "content_filter": "content_filter"}


class ItemsReader(ChatReader):
    """Reads the answers of a Responses interface, as a ``ChatReader`` reads chat completions."""

    __slots__ = ()

    def response(self, data: Any) -> Response:
        """The answer in the JSON *data*, which came with status 200. Raises ``BackendError``."""
        if not isinstance(data, dict) or not isinstance(data.get("output"), list):
            return super().response(data)
        if data.get("status") == "failed" or (data.get("error") and not data["output"]):
            raise self.error(data.get("error") or data)
        try:
            completion = completion_of(data)
        except OTHER_FORM as error:
            raise another_form(f"{self.who} answered 200 with", error) from None
        return super().response(completion)

    def _provided(
        self, message: dict[str, Any], calls: tuple[ToolCall, ...]
    ) -> ProviderFields | None:
        items = message.get(ITEMS)
        return ProviderFields.of({ITEMS: items}, self.source or self.who) if items else None


def completion_of(data: dict[str, Any]) -> dict[str, Any]:
    """The chat completion that says what the response *data* says."""
    output = data["output"]
    message: dict[str, Any] = {"role": "assistant", "content": "", "refusal": None}
    texts, refusals, calls, logprobs = list[str](), list[str](), list[Any](), list[Any]()
    for item in output:
        kind = item.get("type")
        if kind == "message":
            for part in item.get("content") or ():
                texts.append(part.get("text") or "")
                refusals.append(part.get("refusal") or "")
                logprobs += part.get("logprobs") or ()
        elif kind == "function_call":
            function = {"name": item.get("name"), "arguments": item.get("arguments")}
            calls.append({"id": item.get("call_id"), "function": function})
    message["content"] = "".join(texts)
    if any(refusals):
        message["refusal"] = "".join(refusals)
    if calls:
        message["tool_calls"] = calls
    if len(output) > 1 or not texts or output[0].get("phase"):
        if reasoning := reasoning_of(output):
            message["reasoning"] = reasoning
        if kept := kept_items(output):
            message[ITEMS] = kept
    choice: dict[str, Any] = {"index": 0, "message": message, "finish_reason": _end(data, calls)}
    if logprobs:
        choice["logprobs"] = {"content": logprobs}
    return {
        "id": data.get("id"),
        "model": data.get("model"),
        "service_tier": data.get("service_tier"),
        "usage": _usage(data.get("usage")),
        "choices": [choice],
    }


def _end(data: dict[str, Any], calls: list[Any]) -> str | None:
    status = data.get("status")
    if status == "incomplete":
        details = data.get("incomplete_details") or {}
        reason = str(details.get("reason"))
        return _ENDS.get(reason, reason)
    if status == "cancelled":
        return "cancelled"
    if status not in (None, "completed"):
        return None
    return "tool_calls" if calls else "stop"


def _usage(usage: Any) -> Any:
    if not isinstance(usage, dict):
        return None
    return {
        "prompt_tokens": usage.get("input_tokens"),
        "completion_tokens": usage.get("output_tokens"),
        "prompt_tokens_details": usage.get("input_tokens_details"),
        "completion_tokens_details": usage.get("output_tokens_details"),
    }


def reasoning_of(output: list[Any]) -> str:
    """The reasoning that is shown: the text itself where a model shows it, or else summaries."""
    found = list[str]()
    for item in output:
        if item.get("type") == "reasoning":
            parts = item.get("content") or item.get("summary") or ()
            found += [part.get("text") or "" for part in parts]
    return _BETWEEN.join(filter(None, found))


_BETWEEN = "\n\n"
"""The separator of the parts of a reasoning."""


class ItemsAssembly:
    """The answer that *reader* reads, from the events of a stream; *emit* gets its text."""

    def __init__(self, reader: ChatReader, emit: Emit) -> None:
        self._reader, self._emit, self._filter = reader, emit, reader.filter()
        self._items: dict[int, dict[str, Any]] = {}
        self._last: dict[str, Any] | None = None
        self._begun = self._emitted = False
        self._reasoned: object = None  # the part of the reasoning that was passed on last
        self._size = 0

    @property
    def complete(self) -> bool:
        """True if the answer has ended."""
        return self._last is not None

    def take(self, event: Event) -> bool:
        """Add *event*, and pass on its text; true if it was the last one."""
        kind, text = event
        if text.startswith("[DONE]"):
            return True
        reader = self._reader
        try:
            data = event_data(text, reader)
            kind = data.get("type") or kind
            if kind == "error" or (not isinstance(kind, str) and is_error(data)):
                raise reader.error(data.get("error") or data)
            return self._take(str(kind), data)
        except BackendError as error:
            error.worked = self._begun or error.worked
            raise
        except OTHER_FORM as error:
            raise another_form(f"{reader.who} streamed", error) from None

    def _take(self, kind: str, data: dict[str, Any]) -> bool:
        if kind == "response.output_text.delta" or kind == "response.refusal.delta":
            self._say(data["delta"])
        elif kind == "response.output_item.done":
            at = data.get("output_index")
            found = at if type(at) is int and 0 <= at <= MOST else len(self._items)
            self._items[found] = item = data["item"]
            self._grow(len(str(item)) if item.get("type") != "message" else 0)
        elif kind in _REASONING:
            part = tuple([data.get(n) for n in ("item_id", "summary_index", "content_index")])
            if self._reasoned not in (None, part):
                self._pass_on(_BETWEEN, "reasoning")
            self._reasoned = part
            self._pass_on(data["delta"], "reasoning")
        elif kind in _LAST:
            if not isinstance(data["response"], dict):
                raise TypeError("the last event holds no response")
            self._last = data["response"]
            return True
        return False

    def take_rest(self, events: Iterator[Event]) -> None:
        """Add what the end of the stream cut off: the last event, if that is whole."""
        for event in events:
            try:
                self.take(event)
            except MalformedResponse:
                return

    def _say(self, text: str) -> None:
        self._pass_on(text if self._filter is None else self._filter.feed(text))

    def _pass_on(self, text: str, kind: Any = "text") -> None:
        self._grow(len(text) + _EACH)
        if text:
            self._begun = True
            self._emitted |= kind == "text"
            self._emit(Chunk(self._reader.request.sample, text, kind))

    def _grow(self, more: int) -> None:
        self._size += more
        if self._size > TEXT:
            raise too_long(self._reader.who)

    def response(self) -> Response:
        """The whole answer. Raises ``MalformedResponse`` where the stream was cut off."""
        if self._last is None:
            raise MalformedResponse(
                f"{self._reader.who} ended its stream without the event of its end: the answer was "
                "cut off",
                status=200,
            )
        if self._filter is not None:
            self._pass_on(self._filter.close())
        data = self._last
        done = [self._items[at] for at in sorted(self._items)]
        output = data.get("output")
        if not isinstance(output, list) or len(output) < len(done):  # some send each item once
            data = {**data, "output": done}
        found = self._reader.response(data)
        if not self._emitted and found.samples[0].text:  # it came in one piece
            self._pass_on(found.samples[0].text)
        return found


_REASONING = ("response.reasoning_summary_text.delta", "response.reasoning_text.delta")
_LAST = ("response.completed", "response.incomplete", "response.failed", "response.cancelled")
