"""Plain Python as the oracle: a ``gen`` that really waits and returns a ``str``.

Programs of ``trying`` run here as they are written, by CPython alone: without compiler, runtime or
futures. A statement that says something is written as ``say(…)``.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import AsyncIterator, Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from appl.errors import BackendError

from .model import WORDS


def answer(prompt: str) -> str:
    """What the model says to *prompt*; it refuses one that says "risky" last now and then."""
    number, last = sum(map(ord, prompt)) * 31 + len(prompt), prompt.rpartition("\n")[2]
    if ("risky" in last and number % 5 < 2) or "doomed" in last:
        raise BackendError(f"refused {number % 1000}")
    return f"{WORDS[number % 12]}{number % 10}"


class Said(str):
    """An answer, which may be awaited, too: it is there."""

    def __await__(self) -> Generator[Any, None, str]:
        return self
        yield


class Python:
    """One run: the prompts of the activations, and what was asked.

    Threads and tasks have prompts of their own, as a context variable has values.
    """

    def __init__(self) -> None:
        outermost: list[str] = []
        self._prompt: ContextVar[list[str]] = ContextVar("prompt", default=outermost)
        self.kept: dict[Any, list[str]] = {}
        self.asked: list[str] = []

    def say(self, text: object) -> None:
        """A statement: the whole of it is one item of the prompt."""
        if text is not None:
            self._prompt.get().append(str(text))

    def gen(self) -> str:
        """Ask, wait, and return the answer."""
        self.note(self.convo())
        return Said(answer(self.convo()))

    def note(self, prompt: str) -> None:
        """The model is asked *prompt*."""
        self.asked.append(prompt)

    def convo(self) -> str:
        """The prompt as text."""
        return "\n".join(self._prompt.get())

    def ppl(self, f: Any = None, *, ctx: str = "new", parallel: bool = False) -> Any:
        """The function with a prompt of its own."""
        if f is None:
            return functools.partial(self.ppl, ctx=ctx)
        form: Callable[..., Any] = self._called
        for kind, other in (
            (inspect.iscoroutinefunction, self._awaited),
            (inspect.isgeneratorfunction, self._stepped),
            (inspect.isasyncgenfunction, self._walked),
        ):
            form = other if kind(f) else form

        @functools.wraps(f)
        def wrapper(*args: Any, **named: Any) -> Any:
            return form(functools.partial(f, **named), self._prompt_of(f, ctx, args), *args)

        return wrapper

    def _prompt_of(self, f: Callable[..., Any], ctx: str, args: tuple[Any, ...]) -> list[str]:
        around = self._prompt.get()
        if ctx == "resume":
            owner = args[0] if "self" in inspect.signature(f).parameters else None
            return self.kept.setdefault((f, owner), list(around))
        return {"new": [], "copy": list(around), "same": around}[ctx]

    @contextmanager
    def _within(self, prompt: list[str]) -> Iterator[None]:
        token = self._prompt.set(prompt)
        try:
            yield
        finally:
            self._prompt.reset(token)

    def _called(self, f: Callable[..., Any], prompt: list[str], *args: Any) -> Any:
        with self._within(prompt):
            return f(*args)

    async def _awaited(self, f: Callable[..., Any], prompt: list[str], *args: Any) -> Any:
        with self._within(prompt):
            return await f(*args)

    def _stepped(self, f: Callable[..., Any], prompt: list[str], *args: Any) -> Any:
        inner, got = f(*args), None
        try:
            while True:
                with self._within(prompt):
                    out = inner.send(got)
                got = yield out
        except StopIteration as stop:
            return stop.value
        finally:
            with self._within(prompt):
                inner.close()

    async def _walked(
        self, f: Callable[..., Any], prompt: list[str], *args: Any
    ) -> AsyncIterator[Any]:
        inner = f(*args)
        try:
            while True:
                with self._within(prompt):
                    out = await anext(inner)
                yield out
        except StopAsyncIteration:
            return
        finally:
            with self._within(prompt):
                await inner.aclose()

    def map(self, f: Callable[..., Any], items: Iterable[Any]) -> list[Any]:
        """One after the other."""
        return [f(item) for item in items]

    def names(self) -> dict[str, Any]:
        """What a program uses of the language."""
        return {name: getattr(self, name) for name in ("say", "gen", "ppl", "map", "convo")}

    def run(self, source: str) -> Any:
        """The value of ``main()``, or its error."""
        names = self.names()
        exec(compile(source, "<python>", "exec"), names)
        made = names["main"]()
        return asyncio.run(made) if inspect.iscoroutine(made) else made
