"""The call of a program's function in an open run, with its value finished.

Invariant: everything that the function started has ended when its value is returned.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from collections.abc import Callable, Iterator
from typing import Any

from appl.cli.display import Display
from appl.cli.target import UsageError
from appl.cli.terminal import TermSafe, out
from appl.runtime.answers.stream import TextStream
from appl.runtime.resolve import aresolve, resolve
from appl.runtime.run import Run
from appl.session.process import join_threads, threads_left


class ValuePrinter:
    """Collects a program's streamed value; with a *shower*, prints it as it comes.

    The value is then ``None``, as nothing is left to print, otherwise the whole text. The value of
    a typed answer's stream is its last object.
    """

    def __init__(self, shower: Display | None = None) -> None:
        self._shower, self._safe = shower, TermSafe()
        self._texts: list[str] = []
        self._value: object = None

    def add(self, piece: object) -> None:
        """Add one piece."""
        if not isinstance(piece, str):
            self._value = piece
            return
        if self._shower is not None:
            if not self._texts:
                self._shower.clear()
            out(self._safe.feed(piece), end="")
        self._texts.append(piece)

    def close(self) -> None:
        """End the stream, complete or not."""
        if self._shower is not None and self._texts:
            out(self._safe.close())

    def value(self) -> object:
        """The value that is not printed yet."""
        return self._value if self._shower is not None or not self._texts else "".join(self._texts)


class ProgramEnd:
    """The end of a program: by its value, or by ``sys.exit``, before which its command reports."""

    def __init__(self) -> None:
        self.exit: SystemExit | None = None

    @contextlib.contextmanager
    def awaited(self) -> Iterator[None]:
        """A block in which the program runs."""
        self.exit = None
        try:
            yield
        except SystemExit as wish:
            self.exit = wish

    def leave(self) -> None:
        """End the command as the program wished, if it did."""
        if self.exit is not None:
            raise self.exit


def call(
    run: Run,
    function: Callable[..., object],
    values: dict[str, object],
    speaker: ValuePrinter | None = None,
    ending: ProgramEnd | None = None,
) -> object:
    """Run *function* in *run*, wait for everything it started, and return its finished value.

    If it returns a stream, *speaker* reads it. A ``SystemExit`` is kept in *ending* if that is
    given, and the value is ``None``.
    """
    speaker = speaker or ValuePrinter()
    kept = contextlib.nullcontext() if ending is None else ending.awaited()
    inner = inspect.unwrap(function)
    if inspect.iscoroutinefunction(inner) or inspect.isasyncgenfunction(inner):
        return asyncio.run(_acall(run, function, values, speaker, kept))
    with run:
        result = None
        with kept:
            value = function(**values)
            if inspect.iscoroutine(value) or inspect.isasyncgen(value):
                name = function.__name__
                raise UsageError(f"{name} returns a coroutine but is not an `async def`")
            if isinstance(value, TextStream):
                with contextlib.closing(speaker):
                    for piece in value:
                        speaker.add(piece)
                result = speaker.value()
            else:
                result = resolve(list(value) if inspect.isgenerator(value) else value)
        join_threads()
        return result


async def _acall(
    run: Run,
    function: Callable[..., Any],
    values: dict[str, object],
    speaker: ValuePrinter,
    kept: contextlib.AbstractContextManager[None],
) -> object:
    async with run:
        result = None
        with kept:
            value = function(**values)
            if inspect.isasyncgen(value):
                result = await aresolve([item async for item in value])
            elif isinstance(value := await value, TextStream):
                with contextlib.closing(speaker):
                    async for piece in value:
                        speaker.add(piece)
                result = speaker.value()
            else:
                result = await aresolve(value)
        if threads_left():
            await asyncio.to_thread(join_threads)
        return result
