"""Activations of generators: each step of the user's generator is run in its frame.

Invariant: the frame is the current one from a resume to the next ``yield``, and at no other time.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import AsyncGenerator, Callable, Generator
from contextvars import copy_context
from typing import TYPE_CHECKING, Any

from appl.errors import RunError
from appl.runtime.activation import Body, fail, leave
from appl.runtime.frame import FRAME, Frame

if TYPE_CHECKING:
    from appl.runtime.prompts.state import Turn


def resumed(frame: Frame) -> None:
    """Have a generator go on: what it starts now belongs to the regions of its consumer."""
    caller = FRAME.get()
    own = tuple(region for region in frame.regions if region.belongs_to(frame))
    frame.regions = (*caller.regions, *own) if caller is not None else own


def generate(
    body: Body, frame: Frame, turn: Turn | None, inner: Generator[object, object, object]
) -> Generator[object, object, object]:
    """Drive a generator of *body*: its frame is installed at every resume."""
    step: Callable[[], Any] = functools.partial(inner.send, None)
    begun = False
    try:
        while True:
            resumed(frame)
            token = FRAME.set(frame)
            frame.thread = threading.get_ident()
            try:
                if not begun:
                    begun = True
                    frame.run.tree.suspended[frame] = None
                    if turn is not None:
                        turn.begin()
                    if body.begins or frame.block is not None:
                        body.begun(frame)
                out = step()
            except StopIteration as stop:
                leave(frame)
                return body.in_place_of_none(frame) if stop.value is None else stop.value
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
        fail(frame, error)
        raise
    finally:
        frame.run.tree.suspended.pop(frame, None)
        if turn is not None:
            turn.over()


async def agenerate(
    body: Body, frame: Frame, turn: Turn | None, inner: AsyncGenerator[object, object]
) -> AsyncGenerator[object, object]:
    """Drive an async generator likewise."""
    step: Callable[[], Any] = functools.partial(inner.asend, None)
    begun = False
    try:
        while True:
            resumed(frame)
            token = FRAME.set(frame)
            frame.thread = threading.get_ident()
            try:
                if not begun:
                    begun = True
                    frame.run.tree.suspended[frame] = None
                    if turn is not None:
                        await turn.abegin()
                    if body.begins or frame.block is not None:
                        body.begun(frame)
                out = await step()
            except StopAsyncIteration:
                leave(frame)
                return
            finally:
                try:
                    FRAME.reset(token)
                except ValueError:  # finalised in another context than the one it ran in
                    FRAME.set(None)
            try:
                step = functools.partial(inner.asend, (yield out))
            except GeneratorExit:
                out = step = _no_step
                await inner.aclose()
                raise
            except BaseException as error:
                step = functools.partial(inner.athrow, error)
    except BaseException as error:
        fail(frame, error)
        raise
    finally:
        frame.run.tree.suspended.pop(frame, None)
        if turn is not None:
            turn.over()


def _close(frame: Frame, inner: Generator[object, object, object]) -> None:
    """Close *inner*, in a context of its own: it may be collected at any moment.

    Collection can strike inside ``ContextVar.set``, where setting another value is not safe.
    """
    resumed(frame)
    context = copy_context()
    context.run(FRAME.set, frame)
    context.run(inner.close)


def _no_step() -> None:
    """In place of the next step of a generator that is closed."""


# -- generators as they are handed out


def driven(body: Body, frame: Frame, turn: Turn | None, inner: Any, is_primed: bool) -> Any:
    """A generator, or an async one, that drives *inner*; primed, it has run to its first yield."""
    if isinstance(inner, AsyncGenerator):
        steps = agenerate(body, frame, turn, inner)
        return Primed(body.name, steps) if is_primed else steps
    generator = generate(body, frame, turn, inner)
    if is_primed:
        try:
            next(generator)
        except StopIteration:
            raise _never_yielded(body.name) from None
    return generator


class Primed(AsyncGenerator[object, object]):
    """An async generator that takes its first step by itself, before what it is asked for."""

    def __init__(self, name: str, generator: AsyncGenerator[object, object]) -> None:
        self._name, self._generator, self._begun = name, generator, False

    async def _prime(self) -> None:
        if self._begun:
            return
        self._begun = True
        try:
            await self._generator.asend(None)
        except StopAsyncIteration:
            raise _never_yielded(self._name) from None

    async def asend(self, value: object) -> object:
        """Send *value* to where it waits; returns the next value that it yields."""
        await self._prime()
        return await self._generator.asend(value)

    async def athrow(self, *error: Any) -> object:
        """Raise *error* where it waits; returns the next value that it yields."""
        await self._prime()
        return await self._generator.athrow(*error)

    async def aclose(self) -> None:
        """End it."""
        self._begun = True
        await self._generator.aclose()


def _never_yielded(name: str) -> RunError:
    return RunError(
        f"{name}() ended before its first `yield`, to which auto_prime=True runs it; let it yield "
        f"first, or leave auto_prime=True out"
    )
