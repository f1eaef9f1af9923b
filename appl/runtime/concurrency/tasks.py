"""asyncio tasks get addresses: a task made inside a run is a scope named after its coroutine.

Invariant: the loop's own task factory still makes every task; it is put back when the run is over.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine, Generator
from contextlib import suppress
from contextvars import Context, copy_context
from types import FrameType
from typing import Any

from appl.prompt import digest_of
from appl.runtime.concurrency.promise import Proxy
from appl.runtime.concurrency.scopes import OWN_CODE, is_plain
from appl.runtime.frame import FRAME, Frame

Startable = Coroutine[object, object, object] | Generator[Any, None, Any]


class ScopedTasks:
    """Makes a task as *loop* would, in a scope of its own when it is made inside a run."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop, self._before = loop, loop.get_task_factory()
        loop.set_task_factory(self)
        self._call_at: Any = None
        with suppress(AttributeError):  # a loop that is not written in Python
            self._call_at, loop.call_at = loop.call_at, self._timer  # type: ignore[method-assign]
            if _has_timers(loop):
                from appl.runtime.concurrency.loop_timers import adopt

                adopt(loop, self._call_at)

    def restore(self) -> None:
        """Put the loop's own factory back."""
        # Another library may have put a factory of its own around this one: it stays.
        if self._loop.get_task_factory() is self:
            self._loop.set_task_factory(self._before)
        if getattr(self._loop, "__dict__", {}).get("call_at") == self._timer:
            del self._loop.call_at

    def _timer(
        self,
        when: float,
        callback: Callable[..., object],
        *args: object,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """Set a timer as the loop would; one that is set inside a run is a moment of it."""
        frame = FRAME.get()
        if frame is None or frame.run.closed or frame.run.outside.forgets:
            timer: asyncio.TimerHandle = self._call_at(when, callback, *args, context=context)
            return timer
        from appl.runtime.concurrency.loop_timers import ScopedTimer as scoped

        handle: asyncio.TimerHandle = scoped(
            when, callback, args, self._loop, context, self._call_at, frame
        )
        return handle

    def __call__(self, loop: asyncio.AbstractEventLoop, coro: Startable, **kwargs: Any) -> Any:
        if isinstance(coro, Proxy):  # create_task(ask(...)): asyncio takes nothing but coroutines
            coro = _value_of(coro)
        frame = FRAME.get()
        is_addressed = getattr(coro, "cr_code", None) in OWN_CODE
        if frame is not None and kwargs.get("context") is None and not is_addressed:
            context = copy_context()
            context.run(FRAME.set, _scope(frame, coro))
            kwargs["context"] = context
        if self._before is not None:
            return self._before(loop, coro, **kwargs)
        return asyncio.Task(coro, loop=loop, **kwargs)


def _has_timers(loop: asyncio.AbstractEventLoop) -> bool:
    """True if *loop* has timers, also if one is due and about to run."""
    due = (isinstance(handle, asyncio.TimerHandle) for handle in getattr(loop, "_ready", ()))
    return bool(getattr(loop, "_scheduled", ())) or any(due)


async def _value_of(future: Any) -> object:
    return await future


OWN_CODE.add(_value_of.__code__)


def _scope(frame: Frame, coro: Startable) -> Frame:
    name = getattr(coro, "__qualname__", type(coro).__name__).replace("/", "_")
    if _in_any_order():
        name += "~" + digest_of(_arguments(coro))[:4].hex()
    scope = Frame(frame.run, frame, frame.issue(name), frame.prompt, frame.voice, frame.regions)
    scope.started = frame.started
    return scope


_MAKERS = (asyncio.tasks.__file__, asyncio.base_events.__file__)


def _in_any_order() -> bool:
    """True if ``asyncio.as_completed`` makes this task: it goes through a set of coroutines."""
    maker: FrameType | None = sys._getframe(3)
    while maker is not None and maker.f_code.co_filename in _MAKERS:
        if maker.f_code.co_name == "as_completed":
            return True
        maker = maker.f_back
    return False


def _arguments(coro: Startable) -> str:
    """The plain values that a coroutine which has not begun was called with."""
    frame = getattr(coro, "cr_frame", None)
    values = frame.f_locals if frame is not None else {}
    return repr({name: value for name, value in values.items() if is_plain(value)})
