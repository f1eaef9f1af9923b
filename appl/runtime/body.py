"""Ways to run the code of an activation: at once, awaited, or step by step as a generator.

Invariant: the activation's frame is the current one while its own code runs, and at no other time;
however the code ends, the activation is left, and so is its turn with a state.
"""

from __future__ import annotations

import functools
import inspect
import sys
import threading
from collections.abc import AsyncGenerator, Callable, Generator
from contextvars import copy_context
from typing import Any, cast

from appl.errors import RunError
from appl.runtime import activation
from appl.runtime.concurrency.tasks import OWN_CODE
from appl.runtime.concurrency.watchdog import ENTRIES
from appl.runtime.frame import FRAME, Frame
from appl.runtime.prompts.state import Turn
from appl.runtime.returning import asettled, settled


class Body:
    """The code of a function, and the way to run it in a frame."""

    body: Callable[..., Any]
    name: str

    def begun(self, frame: Frame) -> None:
        """Called in *frame* before the first line of the code."""

    def in_place_of_none(self, frame: Frame) -> object:
        """The value that the caller gets where the code returns ``None``."""

    def execute(
        self,
        frame: Frame,
        turn: Turn | None,
        args: tuple[object, ...],
        kwargs: dict[str, object],
        settle: bool = False,
    ) -> object:
        """Run the body in *frame*; with *settle* its result is waited for."""
        token = FRAME.set(frame)
        try:
            if turn is not None:
                turn.begin()
            self.begun(frame)
            # what is waited for has no name here: a failure cancels the calls that nobody holds
            body = self.body
            result = settled(body(*args, **kwargs)) if settle else body(*args, **kwargs)
            activation.leave(frame)  # in here: a Ctrl-C that breaks it off finds what it had left
        except BaseException as error:
            activation.fail(frame, error)
            raise
        finally:
            FRAME.reset(token)
            if turn is not None:
                turn.over()
        return self.in_place_of_none(frame) if result is None else result

    async def aexecute(
        self,
        frame: Frame,
        turn: Turn | None,
        args: tuple[object, ...],
        kwargs: dict[str, object],
        settle: bool = False,
    ) -> object:
        """Run an ``async def`` body in *frame*; with *settle* its result is waited for."""
        # It was called before its loop ran, as in asyncio.run(main()).
        frame.run.tree.scope_tasks()
        token = FRAME.set(frame)
        frame.thread = threading.get_ident()
        try:
            if turn is not None:
                await turn.abegin()
            self.begun(frame)
            if settle:
                result = await asettled(await self.body(*args, **kwargs))
            else:
                result = await self.body(*args, **kwargs)
            activation.leave(frame)
        except BaseException as error:
            activation.fail(frame, error)
            raise
        finally:
            FRAME.reset(token)
            if turn is not None:
                turn.over()
        return self.in_place_of_none(frame) if result is None else result

    def generate(
        self, frame: Frame, turn: Turn | None, inner: Generator[object, object, object]
    ) -> Generator[object, object, object]:
        """Drive a generator: its frame is installed at every resume."""
        step: Callable[[], Any] = functools.partial(inner.send, None)
        begun = False
        try:
            while True:
                activation.resumed(frame)
                token = FRAME.set(frame)
                frame.thread = threading.get_ident()
                try:
                    if not begun:
                        begun = True
                        frame.run.tree.suspended[frame] = None
                        if turn is not None:
                            turn.begin()
                        self.begun(frame)
                    out = step()
                except StopIteration as stop:
                    activation.leave(frame)
                    return self.in_place_of_none(frame) if stop.value is None else stop.value
                finally:
                    FRAME.reset(token)
                try:
                    step = functools.partial(inner.send, (yield out))
                except GeneratorExit:
                    out = step = _no_step  # what was yielded last is held by others, or by nobody
                    _close(frame, inner)
                    raise
                except BaseException as error:
                    step = functools.partial(inner.throw, error)
        except BaseException as error:
            activation.fail(frame, error)
            raise
        finally:
            frame.run.tree.suspended.pop(frame, None)
            if turn is not None:
                turn.over()

    async def agenerate(
        self, frame: Frame, turn: Turn | None, inner: AsyncGenerator[object, object]
    ) -> AsyncGenerator[object, object]:
        """Drive an async generator likewise."""
        step: Callable[[], Any] = functools.partial(inner.asend, None)
        begun = False
        try:
            while True:
                activation.resumed(frame)
                token = FRAME.set(frame)
                frame.thread = threading.get_ident()
                try:
                    if not begun:
                        begun = True
                        frame.run.tree.suspended[frame] = None
                        if turn is not None:
                            await turn.abegin()
                        self.begun(frame)
                    out = await step()
                except StopAsyncIteration:
                    activation.leave(frame)
                    return
                finally:
                    _restore(token)
                try:
                    step = functools.partial(inner.asend, (yield out))
                except GeneratorExit:
                    out = step = _no_step
                    await inner.aclose()
                    raise
                except BaseException as error:
                    step = functools.partial(inner.athrow, error)
        except BaseException as error:
            activation.fail(frame, error)
            raise
        finally:
            frame.run.tree.suspended.pop(frame, None)
            if turn is not None:
                turn.over()


OWN_CODE.add(Body.aexecute.__code__)
ENTRIES |= {Body.execute.__code__, Body.aexecute.__code__}


def _close(frame: Frame, inner: Generator[object, object, object]) -> None:
    """Close *inner*, in a context of its own: it may be collected at any moment.

    Collection can strike inside ``ContextVar.set``, where setting another value is not safe.
    """
    activation.resumed(frame)
    copy_context().run(_close_in, frame, inner)


def _close_in(frame: Frame, inner: Generator[object, object, object]) -> None:
    FRAME.set(frame)
    inner.close()


def _no_step() -> None:
    """In place of the next step of a generator that is closed."""


def _restore(token: Any) -> None:
    try:
        FRAME.reset(token)
    except ValueError:  # finalised in another context than the one it ran in
        FRAME.set(None)


def marked(wrapper: Callable[..., object]) -> Callable[..., Any]:
    """Have *wrapper* recognised as a coroutine function."""
    mark = getattr(inspect, "markcoroutinefunction", None)
    if mark is not None:
        return cast("Callable[..., Any]", mark(wrapper))
    wrapper._is_coroutine = sys.modules["asyncio"].coroutines._is_coroutine  # type: ignore[attr-defined]
    return wrapper


# -- generators that have run to their first yield when they are handed out


def primed(name: str, made: Generator[object, object, object]) -> Generator[object, object, object]:
    """*made* itself, after its first step."""
    try:
        next(made)
    except StopIteration:
        raise _never_yielded(name) from None
    return made


class Primed(AsyncGenerator[object, object]):
    """An async generator that takes its first step by itself, before what it is asked for."""

    def __init__(self, name: str, made: AsyncGenerator[object, object]) -> None:
        self._name, self._made, self._begun = name, made, False

    async def _prime(self) -> None:
        if self._begun:
            return
        self._begun = True
        try:
            await self._made.asend(None)
        except StopAsyncIteration:
            raise _never_yielded(self._name) from None

    async def asend(self, value: object) -> object:
        """Send *value* to where it waits; returns the next value that it yields."""
        await self._prime()
        return await self._made.asend(value)

    async def athrow(self, *error: Any) -> object:
        """Raise *error* where it waits; returns the next value that it yields."""
        await self._prime()
        return await self._made.athrow(*error)

    async def aclose(self) -> None:
        """End it."""
        self._begun = True
        await self._made.aclose()


def _never_yielded(name: str) -> RunError:
    return RunError(
        f"{name}() ended before its first `yield`, to which auto_prime=True runs it; let it yield "
        f"first, or leave auto_prime=True out"
    )
