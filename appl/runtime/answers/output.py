"""Typed answers: an answer is read as the shape that was asked for, or asked again with the error.

Invariant: a typed answer has an object of its shape, or it fails with ``OutputError``. Functions of
the user's (validators) never run on the I/O loop.
"""

from __future__ import annotations

import asyncio
import dataclasses
import inspect
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from appl.backend import Sample
from appl.errors import InvalidOption, OutputError
from appl.runtime.answers.call import Call
from appl.runtime.answers.demand import instruction, is_wrapped, unwrapped
from appl.runtime.answers.multi_call import MultiCall, response_of, times
from appl.runtime.answers.partial import partial_reader
from appl.runtime.answers.shape import Mismatch, Shape
from appl.runtime.answers.stream import Stream
from appl.runtime.answers.text import Text
from appl.runtime.concurrency.promise import Error, Typed
from appl.runtime.event import Failed

ASKS = 3
_LONG = 1 << 14  # characters that take the loop more time than another thread


def require_check(check: object, *, typed: bool) -> None:
    """Refuse a *check* that no object can be given to. Raises ``InvalidOption``."""
    if not callable(check):
        raise InvalidOption(
            f"gen(check=...) takes a function of the answer, got {check!r:.80}; write check=f, "
            "where f(value) raises ValueError('what is wrong')"
        )
    if getattr(check, "__appl__", None) is not None or inspect.iscoroutinefunction(check):
        name = getattr(check, "__name__", repr(check))
        raise InvalidOption(
            f"gen(check={name}): a check asks no model and waits for nothing; give a plain function"
        )
    if not typed:
        raise InvalidOption(
            "gen(check=...) gets the object of a typed answer: write response_format=... with it "
            "(response_format=str for a text)"
        )


@dataclass(frozen=True, slots=True)
class _Open:
    """An answer to be read: sample *number* of *source*, which will be sample *place* of all."""

    place: int
    source: Call | MultiCall
    number: int

    @property
    def sample(self) -> Sample:
        return response_of(self.source).samples[self.number]


class Refusal(Mismatch):
    """The words with which the user's check refuses an object of the shape."""


_Read = tuple[Sample, object] | Mismatch


class TypedAnswer(MultiCall):
    """The objects of one call's samples; each sample that is none is asked again, *limit* in all.

    The prompt asks for *shape* in words, if nothing else makes the answer so; *check* is the user's
    function that may refuse an object with a ``ValueError``. A sample that calls tools is no answer
    yet: it passes as it is, with ``None`` for its object.
    """

    typed = True
    __slots__ = (
        "_asked",
        "_check",
        "_limit",
        "_objects",
        "_open",
        "_rounds",
        "_samples",
        "_wrapped",
        "shape",
    )

    def __init__(
        self,
        first: Call | MultiCall,
        shape: Shape,
        limit: int | None,
        check: Callable[[Any], object] | None,
    ) -> None:
        super().__init__(first)
        call = first.call
        call.schema = shape.schema
        if shape.schema is not None and call.sampling.schema is None:
            call.add("user", instruction(shape))
        self.shape, self._limit, self._check = shape, limit or ASKS, check
        self._wrapped = is_wrapped(shape, call.profile)
        self._rounds = self._asked = 0
        self._open = [_Open(place, first, place) for place in range(call.n)]
        self._samples: dict[int, Sample] = {}
        self._objects: dict[int, object] = {}

    @property
    def partial(self) -> Callable[[str], object]:
        """A reader for the beginning of the answer, for its stream."""
        return partial_reader(self.shape, self._wrapped)

    def step(self, round: list[Call | MultiCall]) -> None:
        samples = [entry.sample for entry in self._open]
        if (
            self.shape.calls_code
            or self._check is not None
            or self.shape.is_slow
            or sum(len(sample.text) for sample in samples) > _LONG
        ):
            # on a worker thread; meanwhile the run is not idle
            if self.run.outside.idle_detection is not None:
                self.run.outside.idle_detection.starting += 1
            reading = asyncio.get_running_loop().run_in_executor(None, self._read_all, samples)
            reading.add_done_callback(self._was_read)
        else:
            self._take(self._read_all(samples))

    def stream_more(self, sources: Sequence[Call | MultiCall], stream: Stream) -> None:
        if self._open[0].place == 0:  # a stream is that of the first sample
            super().stream_more(sources, stream)

    # -- reading

    def _read_all(self, samples: list[Sample]) -> list[_Read]:
        return [self._read(sample) for sample in samples]

    def _read(self, sample: Sample) -> _Read:
        if sample.tool_calls:
            return sample, None
        text = unwrapped(sample.text) if self._wrapped else sample.text
        cut = sample.finish_reason == "length"
        try:
            content, value = self.shape.read(text)
        except Mismatch as wrong:
            return Mismatch(f"{self._cut()}: {wrong}") if cut else wrong
        if cut and self.shape.schema is not None and content[:1] not in ("{", "["):
            return Mismatch(self._cut())
        if self._check is not None:
            try:
                self._check(value)
            except ValueError as refused:
                name = getattr(self._check, "__name__", "the check")
                return Refusal(str(refused) or f"{name} refused it")
        return dataclasses.replace(sample, text=content), value

    def _cut(self) -> str:
        most = self.call.sampling.max_tokens
        limit = "the token limit" if most is None else f"the token limit, max_tokens={most}"
        return f"it was cut by {limit}, before its end"

    def _was_read(self, reading: asyncio.Future[list[_Read]]) -> None:
        if self.run.outside.idle_detection is not None:
            self.run.outside.idle_detection.starting -= 1
            self.run.outside.idle_detection.soon()
        self.attempt(lambda: self._take(reading.result()))

    # -- what follows from it

    def _take(self, results: list[_Read]) -> None:
        wrong: list[tuple[_Open, Mismatch]] = []
        for entry, read in zip(self._open, results, strict=True):
            if isinstance(read, Mismatch):
                wrong.append((entry, read))
            else:
                self._samples[entry.place], self._objects[entry.place] = read
        self._rounds += 1
        if not wrong:
            self._complete()
        elif self._rounds < self._limit:
            self._open = [self._ask_again(entry, problem) for entry, problem in wrong]
            self.ask(*(entry.source for entry in self._open))
        else:
            self._refuse(wrong)
            self.finish(Error(self._error(*wrong[0])))

    def _refuse(self, wrong: list[tuple[_Open, Mismatch]]) -> None:
        """Report the answers that are none of the type, and are not asked for again."""
        for entry, problem in wrong:
            *_, last = entry.source.calls()
            error = self._error(entry, problem)
            at = time.monotonic_ns()
            self.run.reporter.emit(Failed(last.address, "answer", error, self.address, 0, at))

    def _complete(self) -> None:
        places = range(len(self._samples))
        response = self.total(self._samples[place] for place in places)
        objects = tuple(self._objects[place] for place in places)
        text = Text.of(self.address, response, objects=objects, tools=self.call.tools)
        self.finish(Typed(objects[0], text))

    def _ask_again(self, before: _Open, problem: Mismatch) -> _Open:
        correction = (
            f"That answer cannot be used: {problem}. Answer again, corrected, with nothing else."
        )
        self._asked += 1
        source = self.after(before.source, correction, self._asked, before.number)
        source.call.n = 1
        return _Open(before.place, source, 0)

    def _error(self, last: _Open, problem: Mismatch) -> OutputError:
        text = last.sample.text
        message = (
            f"{self.where()}: asked {times(self._rounds)} for {self.shape.name}, and the last "
            f"answer {text!r:.200} {'was refused' if isinstance(problem, Refusal) else 'is none'}: "
            f"{problem}"
        )
        return OutputError(message, text, str(problem))
