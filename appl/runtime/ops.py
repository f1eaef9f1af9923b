"""The hooks: the operations of the language that compiled code calls.

Invariant: one object for the process, without state; what it acts on is the current frame.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from functools import partial
from sys import _getframe
from types import TracebackType
from typing import Any

from appl.compiler.hooks import CompiledMark
from appl.errors import RunError
from appl.runtime.concurrency.future import OWN_NAMES
from appl.runtime.concurrency.promise import Proxy
from appl.runtime.concurrency.promise_values import awaited
from appl.runtime.concurrency.region import Region
from appl.runtime.frame import FRAME, Frame, PromptWriter
from appl.runtime.prompts import say as saying
from appl.runtime.prompts.roles import Spoken
from appl.runtime.resolve import (
    PLAIN,
    Items,
    aprepared,
    aresolve,
    needs_answers,
    prepared,
    resolve,
    taking_futures,
)

_PLAIN = PLAIN


def _frame() -> Frame:
    frame = FRAME.get()
    if frame is None or frame.parent is None:
        raise _outside()
    return frame


def _outside() -> RunError:
    return RunError("this prompt text is outside of every running @ppl function")


def _catching() -> Region | None:
    """The region around the running statement, if its calls are still to be answered."""
    frame = FRAME.get()
    if frame is None or not frame.regions:
        return None
    region = frame.regions[-1]
    if region.due and region.belongs_to(frame):
        assert isinstance(region, Region)
        return region
    return None


class Ops(CompiledMark):
    """See :class:`appl.compiler.hooks.Hooks` for what each operation means."""

    __slots__ = ()

    def __reduce__(self) -> str:
        return "OPS"  # compiled code is known by it, in other processes too

    def text(self, text: str, /) -> None:
        frame, here = FRAME.get(), _getframe(1)
        if frame is None or frame.parent is None:
            raise _outside()
        frame.prompt.say(frame.voice, text, True, (here.f_code, here.f_lasti))

    def begin(self) -> None:
        frame, here = _frame(), _getframe(1)
        frame.fresh, frame.site = True, (here.f_code, here.f_lasti)

    # ``begin`` has seen that there is a frame, which is that of the whole statement.

    def piece(self, text: str, /) -> None:
        frame: Any = FRAME.get()
        frame.prompt.say(frame.voice, text, frame.fresh, frame.site)
        frame.fresh = False

    def hole(self, value: object, conversion: str, spec: str, /) -> None:
        frame: Any = FRAME.get()
        part = saying.part_of(frame, value, conversion, spec)
        frame.prompt.say(frame.voice, part, frame.fresh, frame.site)
        frame.fresh = False

    def say(self, value: object, /) -> None:
        here = _getframe(1)
        saying.say(_frame(), value, (here.f_code, here.f_lasti))

    def said(self, value: object, /) -> None:
        if value is not None:
            here = _getframe(1)
            saying.said(_frame(), value, (here.f_code, here.f_lasti))

    def prep(
        self, f: Callable[..., object], /, *args: object, **kwargs: object
    ) -> Callable[[], object]:
        if _PLAIN.issuperset(map(type, args)) and (
            not kwargs or _PLAIN.issuperset(map(type, kwargs.values()))
        ):
            return partial(f, *args, **kwargs)
        made: Callable[[], object] = prepared(f, args, kwargs)
        return made

    def gprep(
        self, f: Callable[..., object], /, *args: object, **kwargs: object
    ) -> Callable[[], object]:
        region = _catching()
        if region is not None and needs_answers(f):
            region.settle()
        return self.prep(f, *args, **kwargs)

    def kept(self, value: object = None, /) -> object:
        region = _catching()
        if region is not None:
            region.settle()
        return value

    def wait(self, value: object, /) -> object:
        return value if type(value) in _PLAIN else resolve(value)

    def items(self, generator: Any, /) -> object:
        return Items(generator)

    def region(self, catches: bool, /) -> AbstractContextManager[Any]:
        return Region(catches)

    def scope(self, manager: object, /) -> Any:
        return manager if isinstance(manager, Spoken) else _Scope(manager)

    async def aprep(
        self, f: Callable[..., object], /, *args: object, **kwargs: object
    ) -> Callable[[], object]:
        if _PLAIN.issuperset(map(type, args)) and (
            not kwargs or _PLAIN.issuperset(map(type, kwargs.values()))
        ):
            return partial(f, *args, **kwargs)
        made: Callable[[], object] = await aprepared(f, args, kwargs)
        return made

    async def agprep(
        self, f: Callable[..., object], /, *args: object, **kwargs: object
    ) -> Callable[[], object]:
        region = _catching()
        if region is not None and needs_answers(f):
            await region.asettle()
        return await self.aprep(f, *args, **kwargs)

    async def akept(self, value: object = None, /) -> object:
        region = _catching()
        if region is not None:
            await region.asettle()
        return value

    async def await_(self, value: object, /) -> Any:
        return await awaited(value._pending) if isinstance(value, Proxy) else value

    async def await_all(self, value: object, /) -> Any:
        return await aresolve(value)

    async def abase(self, value: object, name: str, /) -> Any:
        if isinstance(value, Proxy) and name not in OWN_NAMES:
            finished = await awaited(value._pending)
            return value if hasattr(type(value), name) else finished
        return value

    def aregion(self, catches: bool, /) -> AbstractAsyncContextManager[Any]:
        return Region(catches)

    def ascope(self, manager: object, /) -> AbstractAsyncContextManager[Any]:
        return manager if isinstance(manager, Spoken) else _AsyncScope(manager)

    def mixed(self, manager: object, /) -> AbstractAsyncContextManager[Any]:
        return manager if isinstance(manager, Spoken) else _Mixed(manager)


Kind = type[BaseException] | None


def _supports(manager: Any, *methods: str) -> None:
    """Refuse an object that is no context manager, as Python does."""
    if not all(hasattr(type(manager), method) for method in methods):
        which = "asynchronous " * methods[0].startswith("__a")
        call = isinstance(manager, type) and issubclass(manager, Spoken)
        raise TypeError(
            f"{type(manager).__name__!r} object does not support the {which}context manager "
            f"protocol" + (f"; write `with {manager.__name__}():`" if call else "")
        )


class _Scope:
    """A manager that is not ours, with a region inside it."""

    __slots__ = ("_manager", "_region")

    def __init__(self, manager: Any) -> None:
        self._manager = manager

    def __enter__(self) -> Any:
        _supports(self._manager, "__enter__", "__exit__")
        entered = type(self._manager).__enter__(self._manager)
        self._region = Region(True)
        self._region.__enter__()
        return entered

    def __exit__(
        self, kind: Kind, error: BaseException | None, traceback: TracebackType | None
    ) -> object:
        try:
            self._region.__exit__(kind, error, traceback)
        except BaseException as other:
            if not type(self._manager).__exit__(
                self._manager, type(other), other, other.__traceback__
            ):
                raise
            return True
        return type(self._manager).__exit__(self._manager, kind, error, traceback)


class _AsyncScope:
    """An async manager that is not ours, with a region inside it."""

    __slots__ = ("_manager", "_region")

    def __init__(self, manager: Any) -> None:
        self._manager = manager

    async def _enter_manager(self) -> Any:
        _supports(self._manager, "__aenter__", "__aexit__")
        return await type(self._manager).__aenter__(self._manager)

    async def _exit_manager(self, *error: object) -> object:
        return await type(self._manager).__aexit__(self._manager, *error)

    async def __aenter__(self) -> Any:
        entered = await self._enter_manager()
        self._region = Region(True)
        self._region.__enter__()
        return entered

    async def __aexit__(
        self, kind: Kind, error: BaseException | None, traceback: TracebackType | None
    ) -> Any:
        try:
            await self._region.__aexit__(kind, error, traceback)
        except BaseException as other:
            if not await self._exit_manager(type(other), other, other.__traceback__):
                raise
            return True
        return await self._exit_manager(kind, error, traceback)


class _Mixed(_AsyncScope):
    """A plain manager in an async function."""

    __slots__ = ()

    async def _enter_manager(self) -> Any:
        _supports(self._manager, "__enter__", "__exit__")
        return type(self._manager).__enter__(self._manager)

    async def _exit_manager(self, *error: object) -> object:
        return type(self._manager).__exit__(self._manager, *error)


OPS = Ops()


@taking_futures
def grow(content: object, *, _ctx: PromptWriter | None = None) -> None:
    """Add *content* to the prompt, or to *_ctx*: what the bare statement ``content`` does."""
    here = _getframe(1)
    writer = _ctx if _ctx is not None else _frame()
    saying.say(writer, content, (here.f_code, here.f_lasti))
