"""The hooks: the operations of the language that compiled code calls.

Invariant: one object for the process, without state; what it acts on is the current frame.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from functools import partial
from sys import _getframe
from typing import TYPE_CHECKING, Any, cast

from appl.compiler.hooks import CompiledMark
from appl.errors import RunError
from appl.runtime.concurrency.future import OWN_NAMES, awaited
from appl.runtime.concurrency.promise import Proxy
from appl.runtime.frame import FRAME, Frame, PromptWriter
from appl.runtime.future_takers import PLAIN, taking_futures

if TYPE_CHECKING:
    from appl.runtime.concurrency.region import Region

# What an operation needs is imported by the operation: a program loads the code of those that it
# has. Once loaded, such an import is a look at a table.


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
    return cast("Region", region) if region.due and region.belongs_to(frame) else None


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
        from appl.runtime.prompts.hole import part_of

        frame: Any = FRAME.get()
        part = part_of(frame, value, conversion, spec)
        frame.prompt.say(frame.voice, part, frame.fresh, frame.site)
        frame.fresh = False

    def say(self, value: object, /) -> None:
        from appl.runtime.prompts.say import say

        here = _getframe(1)
        say(_frame(), value, (here.f_code, here.f_lasti))

    def said(self, value: object, /) -> None:
        if value is not None:
            from appl.runtime.prompts.say import add_value

            here = _getframe(1)
            add_value(_frame(), value, (here.f_code, here.f_lasti))

    def prep(
        self, f: Callable[..., object], /, *args: object, **kwargs: object
    ) -> Callable[[], object]:
        if PLAIN.issuperset(map(type, args)) and (
            not kwargs or PLAIN.issuperset(map(type, kwargs.values()))
        ):
            return partial(f, *args, **kwargs)
        from appl.runtime.resolve import prepared

        run: Callable[[], object] = prepared(f, args, kwargs)
        return run

    def gprep(
        self, f: Callable[..., object], /, *args: object, **kwargs: object
    ) -> Callable[[], object]:
        region = _catching()
        if region is not None:
            from appl.runtime.resolve import needs_answers

            if needs_answers(f):
                region.settle()
        return self.prep(f, *args, **kwargs)

    def kept(self, value: object = None, /) -> object:
        region = _catching()
        if region is not None:
            region.settle()
        return value

    def wait(self, value: object, /) -> object:
        if type(value) in PLAIN:
            return value
        from appl.runtime.resolve import resolve

        return resolve(value)

    def items(self, generator: Any, /) -> object:
        from appl.runtime.resolve import Items

        return Items(generator)

    def region(self, catches: bool, /) -> AbstractContextManager[Any]:
        from appl.runtime.concurrency.region import Region

        return Region(catches)

    def scope(self, manager: object, /) -> Any:
        from appl.runtime.prompts.roles import Spoken

        if isinstance(manager, Spoken):
            return manager
        from appl.runtime.foreign_managers import Scope

        return Scope(manager)

    async def aprep(
        self, f: Callable[..., object], /, *args: object, **kwargs: object
    ) -> Callable[[], object]:
        if PLAIN.issuperset(map(type, args)) and (
            not kwargs or PLAIN.issuperset(map(type, kwargs.values()))
        ):
            return partial(f, *args, **kwargs)
        from appl.runtime.resolve import aprepared

        run: Callable[[], object] = await aprepared(f, args, kwargs)
        return run

    async def agprep(
        self, f: Callable[..., object], /, *args: object, **kwargs: object
    ) -> Callable[[], object]:
        region = _catching()
        if region is not None:
            from appl.runtime.resolve import needs_answers

            if needs_answers(f):
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
        if type(value) in PLAIN:
            return value
        from appl.runtime.resolve import aresolve

        return await aresolve(value)

    async def abase(self, value: object, name: str, /) -> Any:
        if isinstance(value, Proxy) and name not in OWN_NAMES:
            finished = await awaited(value._pending)
            return value if hasattr(type(value), name) else finished
        return value

    def aregion(self, catches: bool, /) -> AbstractAsyncContextManager[Any]:
        from appl.runtime.concurrency.region import Region

        return Region(catches)

    def ascope(self, manager: object, /) -> AbstractAsyncContextManager[Any]:
        from appl.runtime.prompts.roles import Spoken

        if isinstance(manager, Spoken):
            return manager
        from appl.runtime.foreign_managers import AsyncScope

        return AsyncScope(manager)

    def mixed(self, manager: object, /) -> AbstractAsyncContextManager[Any]:
        from appl.runtime.prompts.roles import Spoken

        if isinstance(manager, Spoken):
            return manager
        from appl.runtime.foreign_managers import MixedScope

        return MixedScope(manager)


OPS = Ops()


@taking_futures
def grow(content: object, *, _ctx: PromptWriter | None = None) -> None:
    """Add *content* to the prompt, or to *_ctx*: what the bare statement ``content`` does."""
    from appl.runtime.prompts.say import say

    here = _getframe(1)
    writer = _ctx if _ctx is not None else _frame()
    say(writer, content, (here.f_code, here.f_lasti))
