"""Plain Python as the oracle: a ``gen`` that really waits and returns a ``str``.

Programs of ``trying`` run here as they are written, by CPython alone: without compiler, runtime or
futures. A statement that says something is written as ``say(…)``.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Callable, Generator, Iterable
from typing import Any

from appl.errors import BackendError

from .model import WORDS


def answer(prompt: str) -> str:
    """What the model says to *prompt*; it refuses one that says "risky" last now and then."""
    number = sum(map(ord, prompt)) * 31 + len(prompt)
    if "risky" in prompt.rpartition("\n")[2] and number % 5 < 2:
        raise BackendError(f"refused {number % 1000}")
    return f"{WORDS[number % 12]}{number % 10}"


class Said(str):
    """An answer, which may be awaited, too: it is there."""

    def __await__(self) -> Generator[Any, None, str]:
        return self
        yield


class Python:
    """One run: the prompts of the activations, and what was asked."""

    def __init__(self) -> None:
        self.prompts: list[list[str]] = [[]]
        self.kept: dict[Any, list[str]] = {}
        self.asked: list[str] = []

    def say(self, text: object) -> None:
        """A statement: the whole of it is one item of the prompt."""
        if text is not None:
            self.prompts[-1].append(str(text))

    def gen(self) -> str:
        """Ask, wait, and return the answer."""
        self.asked.append("\n".join(self.prompts[-1]))
        return Said(answer(self.asked[-1]))

    def convo(self) -> str:
        """The prompt as text."""
        return "\n".join(self.prompts[-1])

    def ppl(self, f: Any = None, *, ctx: str = "new") -> Any:
        """The function with a prompt of its own."""
        if f is None:
            return functools.partial(self.ppl, ctx=ctx)
        if inspect.iscoroutinefunction(f):
            return functools.wraps(f)(functools.partial(self._awaited, f, ctx))
        if inspect.isgeneratorfunction(f):
            return functools.wraps(f)(functools.partial(self._stepped, f, ctx))
        return functools.wraps(f)(functools.partial(self._called, f, ctx))

    def _prompt(self, f: Callable[..., Any], ctx: str) -> list[str]:
        around = self.prompts[-1]
        if ctx == "resume":
            return self.kept.setdefault(f, list(around))
        return {"new": [], "copy": list(around), "same": around}[ctx]

    def _called(self, f: Callable[..., Any], ctx: str, *args: Any) -> Any:
        self.prompts.append(self._prompt(f, ctx))
        try:
            return f(*args)
        finally:
            self.prompts.pop()

    async def _awaited(self, f: Callable[..., Any], ctx: str, *args: Any) -> Any:
        self.prompts.append(self._prompt(f, ctx))
        try:
            return await f(*args)
        finally:
            self.prompts.pop()

    def _stepped(self, f: Callable[..., Any], ctx: str, *args: Any) -> Any:
        prompt, inner, got = self._prompt(f, ctx), f(*args), None
        while True:
            self.prompts.append(prompt)
            try:
                out = inner.send(got)
            except StopIteration as stop:
                return stop.value
            finally:
                self.prompts.pop()
            got = yield out

    def map(self, f: Callable[..., Any], items: Iterable[Any]) -> list[Any]:
        """One after the other."""
        return [f(item) for item in items]

    def run(self, source: str) -> Any:
        """The value of ``main()``, or its error."""
        names = {name: getattr(self, name) for name in ("say", "gen", "ppl", "map", "convo")}
        exec(compile(source, "<python>", "exec"), names)
        made = names["main"]()
        return asyncio.run(made) if inspect.iscoroutine(made) else made
