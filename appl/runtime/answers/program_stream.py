"""The stream of a whole program: its text and the answers of models, in the order of its prompt.

Invariant: the pieces, one after the other, are the text of the function's prompt, each message
after a new line; reading neither changes the prompt nor what is recorded.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import replace
from typing import Any, Generic, ParamSpec, TypeVar, cast
from weakref import ref

from appl.errors import InvalidOption, RunError
from appl.prompt import USER, Lazy, PromptNode, PromptSlot, RoleName, message_of
from appl.prompt.chain import moved
from appl.prompt.text_stream import GrowingText
from appl.prompt.voice import Moved
from appl.runtime.answers.stream import END, Reading, Stream, cancelled_here
from appl.runtime.answers.text import Text
from appl.runtime.concurrency.cancelled_waits import clear_when_cancelled
from appl.runtime.concurrency.clock import Signal
from appl.runtime.concurrency.fiber import Hub, arrive, hub_here, in_coroutine, strand_here, wait
from appl.runtime.concurrency.future import Future
from appl.runtime.concurrency.parallel import bound_program
from appl.runtime.concurrency.promise import Error, Promise, Proxy, Value, source_of
from appl.runtime.concurrency.structure import cancel_all
from appl.runtime.concurrency.task import Task
from appl.runtime.future_takers import taking_futures
from appl.runtime.prompts.place import PendingPlace

P = ParamSpec("P")
R = TypeVar("R")


class ProgramPiece(str):
    """A piece of a program's text: a ``str`` that knows who wrote it.

    ``role`` is who says it; ``generated`` is true for the text of a model, false for what the
    program says.
    """

    __slots__ = ("generated", "role")
    role: RoleName
    generated: bool

    @classmethod
    def of(cls, text: str, role: RoleName, generated: bool) -> ProgramPiece:
        """*text* as a piece."""
        piece = cls(text)
        piece.role, piece.generated = role, generated
        return piece


class ProgramStream(Generic[R]):
    """The text of a program that runs, piece by piece: for ``for``, in a coroutine ``async for``.

    Every loop over it sees the whole text from its beginning. Leaving a loop early does not end the
    program; ``cancel()`` and ``close()`` do, and so does a reader that is cancelled, if nobody else
    holds the stream. ``result()`` waits for what the function returns.
    """

    def __init__(self, start: Callable[[Callable[[], None]], Future[R]]) -> None:
        text = self._text = _ProgramText()
        # Weakly: the program holds what it tells, and a text holds its program.
        weakly = ref(text)

        def grown(_: object = None) -> None:
            if (stream := weakly()) is not None:
                stream.grown()

        self.future = start(grown)
        text.task = cast(Task, self.future._pending)
        text.task.subscribe(grown)

    def result(self, timeout: float | None = None) -> R:
        """The value that the function returns; waits until it is over."""
        return self.future.result(timeout)

    def cancel(self) -> None:
        """End the program, with the answers that it has not waited for."""
        cancel_all([self._text.task])

    def close(self) -> None:
        """End the program: :meth:`cancel`, for ``contextlib.closing``."""
        self.cancel()

    async def aclose(self) -> None:
        """End the program: :meth:`cancel`, for ``contextlib.aclosing``."""
        self.cancel()

    def __iter__(self) -> Iterator[ProgramPiece]:
        for step in self._text.steps(strand_here().hub):
            if isinstance(step, Promise):
                try:
                    wait(step)
                except BaseException as error:
                    _given_up(self._text.task, error)
                    raise
            else:
                yield step

    def __aiter__(self) -> AsyncIterator[ProgramPiece]:
        return _AsyncReader(self.future, self._text)


class _ProgramText:
    """The text of the program that runs as *task*, and the readers that wait for more of it."""

    __slots__ = ("__weakref__", "_signal", "task")
    task: Task

    def __init__(self) -> None:
        self._signal: Signal | None = None

    def grown(self) -> None:
        """Note that the prompt has grown, or that the program is over."""
        signal, self._signal = self._signal, None
        if signal is not None:
            signal.reached()

    def steps(self, hub: Hub) -> Iterator[ProgramPiece | Promise]:
        """The pieces, and between them the calls that have to be waited for."""
        frame, task = self.task.frame, self.task
        text_stream, last = _Telling(hub), frame.origin
        move = Moved(frame.base, USER) if frame.base is not USER else None
        while True:
            if self._signal is None:
                self._signal = Signal(task.address, task.home)
            growth, over, tip = self._signal, frame.ended or task.done, frame.tip()
            fresh = _since(last, tip)
            for node in fresh:
                voice = node.voice if move is None else move(node.voice)
                try:
                    yield from text_stream.tell(node.after(None, voice=voice))
                except Exception:
                    yield task
                    if isinstance(task.outcome, Error):
                        raise task.seen() from None
                    if node in _since(frame.origin, frame.tip()):  # else the program handled it
                        raise
            last = tip
            if over and not fresh:
                break
            if not fresh:
                yield growth
        yield task
        if isinstance(task.outcome, Error):
            raise task.seen()


class _AsyncReader:
    """Reads the text of a program in a coroutine, whose loop goes on; holds its *future*."""

    __slots__ = ("_future", "_steps", "_task")

    def __init__(self, future: Future[Any], text: _ProgramText) -> None:
        self._future, self._task, self._steps = future, text.task, text.steps(hub_here())

    def __aiter__(self) -> AsyncIterator[ProgramPiece]:
        return self

    def __anext__(self) -> Awaitable[ProgramPiece]:
        return _next(self._steps, self._task)  # which does not hold the future, as in ``stream``

    def __del__(self) -> None:
        if cancelled_here():
            _unread(self._task)
            clear_when_cancelled(sys._getframe(1))


async def _next(steps: Iterator[ProgramPiece | Promise], task: Task) -> ProgramPiece:
    for step in steps:
        if not isinstance(step, Promise):
            return step
        try:
            await arrive(step)
        except BaseException as error:
            _given_up(task, error)
            raise
    raise StopAsyncIteration


def _given_up(task: Task, error: BaseException) -> None:
    """Note that *error* ended a wait for more of the text of *task*."""
    if not isinstance(error, Exception):  # a time limit, or a cancellation
        _unread(task)
        clear_when_cancelled(sys._getframe(1), error)


def _unread(task: Task) -> None:
    """Cancel the program of *task* as soon as nobody holds its future.

    Its function may have returned: the answers that it has not waited for are cancelled, too.
    """
    future = task.proxy() if task.proxy is not None else None
    if task.holder is not None:
        return  # a prompt needs its text
    if future is None:
        cancel_all([task])
    else:
        task.proxy = ref(future, lambda _: cancel_all([task]))


def _since(last: PromptNode | None, tip: PromptNode | None) -> list[PromptNode]:
    """The nodes up to *tip* that come after *last*; a failed block may have taken *last* back."""
    nodes: list[PromptNode] = []
    node = tip
    while node is not last:
        if last is not None and (node is None or last.length >= node.length):
            last = last.parent
        else:
            assert node is not None
            nodes.append(node)
            node = node.parent
    nodes.reverse()
    return nodes


class _Telling:
    """Turns the parts of a prompt into pieces, for a reader on *hub*."""

    def __init__(self, hub: Hub) -> None:
        self._hub, self._text_stream = hub, GrowingText()

    def tell(self, node: PromptNode) -> Iterator[ProgramPiece | Promise]:
        """The pieces of *node*, and the calls that have to be waited for before each."""
        lazy = node.lazy
        if lazy is None:
            # the finished text of a model, whose origin is a call then, or of the program
            is_text = isinstance(node.part, str) and isinstance(node.site, str)
            by_model = type(node.part) is Text or is_text
            yield from (self._written if by_model else self._said)(node)
        elif isinstance(node.part, PromptSlot):
            yield from self._placed(node, node.part)
        elif (answer := _streamed(lazy)) is not None:
            yield from self._streamed(node, answer)
        else:
            yield from self._answered(node, lazy)

    def _written(self, node: PromptNode) -> Iterator[ProgramPiece]:
        """A part that a model has written; what stands before it is said by the program."""
        yield from self._said(node.after(None, part=""))
        yield from self._said(PromptNode(None, node.voice, node.part, starts=False), generated=True)

    def _said(self, node: PromptNode, generated: bool = False) -> Iterator[ProgramPiece]:
        """A part that is there."""
        text = self._text_stream.added(node)
        if text:
            yield ProgramPiece.of(text, node.role, generated)

    def _placed(self, node: PromptNode, place: PromptSlot) -> Iterator[ProgramPiece | Promise]:
        """The text of a function that runs beside the program, in its place."""
        while not place.has_prompt_kind():
            yield cast(PendingPlace, place).prompt_source()
        for moved_node in moved(place.prompt_nodes(), place.voice, node.voice):
            yield from self.tell(moved_node)

    def _streamed(self, node: PromptNode, answer: Promise) -> Iterator[ProgramPiece | Promise]:
        """The pieces of an answer as they come."""
        yield from self._said(node.after(None, part=""))
        reading: Reading[str] = Reading(answer, "text")
        while (step := reading.look(self._hub)) is not END:
            if isinstance(step, Promise):
                yield step
            else:
                yield from self._said(
                    PromptNode(None, node.voice, step, starts=False), generated=True
                )

    def _answered(self, node: PromptNode, lazy: Lazy) -> Iterator[ProgramPiece | Promise]:
        """A part whose text comes at once, when it is there."""
        while True:
            source = source_of(lazy)
            yield source
            if isinstance(lazy, Promise) and (answer := _streamed(lazy)) is not None:
                yield from self._streamed(node, answer)
                return
            if lazy.prompt_ready():
                break
        outcome = source.last().outcome
        if isinstance(outcome, Error):
            raise source.last().seen()
        written = isinstance(outcome, Value) and isinstance(outcome.prompt_part, Text)
        if written and message_of(lazy) is None:
            yield from self._written(node)
        else:
            yield from self._said(node, generated=written)


def _streamed(lazy: Lazy) -> Promise | None:
    """The answer behind *lazy*, if its text comes in pieces that stand."""
    if not isinstance(lazy, Promise):
        return None
    pending: Promise = lazy
    while isinstance(pending.outcome, Value) and isinstance(pending.outcome.value, Proxy):
        pending = pending.outcome.value._pending
    stream: Stream | None = getattr(pending, "stream", None)
    if stream is None or stream.partial is not None or pending.call.tools is not None:  # type: ignore[attr-defined]
        return None
    return pending


@taking_futures
def stream(f: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> ProgramStream[R]:
    """Start the prompt function *f*; its text and the answers of models are one stream.

    For example::

        for piece in appl.stream(story, "dogs"):
            print(piece, end="", flush=True)

    In a coroutine write ``async for``. The pieces come in the order of the prompt of *f*: said text
    at once, an answer as it is made. What other functions say in prompts of their own is not among
    them, nor is an answer that *f* only returns. Each piece is a ``str`` with ``role`` and
    ``generated``; ``stream(…).result()`` is what *f* returns.
    """
    program, bound = bound_program(f)
    if program is None:
        raise InvalidOption(
            f"appl.stream(f, ...) takes a @ppl function and its arguments, got {f!r:.80}; write "
            "appl.stream(f, x), with @ppl above `def f`"
        )
    if program.kind == "async" and not in_coroutine():
        raise RunError(
            f"{program.name} is an async function, and no loop is running here; write "
            f"`async for piece in appl.stream({program.name}, ...)` in a coroutine"
        )
    arguments: dict[str, object] = dict(kwargs)
    mode = program.asked(arguments)
    return ProgramStream(
        lambda grown: program.spawn((*bound, *args), arguments, replace(mode, listener=grown))
    )
