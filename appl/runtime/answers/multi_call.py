"""One logical answer made of several calls: asked again, or continued, when an answer will not do.

Invariant: after the first call everything happens on the I/O loop, in rounds: the calls of a round
run side by side, and what follows is decided when all of them are done, so that the addresses and
the outcome are the same under every schedule.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import cast

from appl.backend import Response, Sample
from appl.errors import CallCancelled
from appl.prompt import USER, VOICES, Lazy, PromptNode
from appl.runtime.answers.call import Call, CallRun
from appl.runtime.answers.samples import total_of
from appl.runtime.answers.stream import Stream
from appl.runtime.answers.text import Text
from appl.runtime.concurrency.loop_thread import io_thread
from appl.runtime.concurrency.promise import Error, Promise, Value, explained, on_finish
from appl.runtime.event import Delivered


class MultiCall(Promise):
    """The answer of *first*, and of the calls that :meth:`step` finds to be needed after it.

    A subclass defines ``step`` and, where it may stand inside another series, ``again``. To the
    program and to its prompts it is one pending answer with the address of its first call.
    """

    __slots__ = ("_cancelled", "_left", "first", "round", "run", "sources", "stream")

    def __init__(self, first: Call | MultiCall) -> None:
        super().__init__(first.address, first.home)
        first.home = None  # the program is told of the whole, not of its calls
        self.run: CallRun = first.run
        self.first = first
        self.sources: list[Call | MultiCall] = []
        self.round: list[Call | MultiCall] = []
        self._left = 0
        self._cancelled = False
        self.stream: Stream | None = None

    @property
    def call(self) -> Call:
        """The very first call."""
        return self.first.call

    def begin(self) -> Call:
        """Follow the first call, and return it; on the program's thread, before it is submitted."""
        call = self.first.begin()
        self._follow([self.first])
        return call

    def stream_to(self, stream: Stream) -> None:
        """Have what comes passed on to *stream*; before the first call is submitted."""
        self.stream = stream
        self.first.stream_to(stream)

    def longer(self, address: str, node: PromptNode) -> MultiCall:
        """The same question with a longer prompt, as a series of its own."""
        raise NotImplementedError(f"{type(self).__name__} does not stand inside another series")

    # -- on the I/O loop

    def step(self, round: list[Call | MultiCall]) -> None:
        """All of *round* have answered: call :meth:`ask`, or ``finish`` with the outcome."""
        raise NotImplementedError

    def ask(self, *sources: Call | MultiCall) -> None:
        """Ask more, side by side; their addresses begin with that of the series."""
        if self.stream is not None:
            self.stream_more(sources, self.stream)
        for source in sources:
            source.begin()
        self._follow(list(sources))
        for source in sources:
            source.admit()
        if self._cancelled:
            self._abort_round()

    def stream_more(self, sources: Sequence[Call | MultiCall], stream: Stream) -> None:
        """Have *sources* streamed too, which are asked in place of what has been streamed."""
        stream.restart()
        sources[0].stream_to(stream)

    def after(
        self, before: Call | MultiCall, text: str, number: int, sample: int = 0
    ) -> Call | MultiCall:
        """The next call, which sees what sample *sample* of *before* was and the user's *text*.

        Its address is that of the series and ``ask.`` *number*.
        """
        answer = continued(before.call.trunk(), AnswerPart(before, sample))
        node = PromptNode(answer, USER, text, site=before.call.place)
        return before.longer(f"{self.address}/ask.{number}", node)

    def admit(self) -> None:
        """Hand the first call to the scheduler."""
        self.first.admit()

    def _follow(self, sources: list[Call | MultiCall]) -> None:
        self.round, self._left = sources, len(sources)
        self.sources = [*self.sources, *sources]
        for source in sources:
            on_finish(source, self._one_done)

    def _one_done(self, _: Promise) -> None:
        self._left -= 1
        if self._left or self.outcome is not None:
            return
        failed = next((s.outcome for s in self.round if isinstance(s.outcome, Error)), None)
        if failed is not None:
            self.failed(failed)
        else:
            self.attempt(partial(self.step, self.round))

    def failed(self, outcome: Error) -> None:
        """End all with the error of one of the calls."""
        self.looked = self.looked or isinstance(outcome.error, CallCancelled)
        self.finish(outcome)

    def attempt(self, action: Callable[[], None]) -> None:
        """Do *action*; its error, if any, is the outcome."""
        try:
            action()
        except BaseException as error:  # a panic in a library in Rust too, or the call never ends
            explained(error, self.where())
            self.finish(Error(error))

    def aborted(self) -> None:
        """End the running calls as cancelled, and ask for nothing after them."""
        self._cancelled = True
        self._abort_round()

    def _abort_round(self) -> None:
        for source in self.round:
            if source.outcome is None:
                source.aborted()

    # -- the whole of it

    def calls(self) -> Iterator[Call]:
        """Every call that was made for this answer."""
        for source in self.sources:
            yield from source.calls()

    def total(self, samples: Iterable[Sample]) -> Response:
        """The last response with *samples*, and with usage and cost of all calls."""
        return total_of([response_of(source) for source in self.sources], samples)

    def where(self) -> str:
        """The place of the first call in the program, for notes on errors."""
        return self.call.where()

    # -- as something to wait for

    def deliver(self) -> None:
        watcher = self.run.reporter.watcher
        if watcher is not None and not self.delivered:
            for call in self.calls():
                watcher.on_event(Delivered(call.address, time.monotonic_ns()))
        super().deliver()

    def cancel(self) -> None:
        self.looked = True
        if self.outcome is None:
            io_thread().send(self.aborted)

    def blockers(self) -> Iterable[Promise]:
        return [source for source in self.round if not source.done]

    def suspicious(self) -> bool:
        return any(source.suspicious() for source in self.round if not source.done)

    def answered_prompt(self) -> PromptNode | None:
        return self.first.answered_prompt()

    def answered_by(self) -> tuple[str, ...]:
        return tuple(address for source in self.round for address in source.answered_by())


def continued(trunk: PromptNode | None, answer: Lazy) -> PromptNode:
    """The prompt *trunk* with *answer* to it, which goes on where the assistant was speaking."""
    speaks = trunk is not None and trunk.role == "assistant"
    voice = trunk.voice if trunk is not None and speaks else VOICES["assistant"]
    return PromptNode(trunk, voice, answer, starts=False)


class AnswerPart:
    """The answer of a finished call, as a part of the prompt of the next: an edge to that call."""

    __slots__ = ("_sample", "_source")

    def __init__(self, source: Call | MultiCall, sample: int = 0) -> None:
        self._source, self._sample = source, sample

    def prompt_ready(self) -> bool:
        return self._source.done

    def prompt_text(self) -> str:
        return response_of(self._source).samples[self._sample].text

    def prompt_source(self) -> object:
        return self._source


def response_of(source: Call | MultiCall) -> Response:
    """The response of a call or series that has ended well."""
    assert isinstance(source.outcome, Value)
    return cast(Text, source.outcome.value)._response


def times(count: int) -> str:
    """The number of times in words: "once", "3 times"."""
    return "once" if count == 1 else f"{count} times"
