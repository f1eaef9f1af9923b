"""The JSON of a message, whole or in the events of a stream, as a ``Response``.

Invariant: it is read as a chat completion that says the same, so that all interfaces agree on what
is an answer, an end, a refusal, a count and an error.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from typing import Any

from appl.backend import Chunk, Emit, Response
from appl.backend.check import MOST, TEXT, read_json
from appl.backend.http import is_error, too_long
from appl.errors import BackendError, MalformedResponse
from appl.prompt import ProviderFields, ToolCall
from appl_backends.anthropic.body import Body, prefix_of
from appl_backends.anthropic.messages import BLOCKS, PREFIX, THOUGHTS
from appl_backends.http.events import Event
from appl_backends.openai.answer import OTHER_FORM, ChatReader, another_form
from appl_backends.openai.streamed import event_data

_EACH = 32
"""The weight of an event besides its characters: many small ones take memory, too."""
_PLAIN = ("text", "tool_use")


class BlocksReader(ChatReader):
    """Reads the answers of Anthropic's interface, as a ``ChatReader`` reads chat completions.

    ``body`` is the one that asked.
    """

    body: Body | None = None
    model = ""

    def response(self, data: Any) -> Response:
        """The answer in the JSON *data*, which came with status 200. Raises ``BackendError``."""
        if not isinstance(data, dict) or not isinstance(data.get("content"), list):
            return super().response(data)
        try:
            completion = completion_of(data)
        except OTHER_FORM as error:
            raise another_form(f"{self.who} answered 200 with", error) from None
        found = super().response(completion)
        reason = _why_missed(data.get("diagnostics"))
        return found if reason is None else dataclasses.replace(found, cache_miss=reason)

    def _provided(
        self, message: dict[str, Any], calls: tuple[ToolCall, ...]
    ) -> ProviderFields | None:
        blocks = message.get(BLOCKS)
        if not blocks:
            return None
        found = {BLOCKS: blocks}
        if self.body is not None and any(block.get("type") in THOUGHTS for block in blocks):
            found[PREFIX] = prefix_of(self.request, self.model, self.body)
        return ProviderFields.of(found, self.source or self.who)


def completion_of(data: dict[str, Any]) -> dict[str, Any]:
    """The chat completion that says what the message *data* says."""
    content = data["content"]
    texts, thoughts, calls = list[str](), list[str](), list[Any]()
    for block in content:
        kind = block.get("type")
        if kind == "text":
            texts.append(block.get("text") or "")
        elif kind == "thinking":
            thoughts.append(block.get("thinking") or "")
        elif kind == "tool_use":
            function = {"name": block.get("name"), "arguments": _arguments(block.get("input"))}
            calls.append({"id": block.get("id"), "function": function})
    message: dict[str, Any] = {"role": "assistant", "content": "".join(texts)}
    if calls:
        message["tool_calls"] = calls
    if any(thoughts):
        message["reasoning"] = "\n\n".join(filter(None, thoughts))
    if (len(content) > 1 or not texts) and (kept := kept_blocks(content)):
        message[BLOCKS] = kept
    usage = data.get("usage")
    choice = {"index": 0, "message": message, "finish_reason": data.get("stop_reason")}
    return {
        "id": data.get("id"),
        "model": data.get("model"),
        "service_tier": _tier(usage),
        "usage": _usage(usage),
        "choices": [choice],
    }


def _why_missed(diagnostics: Any) -> str | None:
    """The provider's reason for which its cache was not read."""
    reason = diagnostics.get("cache_miss_reason") if isinstance(diagnostics, dict) else None
    kind = reason.get("type") if isinstance(reason, dict) else None
    return kind if isinstance(kind, str) else None


def _arguments(given: Any) -> str:
    """The arguments of a call as JSON text; those that a limit has cut stay as they came."""
    return given if isinstance(given, str) else _json({} if given is None else given)


_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def kept_blocks(content: list[Any]) -> list[dict[str, Any]] | None:
    """The blocks of an answer without texts and arguments, which stand in its message.

    ``None`` where text and calls alone say the same.
    """
    kinds = [block.get("type") for block in content]
    ordered = kinds == sorted(kinds, key=lambda kind: kind != "text")
    cites = any(block.get("citations") for block in content)
    if ordered and not cites and all(kind in _PLAIN for kind in kinds):
        return None
    return [_kept(block) for block in content]


def _kept(block: dict[str, Any]) -> dict[str, Any]:
    found = {name: value for name, value in block.items() if value is not None}
    if block.get("type") == "text":
        text = found.pop("text", "")
        return {**found, "size": len(text) if isinstance(text, str) else 0}
    if block.get("type") == "tool_use":
        return {k: v for k, v in found.items() if k not in ("id", "name", "input")}
    return found


def _usage(usage: Any) -> Any:
    """The tokens as OpenAI counts them: those of the prompt with those of the cache."""
    if not isinstance(usage, dict):
        return None
    read, written = usage.get("cache_read_input_tokens"), usage.get("cache_creation_input_tokens")
    fresh = usage.get("input_tokens")
    prompt = fresh
    if type(fresh) is int:
        prompt = fresh + sum([n for n in (read, written) if type(n) is int])
    details = usage.get("output_tokens_details")
    thought = details.get("thinking_tokens") if isinstance(details, dict) else None
    return {
        "prompt_tokens": prompt,
        "completion_tokens": usage.get("output_tokens"),
        "prompt_tokens_details": {"cached_tokens": read, "cache_write_tokens": written},
        "completion_tokens_details": {"reasoning_tokens": thought},
        "cache_creation": usage.get("cache_creation"),
    }


def _tier(usage: Any) -> Any:
    """The way of service that is billed; a price that is multiplied is another one."""
    if not isinstance(usage, dict):
        return None
    if usage.get("speed") not in (None, "standard"):
        return usage["speed"]
    geo = usage.get("inference_geo")
    if geo not in (None, "", "global", "not_available"):
        return f"in {geo}"
    return usage.get("service_tier")


class BlocksAssembly:
    """The answer that *reader* reads, from the events of a stream; *emit* gets its text."""

    def __init__(self, reader: ChatReader, emit: Emit) -> None:
        self._reader, self._emit, self._filter = reader, emit, reader.filter()
        self._data: dict[str, Any] = {}
        self._blocks: dict[int, dict[str, Any]] = {}
        self._pieces: dict[tuple[int, str], list[str]] = {}
        self._ended = self._begun = False
        self._thinking: int | None = None
        self._size = 0

    @property
    def complete(self) -> bool:
        """True if the answer has ended."""
        return self._ended or self._data.get("stop_reason") is not None

    def take(self, event: Event) -> bool:
        """Add *event*, and pass on its text; true if it was the last one."""
        reader, (kind, text) = self._reader, event
        try:
            data = event_data(text, reader)
            kind = data.get("type") or kind
            if kind == "error" or (not kind and is_error(data)):
                raise reader.error(data)
            return self._take(str(kind), data)
        except BackendError as error:
            error.worked = self._begun or error.worked
            raise
        except OTHER_FORM as error:
            raise another_form(f"{reader.who} streamed", error) from None

    def _take(self, kind: str, data: dict[str, Any]) -> bool:
        if kind == "content_block_delta":
            self._add(data["index"], data["delta"])
        elif kind == "content_block_start":
            at = data["index"]
            if type(at) is not int or not 0 <= at <= MOST:
                raise ValueError("an index that is none")
            self._blocks[at] = dict(data["content_block"])
            self._grow(len(str(data["content_block"])))
        elif kind == "message_start":
            self._data = dict(data["message"])
        elif kind == "message_delta":
            self._data |= {k: v for k, v in data["delta"].items() if v is not None}
            if isinstance(counted := data.get("usage"), dict):
                before = self._data.get("usage")
                said = {k: v for k, v in counted.items() if v is not None}
                self._data["usage"] = {**(before if isinstance(before, dict) else {}), **said}
            for name in ("diagnostics", "input_transformations"):
                if data.get(name):
                    self._data[name] = data[name]
        elif kind == "message_stop":
            self._ended = True
            return True
        return False

    def _add(self, at: int, delta: dict[str, Any]) -> None:
        """Add a piece of the block *at*."""
        kind = delta.get("type")
        if kind == "text_delta":
            self._hold(at, "text", delta["text"])
            self._say(delta["text"])
        elif kind == "thinking_delta":
            self._hold(at, "thinking", delta["thinking"])
            if self._thinking not in (None, at) and delta["thinking"]:
                self._pass_on("\n\n", "reasoning")
            if delta["thinking"]:
                self._thinking = at
            self._pass_on(delta["thinking"], "reasoning")
        elif kind == "input_json_delta":
            self._hold(at, "input", delta["partial_json"])
        elif kind == "signature_delta":
            self._hold(at, "signature", delta["signature"])
        elif kind == "citations_delta":
            block = self._blocks[at]
            block["citations"] = [*(block.get("citations") or ()), delta["citation"]]
            self._grow(len(str(delta)))

    def _hold(self, at: int, name: str, text: str) -> None:
        if type(text) is not str or at not in self._blocks:
            raise TypeError("a piece of no block")
        self._pieces.setdefault((at, name), []).append(text)
        self._grow(len(text) + _EACH)

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
        if text:
            self._begun = True
            self._emit(Chunk(self._reader.request.sample, text, kind))

    def _grow(self, more: int) -> None:
        self._size += more
        if self._size > TEXT:
            raise too_long(self._reader.who)

    def response(self) -> Response:
        """The whole answer. Raises ``MalformedResponse`` where the stream was cut off."""
        if not self.complete:
            raise MalformedResponse(
                f"{self._reader.who} ended its stream without a stop reason: the answer was cut "
                "off",
                status=200,
            )
        if self._filter is not None:
            self._pass_on(self._filter.close())
        for (at, name), pieces in self._pieces.items():
            text, block = "".join(pieces), self._blocks[at]
            if name == "input":
                block[name] = _value(text) if text.strip() else (block.get(name) or {})
            else:
                block[name] = (block.get(name) or "") + text
        content = [self._blocks[at] for at in sorted(self._blocks)]
        return self._reader.response({**self._data, "content": content})


def _value(text: str) -> Any:
    """The object that *text* says, or the text itself where a limit has cut it."""
    try:
        return read_json(text)
    except ValueError:
        return text
