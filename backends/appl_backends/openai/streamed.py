"""The samples of a streamed answer, put together from its events.

Invariant: a stream gives what the same answer gives that is not streamed; one that breaks off
before its end is no answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from appl.backend import Chunk, Emit, Response
from appl.backend.check import MOST, TEXT
from appl.backend.http import is_error, not_json, too_long
from appl.errors import BackendError, MalformedResponse
from appl_backends.http.events import Event
from appl_backends.openai.answer import (
    MESSAGE_FIELDS,
    OTHER_FORM,
    REASONING,
    ChatReader,
    another_form,
    content_text,
    json_in,
    refusal_in,
)
from appl_backends.openai.calls import CallAssembler, merge, put_together
from appl_backends.stops import TextFilter

_EACH = 32
"""The weight of a piece besides its characters: many small ones take memory, too."""
_KNOWN = MESSAGE_FIELDS.union(REASONING)
_SELDOM = tuple(_KNOWN - {"role", "content"})
"""The fields that are empty in most pieces."""


def event_data(text: str, reader: ChatReader) -> dict[str, Any]:
    """The JSON object that is the data of an event. Raises ``MalformedResponse``."""
    data = json_in(text, reader.who, reader.secrets)
    if not isinstance(data, dict):
        raise not_json(text, reader.who, secrets=reader.secrets)
    return data


class Assembly:
    """The answer that *reader* reads, from the events of a stream; *emit* gets its text."""

    def __init__(self, reader: ChatReader, emit: Emit) -> None:
        self._reader, self._emit, self._wanted = reader, emit, reader.request.n
        self._samples: dict[int, _GrowingSample] = {}
        self._data: dict[str, Any] = {}
        self._size = 0
        self._ended = self._has_first = False

    def take(self, event: Event) -> bool:
        """Add *event*, and pass on its text; true if it was the last one."""
        kind, text = event
        if text.startswith("[DONE]"):
            self._ended = True
            return True
        reader = self._reader
        try:
            data = event_data(text, reader)
            if kind == "error" or (not data.get("choices") and is_error(data)):
                raise reader.error(data)
        except BackendError as error:
            error.worked = bool(self._samples) or error.worked  # it had begun to answer
            raise
        self.take_data(data)
        return False

    def take_rest(self, events: Iterator[Event]) -> None:
        """Add what the end of the stream cut off: the last event, if that is whole."""
        for event in events:
            try:
                self.take(event)
            except MalformedResponse:
                return

    def take_data(self, data: dict[str, Any]) -> None:
        """Add the JSON object of an event."""
        for key in ("id", "model", "usage", "error", "service_tier"):
            if data.get(key):
                self._data[key] = data[key]
        try:
            for at, choice in enumerate(data.get("choices") or ()):
                self._add(at, choice)
        except BackendError as error:
            error.worked = bool(self._samples) or error.worked
            raise
        except OTHER_FORM as error:
            raise another_form(f"{self._reader.who} streamed", error) from None

    def _add(self, at: int, choice: dict[str, Any]) -> None:
        if choice.get("error"):
            raise self._reader.error(choice["error"])
        sample = self._sample(choice.get("index"), at)
        if sample is None:
            return
        before = sample.unseen
        for chunk in sample.add(choice):
            self._size += len(chunk.text) + _EACH
            self._emit(chunk)
        self._size += sample.unseen - before
        if self._size > TEXT:
            raise too_long(self._reader.who)

    def _sample(self, index: Any, at: int) -> _GrowingSample | None:
        """The sample that a choice belongs to; ``None`` for one that nobody has asked for."""
        found = index if type(index) is int and 0 <= index <= MOST else None
        if found == at == 0 and self._has_first and 0 in self._samples:
            return self._samples[0]  # as most are
        key = at if found is None else found
        if self._wanted == 1:  # whatever its number is, but for one beside that of number 0
            self._has_first = self._has_first or found == 0
            if at or (found and self._has_first):
                return None
            key = 0
        sample = self._samples.get(key)
        if sample is None and len(self._samples) < self._wanted:
            taken = {each.number for each in self._samples.values()}
            free = (number for number in range(self._wanted) if number not in taken)
            number = key if key < self._wanted and key not in taken else next(free)
            first, filter = self._reader.request.sample, self._reader.filter()
            sample = self._samples[key] = _GrowingSample(number, first, filter)
        return sample

    def forget_ends(self) -> None:
        """End the stream: its samples do not say why they ended."""
        self._ended = True
        for sample in self._samples.values():
            sample.finish = None

    @property
    def complete(self) -> bool:
        """True if the stream has ended, or every sample has its finish reason."""
        if self._ended:
            return True
        done = [each for each in self._samples.values() if each.has_finish]
        return len(done) == self._wanted

    def response(self) -> Response:
        """The whole answer. Raises ``MalformedResponse`` where the stream was cut off."""
        if not self.complete:
            begun = sum(len(each.text) for each in self._samples.values())
            raise MalformedResponse(
                f"{self._reader.who} ended its stream without a finish reason, after {begun} "
                "pieces of text: the answer was cut off",
                status=200,
            )
        samples = sorted(self._samples.values(), key=lambda sample: sample.number)
        for chunk in (chunk for sample in samples for chunk in sample.close()):
            self._emit(chunk)
        choices = [sample.choice() for sample in samples]
        return self._reader.response({**self._data, "choices": choices})


class _GrowingSample:
    """One sample of a stream: *number* of those that were asked for, from *first* on."""

    __slots__ = (
        "calls",
        "filter",
        "finish",
        "has_logprobs",
        "logprobs",
        "more",
        "number",
        "place",
        "reasoning",
        "text",
        "unseen",
    )

    def __init__(self, number: int, first: int, filter: TextFilter | None) -> None:
        self.number, self.place, self.filter = number, first + number, filter
        self.text: list[str] = []
        self.reasoning: dict[str, list[str]] = {}
        self.calls = CallAssembler()
        self.logprobs: list[Any] = []
        self.has_logprobs = False
        self.more: dict[str, Any] = {}
        self.finish: Any = None
        self.unseen = 0  # about how much it holds that no chunk tells: calls, log-probabilities

    @property
    def has_finish(self) -> bool:
        """True if it has a word for why it ended."""
        return isinstance(self.finish, str)

    def add(self, choice: dict[str, Any]) -> Iterable[Chunk]:
        """Take more of it; returns the part of that which is text."""
        delta = choice.get("delta")
        if not isinstance(delta, dict) or not delta:
            delta = self._delta(choice)
        self.finish = choice.get("finish_reason") or self.finish
        if choice.get("logprobs"):
            self._add_logprobs(choice["logprobs"])
        text = delta.get("content")
        if type(text) is str and delta.keys() <= _KNOWN and not any(map(delta.get, _SELDOM)):
            return self._chunks(text)  # as most are
        return self._chunks_of(delta)

    def _chunks(self, text: str) -> tuple[Chunk, ...]:
        """The part of *text* that may be shown already."""
        if not text:
            return ()
        self.text.append(text)
        shown = text if self.filter is None else self.filter.feed(text)
        return (Chunk(self.place, shown),) if shown else ()

    def _chunks_of(self, delta: dict[str, Any]) -> Iterator[Chunk]:
        thought = ""
        for name in REASONING:
            if isinstance(text := delta.get(name), str) and text:
                self.reasoning.setdefault(name, []).append(text)
                thought = thought or text
        if thought:
            yield Chunk(self.place, thought, "reasoning")
        yield from self._chunks(content_text(delta.get("content")))
        yield from self._chunks(refusal_in(delta))
        self._add_calls(delta)
        if merge(self.more, delta, _KNOWN):
            self.unseen += len(str(delta))

    def _delta(self, choice: dict[str, Any]) -> dict[str, Any]:
        """The new part, where a server sends a whole message, or a text, in place of it."""
        message = choice.get("message")
        if not isinstance(message, dict):
            return {"content": choice.get("text")}
        said, so_far = content_text(message.get("content")), "".join(self.text)
        self.unseen += len(so_far) >> 4  # to compare texts takes time, which has to have an end
        rest = said[len(so_far) :] if said.startswith(so_far) else said
        known = {*self.reasoning, *(("tool_calls", "function_call") if self.calls else ())}
        return {k: v for k, v in message.items() if k not in known} | {"content": rest}

    def _add_calls(self, delta: dict[str, Any]) -> None:
        for call in delta.get("tool_calls") or ():
            self.unseen += self.calls.add(call) + _EACH
        if isinstance(legacy := delta.get("function_call"), dict):
            self.unseen += self.calls.add({"index": 0, "function": legacy}) + _EACH

    def _add_logprobs(self, logprobs: Any) -> None:
        content = logprobs.get("content") if isinstance(logprobs, dict) else None
        if isinstance(content, list):
            self.has_logprobs = True
            self.logprobs += content
            self.unseen += sum(_EACH + 4 * len(each) for each in map(str, content))

    def close(self) -> Iterator[Chunk]:
        """The text that was held back."""
        if self.filter is not None and (rest := self.filter.close()):
            yield Chunk(self.place, rest)

    def choice(self) -> dict[str, Any]:
        """It as an answer that was not streamed has it."""
        message = {
            **put_together(self.more),
            **{name: "".join(pieces) for name, pieces in self.reasoning.items()},
            "content": "".join(self.text),
            "tool_calls": self.calls.calls(),
        }
        logprobs = {"content": self.logprobs} if self.has_logprobs else None
        return {
            "index": self.number,
            "message": message,
            "finish_reason": self.finish,
            "logprobs": logprobs,
        }


def beginning(begins: Callable[[], None], emit: Emit | None) -> Emit:
    """Calls *begins* when the first chunk comes, and passes all on to *emit*."""
    waiting = [begins]

    def passed(chunk: Chunk) -> None:
        if waiting:
            waiting.pop()()
        if emit is not None:
            emit(chunk)

    return passed
