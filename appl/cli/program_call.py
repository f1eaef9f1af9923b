"""The call of a program's function in an open run, with its value finished.

Invariant: everything that the function started has ended when its value is returned.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from collections.abc import Callable
from typing import Any

from appl.cli.display import Display
from appl.cli.target import UsageError
from appl.cli.terminal import TermSafe, out
from appl.runtime.answers.stream import TextStream
from appl.runtime.resolve import aresolve, resolve
from appl.runtime.run import Run


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


def call(
    run: Run,
    function: Callable[..., object],
    values: dict[str, object],
    speaker: ValuePrinter | None = None,
) -> object:
    """Run *function* in *run*, wait for everything it started, and return its finished value.

    If it returns a stream, *speaker* reads it.
    """
    speaker = speaker or ValuePrinter()
    inner = inspect.unwrap(function)
    if inspect.iscoroutinefunction(inner) or inspect.isasyncgenfunction(inner):
        return asyncio.run(_acall(run, function, values, speaker))
    with run:
        value = function(**values)
        if isinstance(value, TextStream):
            with contextlib.closing(speaker):
                for piece in value:
                    speaker.add(piece)
            return speaker.value()
        if inspect.iscoroutine(value) or inspect.isasyncgen(value):
            raise UsageError(f"{function.__name__} returns a coroutine but is not an `async def`")
        return resolve(list(value) if inspect.isgenerator(value) else value)


async def _acall(
    run: Run, function: Callable[..., Any], values: dict[str, object], speaker: ValuePrinter
) -> object:
    async with run:
        value = function(**values)
        if inspect.isasyncgen(value):
            return await aresolve([item async for item in value])
        value = await value
        if isinstance(value, TextStream):
            with contextlib.closing(speaker):
                async for piece in value:
                    speaker.add(piece)
            return speaker.value()
        return await aresolve(value)
