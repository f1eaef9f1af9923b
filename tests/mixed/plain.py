"""Plain Python as the oracle of programs with limits, locks, pools, tasks and tools.

Threads, locks, pools, tasks and queues are CPython's own. What the model never answers is never
there: a coroutine waits for it until it is cancelled, and a thread has its time limit strike.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable, Generator, Iterable, Iterator
from contextvars import ContextVar
from functools import partial
from typing import Any

from tests.equivalence.python import Python, Said


def is_silent(prompt: str) -> bool:
    """Whether the model never answers *prompt*."""
    return "silent" in prompt.rpartition("\n")[2]


def calls_of(prompt: str, names: list[str]) -> list[tuple[str, dict[str, str]]]:
    """The calls of tools that the model makes after *prompt*."""
    if "tools" not in prompt.rpartition("\n")[2]:
        return []
    number = sum(map(ord, prompt))
    count = 1 + number % 3
    return [(names[(number + at) % len(names)], {"q": f"q{at}"}) for at in range(count)]


class Struck(BaseException):
    """Thrown where a thread waits for what never comes: *limit* is the one that strikes."""

    def __init__(self, limit: Limit) -> None:
        super().__init__(limit)
        self.limit = limit


class Never(str):
    """What never comes."""

    def __await__(self) -> Generator[Any, None, str]:
        yield from asyncio.get_running_loop().create_future()
        raise AssertionError


class Called(Said):
    """An answer that calls tools."""

    box: dict[str, Callable[..., Any]]
    calls: list[tuple[str, dict[str, str]]]

    def run_tool_calls(self) -> Results:
        """Run each, one after the other; what goes wrong is said."""
        return Results([Result(self._run(name, given)) for name, given in self.calls])

    def _run(self, name: str, given: dict[str, str]) -> str:
        try:
            value = self.box[name](**given)
            return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
        except Exception as error:
            return f"{name} failed: {type(error).__name__}: {error}"


class Result:
    """What a tool said."""

    def __init__(self, content: str) -> None:
        self.content = content


class Results(list[Result]):
    """What tools said; it may be awaited."""

    def __await__(self) -> Generator[Any, None, Results]:
        return self
        yield


class Limit:
    """``timeout``: of those that are open, the shortest strikes."""

    def __init__(self, world: Plain, seconds: float) -> None:
        self._open, self.seconds = world.limits, seconds

    def __enter__(self) -> None:
        self._token = self._open.set((*self._open.get(), self))

    def __exit__(self, kind: Any, error: BaseException | None, traceback: Any) -> None:
        self._open.reset(self._token)
        if isinstance(error, Struck) and error.limit is self:
            raise TimeoutError("late") from None

    async def __aenter__(self) -> None:
        self._block = asyncio.timeout(self.seconds)
        await self._block.__aenter__()

    async def __aexit__(self, *how: Any) -> None:
        await self._block.__aexit__(*how)


class Lock:
    """One at a time, of threads or of tasks."""

    def __init__(self) -> None:
        self._thread, self._task = threading.Lock(), asyncio.Lock()

    def __enter__(self) -> None:
        self._thread.acquire()

    def __exit__(self, *how: Any) -> None:
        self._thread.release()

    async def __aenter__(self) -> None:
        await self._task.acquire()

    async def __aexit__(self, *how: Any) -> None:
        self._task.release()


class Started:
    """What ``call`` gives: it is over already."""

    def __init__(self, f: Callable[..., Any], *args: Any) -> None:
        self._error: Exception | None = None
        try:
            self._value = f(*args)
        except Exception as error:
            self._error = error

    def result(self) -> Any:
        """The value, or its error."""
        if self._error is not None:
            raise self._error
        return self._value


class Completed:
    """Results one by one, here in the order of the items; who leaves early need not ask for all."""

    def __init__(self, world: Plain, f: Callable[..., Any], items: Iterable[Any]) -> None:
        self._sure, self._f, self._items = world.sure, f, items

    def __iter__(self) -> Iterator[Any]:
        for item in self._items:
            token = self._sure.set(False)
            try:
                value = self._f(item)
            finally:
                self._sure.reset(token)
            yield value

    async def __aiter__(self) -> AsyncIterator[Any]:
        for item in self._items:
            yield await self._f(item)


class Plain(Python):
    """One run of plain Python; what may be cancelled before it is asked is not in ``asked``."""

    def __init__(self) -> None:
        super().__init__()
        self.limits: ContextVar[tuple[Limit, ...]] = ContextVar("limits", default=())
        self.sure: ContextVar[bool] = ContextVar("sure", default=True)

    def gen(self, tools: Iterable[Callable[..., Any]] = ()) -> str:
        """The answer; for a coroutine perhaps one that never comes."""
        prompt, limits = self.convo(), self.limits.get()
        if is_silent(prompt):
            if limits:
                raise Struck(min(limits, key=lambda each: each.seconds))
            return Never()
        box = {tool.__name__: tool for tool in tools}
        calls = calls_of(prompt, list(box))
        if not calls:
            return super().gen()
        self.note(prompt)
        said = Called()
        said.box, said.calls = box, calls
        return said

    def note(self, prompt: str) -> None:
        """A call whose time may be up is perhaps not asked."""
        if self.sure.get() and all(limit.seconds > 1 for limit in self.limits.get()):
            super().note(prompt)

    def say(self, text: object) -> None:
        """A statement: results of tools are one item each."""
        if isinstance(text, Results):
            for each in text:
                super().say(each.content)
        else:
            super().say(text)

    def timeout(self, seconds: float) -> Limit:
        """A block that must end in time."""
        return Limit(self, seconds)

    def limited(self, f: Callable[..., Any], *args: Any) -> Any:
        """``f(*args).result(timeout=…)``."""
        with self.timeout(0.001):
            return f(*args)

    def names(self) -> dict[str, Any]:
        """What a program uses of the language."""
        own = {"timeout": self.timeout, "limited": self.limited, "Lock": Lock, "call": Started}
        left = {
            "leave": lambda *_: None,
            "drop": lambda *_: None,
            "as_completed": partial(Completed, self),
        }
        return super().names() | own | left
