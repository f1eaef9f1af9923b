"""Streams: an answer piece by piece while it is made, for any number of readers.

Invariant: a piece is appended once, on the I/O loop, and never changed; what programs of the home
hub see of a stream grows by deliveries alone, which are recorded. Nothing is dropped and the model
is never slowed down: what nobody has read yet is kept, and it is no more than the answer itself.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from typing import Any, Final, Generic, Literal, NamedTuple, TypeVar, cast

from appl.errors import RunError
from appl.runtime.answers.answer import Answer
from appl.runtime.answers.feed import Feed, Kind
from appl.runtime.concurrency.cancelled_waits import (
    clear_when_cancelled,
    note_abandoned_wait,
    unread,
)
from appl.runtime.concurrency.fiber import Hub, arrive, hub_here, strand_here, wait
from appl.runtime.concurrency.loop_thread import task_here
from appl.runtime.concurrency.promise import AnswerStream, Error, Promise, Proxy, Value
from appl.runtime.event import ChunksDelivered
from appl.runtime.reporter import Reporter

T = TypeVar("T")
Partial = Callable[[str], Any]
"""The value of the beginning of a typed answer; ``None`` when there is none yet."""

_DONE = Value(None)
STEPS = 100  # an object of a long typed answer holds at least a hundredth more than the last
END: Final = object()
_NOTHING: Final = object()


class Piece(NamedTuple):
    """One step of a stream: more text of a kind, or (``restart``) that the text begins anew.

    With it, so many chunks of its feed (``chunks``) had come.
    """

    kind: Literal["text", "reasoning", "restart"]
    text: str
    feed: Feed | None
    chunks: int


class Stream:
    """The pieces of *answer* so far, and the readers that wait for more.

    Readers at home see what was delivered there; those of other threads and loops see what has
    come. *partial* makes the objects that a typed answer streams.
    """

    __slots__ = (
        "__weakref__", "_arrival", "_delivered", "_lock", "_log", "_news", "_over", "_posted",
        "_reporter", "_watching", "home", "partial",
    )  # fmt: skip

    def __init__(self, answer: Promise, reporter: Reporter, partial: Partial | None = None) -> None:
        assert isinstance(answer.home, Hub)
        self.home: Hub = answer.home
        self.partial = partial
        self._reporter = reporter
        self._log: list[Piece] = []
        self._delivered = 0
        self._posted = self._watching = self._over = False
        self._lock = threading.Lock()
        self._news: _More | None = None  # what readers at home wait for
        self._arrival: _More | None = None  # and all others
        answer.subscribe(self._ended)

    # -- on the I/O loop

    def add(self, feed: Feed, kind: Kind, text: str) -> None:
        """Add more of the answer, which came through *feed*."""
        self._append(Piece(kind, text, feed, len(feed.chunks)))

    def restart(self) -> None:
        """Note that the answer is made once more from its beginning: what has come is not of it."""
        self._append(Piece("restart", "", None, 0))

    def _append(self, piece: Piece) -> None:
        with self._lock:
            self._log.append(piece)
            posted, self._posted = self._posted, True
            arrival, self._arrival = self._arrival, None
        if not posted:
            self.home.inbox.append(self)
        if self._news is not None:  # looked at after posting, as in ``Promise.finish``
            self.home.notify()
        if arrival is not None:
            arrival.settle(_DONE)

    def _ended(self, answer: Promise) -> None:
        with self._lock:
            arrival, self._arrival = self._arrival, None
            self._over = True
        if arrival is not None:
            arrival.settle(_DONE)

    # -- on the home hub's thread

    def deliver(self) -> None:
        """Show the programs at home all that has come."""
        with self._lock:
            fresh = self._log[self._delivered :]
            self._delivered += len(fresh)
            self._posted = False
        if (watcher := self._reporter.watcher) is not None:
            counts = {piece.feed: piece.chunks for piece in fresh if piece.feed is not None}
            for feed, count in counts.items():
                at = time.monotonic_ns()
                watcher.on_event(ChunksDelivered(feed.address, count, at))
        self._tell()

    def wake(self, pending: Promise) -> None:
        """End the stream: the answer was delivered, and there will be no more."""
        self._tell()

    def _tell(self) -> None:
        news, self._news = self._news, None
        if news is not None:
            news.deliver()

    # -- for readers, on any thread

    def look(self, at: int, answer: Promise, hub: Hub) -> Piece | Promise | None:
        """Piece number *at* of *answer* for a reader on *hub*, or the signal to wait for first.

        ``None`` at the end, when the outcome of *answer* may be looked at.
        """
        if hub is self.home and not answer.delivered:
            if at < self._delivered:
                return self._log[at]
            if self._news is None:
                self._news = _More(answer, self.home)
            if not self._watching:
                self._watching = True
                answer.await_with(self)
            return self._news
        over = answer.done  # looked at first: all pieces come before it
        if at < len(self._log):
            return self._log[at]
        if over:
            return None
        with self._lock:
            if self._arrival is None:
                self._arrival = _More(answer, None)
            arrival = self._arrival
            late = self._over or at < len(self._log)
        if late:
            arrival.settle(_DONE)
        return arrival


class _More(Promise):
    """A signal that there is more of a stream, or its end."""

    __slots__ = ("_answer",)

    def __init__(self, answer: Promise, home: Hub | None) -> None:
        super().__init__(f"the stream of {answer.address}", home)
        self._answer = answer

    def blockers(self) -> Iterable[Promise]:
        return () if self._answer.done else (self._answer,)

    def suspicious(self) -> bool:
        return self._answer.suspicious()


# -- what a program holds


class TextStream(AnswerStream, Generic[T]):
    """An answer piece by piece, as ``for`` or ``async for`` asks for it.

    Every loop over it, in whatever fiber, task or thread and however late, sees the whole answer
    from its beginning. A loop raises the call's error after the text that came before it. Without
    ``gen(stream=True)``, or where the backend cannot stream, the answer comes as one piece. The
    pieces of a typed answer are objects, each more complete than the one before. In a prompt it is
    the whole answer, or the reasoning, and is not waited for. Leaving a loop early does not end the
    call; ``cancel()`` of the generation does. A reader that is cancelled, and ``close()``, end a
    call that nobody else holds.
    """

    __slots__ = ("__weakref__", "_kind", "_of")

    def __init__(self, of: Proxy | Answer, kind: Kind = "text") -> None:
        self._of: Proxy | Answer | None = of
        self._kind = kind

    def __iter__(self) -> Iterator[T]:
        return _StreamReader(self.pending, self._kind, self._of)

    def __aiter__(self) -> AsyncIterator[T]:
        return _AsyncReader(self.pending, self._kind, self._of)

    def __prompt__(self) -> Proxy | Answer | Thoughts:
        """The part of a prompt: the answer or the reasoning, as a future."""
        return self._open if self._kind == "text" else Thoughts(self.pending)

    @property
    def _open(self) -> Proxy | Answer:
        """The answer, of a stream that was not closed."""
        if self._of is None:
            raise RunError("this stream was closed: read it before close()")
        return self._of

    @property
    def pending(self) -> Promise:
        """The answer that this is the stream of."""
        of = self._open
        if isinstance(of, Proxy):
            return of._pending
        finished = Promise("an answer", None)
        finished.settle(Value(of))
        return finished

    def close(self) -> None:
        """Let go of the answer. Cancels the call, once nobody holds its generation or reads it.

        A call whose answer is in a prompt goes on. ``cancel()`` of the generation ends it at once.
        """
        of, self._of = self._of, None
        if isinstance(of, Proxy):
            unread(of._pending)

    async def aclose(self) -> None:
        """:meth:`close`, for ``contextlib.aclosing``."""
        self.close()

    def __repr__(self) -> str:
        state = f"of {self.pending.address}" if self._of is not None else "closed"
        return f"<{self._kind} stream {state}>"


def begun(answer: Promise) -> None:
    """Wait until *answer* has begun to be streamed. Raises the error of one that never begins."""
    next(_StreamReader(answer, "text", None), None)


async def has_begun(answer: Promise) -> None:
    """:func:`begun` in a coroutine."""
    await anext(_AsyncReader(answer, "text", None), None)


class Thoughts:
    """The reasoning before an answer as a part of a prompt."""

    __slots__ = ("_pending",)

    def __init__(self, pending: Promise) -> None:
        self._pending = pending

    def prompt_ready(self) -> bool:
        return self._pending.prompt_ready()

    def prompt_text(self) -> str:
        outcome = self._pending.last().outcome
        assert outcome is not None
        if isinstance(outcome, Error):
            raise outcome.raised()
        return getattr(outcome.prompt_part, "reasoning", None) or ""

    def prompt_source(self) -> object:
        return self._pending.prompt_source()


class Reading(Generic[T]):
    """The position of one reader of *pending*."""

    __slots__ = ("_at", "_due", "_kind", "_last", "_length", "_over", "_pieces", "pending")

    def __init__(self, pending: Promise, kind: Kind) -> None:
        self.pending, self._kind = pending, kind
        self._at, self._over = 0, False
        self._pieces: list[str] = []
        self._length = self._due = 0
        self._last: object = _NOTHING

    def look(self, hub: Hub) -> Any:
        """The next item, a signal to wait for, or ``END``; raises the error after the text."""
        while not self._over:
            pending = self.pending
            stream: Stream | None = getattr(pending, "stream", None)
            if stream is not None:
                upcoming = stream.look(self._at, pending, hub)
            else:  # programs of its hub get the answer when it is delivered, others when done
                is_over = pending.delivered if pending.home is hub else pending.done
                upcoming = None if is_over else pending
            if isinstance(upcoming, Promise):
                return upcoming
            if upcoming is None:
                item = self._end(stream)
            else:
                self._at += 1
                item = self._item(upcoming, stream)
            if item is not _NOTHING:
                return item
        return END

    def _item(self, piece: Piece, stream: Stream | None) -> object:
        assert stream is not None
        if piece.kind == "restart":
            self._pieces.clear()
            self._length = self._due = 0
        elif piece.kind == self._kind:
            if stream.partial is None or self._kind != "text":
                return piece.text
            return self._grown(piece.text, stream.partial)
        return _NOTHING

    def _grown(self, text: str, partial: Partial) -> object:
        """The object with *text*; not for every piece of a long answer, which is read anew."""
        self._pieces.append(text)
        self._length += len(text)
        if self._length < self._due:
            return _NOTHING
        self._due = self._length + self._length // STEPS
        return self._new(partial("".join(self._pieces)))

    def _new(self, value: object) -> Any:
        """*value*, when it is something and not what came last."""
        if value is None or (self._last is not _NOTHING and self._last == value):
            return _NOTHING
        self._last = value
        return value

    def _end(self, stream: Stream | None) -> Any:
        """The last item, now that the answer is there."""
        outcome = self.pending.outcome
        assert outcome is not None
        if isinstance(outcome, Error):
            self._over = True
            raise self.pending.seen()
        value = outcome.value
        if isinstance(value, Proxy | TextStream):  # a function returned it
            self.pending = value._pending if isinstance(value, Proxy) else value.pending
            return _NOTHING
        self._over = True
        if stream is None:
            return self._whole(outcome)
        if stream.partial is None or self._kind != "text":
            return _NOTHING
        return self._new(value)

    def _whole(self, outcome: Value) -> object:
        value = outcome.value
        if self._kind == "reasoning":
            return getattr(outcome.prompt_part, "reasoning", None) or _NOTHING
        if isinstance(value, str):
            return str.__str__(value) or _NOTHING
        return _NOTHING if value is None else value


class _Reader(Generic[T]):
    """One reader of an answer *of* somebody's; that is held as long as it may be read on."""

    __slots__ = ("_of", "_reading")

    def __init__(self, pending: Promise, kind: Kind, of: object) -> None:
        self._of = of
        self._reading: Reading[T] = Reading(pending, kind)


class _StreamReader(_Reader[T]):
    """Reads in a synchronous program, which waits as for any answer."""

    __slots__ = ()

    def __iter__(self) -> Iterator[T]:
        return self

    def __next__(self) -> T:
        reading, hub = self._reading, strand_here().hub
        while isinstance(item := reading.look(hub), Promise):
            try:
                wait(item)
            except BaseException as error:
                note_abandoned_wait(reading.pending, error)
                raise
        if item is END:
            raise StopIteration
        return cast(T, item)


class _AsyncReader(_Reader[T]):
    """Reads in a coroutine, whose loop goes on."""

    __slots__ = ()

    def __aiter__(self) -> AsyncIterator[T]:
        return self

    def __anext__(self) -> Awaitable[T]:
        # Not a coroutine of this reader: the error of a cancelled task holds its frames, and would
        # hold the generation with them, as long as somebody has the task.
        return _next(self._reading)

    def __del__(self) -> None:
        if cancelled_here():
            unread(self._reading.pending)
            clear_when_cancelled(sys._getframe(1))


async def _next(reading: Reading[T]) -> T:
    hub = hub_here()
    while isinstance(item := reading.look(hub), Promise):
        try:
            await arrive(item)
        except BaseException as error:
            note_abandoned_wait(reading.pending, error)
            raise
    if item is END:
        raise StopAsyncIteration
    return cast(T, item)


def cancelled_here() -> bool:
    """True if the task that runs here is being cancelled.

    A reader that it drops then was left between two pieces, and nobody reads on.
    """
    task = task_here()
    return task is not None and task.cancelling() > 0
