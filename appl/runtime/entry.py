"""``run``: a program as a run, or as a part of the run around it, also from a running loop.

Invariant: when it returns, everything that it started has ended, but for the answer whose stream
it returns.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Awaitable, Callable, Generator
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast, overload

from appl.base import services
from appl.errors import CallCancelled, InvalidOption
from appl.runtime.answers.stream import TextStream
from appl.runtime.concurrency.fiber import Fiber, arrive, hub_here, in_coroutine, run_on
from appl.runtime.concurrency.future import awaited
from appl.runtime.concurrency.parallel import is_async, name_of
from appl.runtime.concurrency.promise import Error, Promise, Stop, Value
from appl.runtime.concurrency.running import Running
from appl.runtime.concurrency.scopes import call_in_words
from appl.runtime.frame import FRAME, NestedFrame, enclosing_run

P = ParamSpec("P")
R = TypeVar("R")

if TYPE_CHECKING:
    from appl.runtime.concurrency.parallel import Later

    class Ran(Awaitable[R], Any):  # type: ignore[misc]
        """The value of a program, or in a coroutine what has to be awaited for it."""

        def __await__(self) -> Generator[object, None, R]: ...


@overload
def run(f: Callable[..., Later[R]], /, *args: Any, own: bool, **kwargs: Any) -> Ran[R]: ...
@overload
def run(f: Callable[..., R], /, *args: Any, own: bool, **kwargs: Any) -> Ran[R]: ...
@overload
def run(
    f: Callable[..., Later[R]], /, *args: Any, batch: bool | str, own: bool = ..., **kwargs: Any
) -> Ran[R]: ...
@overload
def run(
    f: Callable[..., R], /, *args: Any, batch: bool | str, own: bool = ..., **kwargs: Any
) -> Ran[R]: ...
@overload
def run(f: Callable[P, Later[R]], /, *args: P.args, **kwargs: P.kwargs) -> Ran[R]: ...
@overload
def run(f: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Ran[R]: ...


def run(f: Callable[..., object], /, *args: object, **kwargs: object) -> object:
    """Run ``f(*args, **kwargs)`` as a run, and return its value.

    ``value = appl.run(f, x)``; in a coroutine, a notebook or an async server,
    ``value = await appl.run(f, x)``.

    A synchronous *f* then waits without blocking the loop. The run is recorded like any other.
    Everything that it started has ended when it returns, unless *f* returns the ``text_stream`` of
    an answer: that goes on, and the record is complete when it has ended.

    Inside of another run it is a part of that, with its settings, budgets and trace, at the address
    ``/…/run.N``. ``own=True`` makes it a run of its own there, too, as each request of a server is.
    With ``batch=True`` its calls that can wait are answered in batches, for half the price; with
    ``batch="6h"`` those that are not answered by then are asked at once. Such a run is its own.
    (An *f* that has a parameter of these names gets it instead.)
    """
    if not callable(f):
        raise InvalidOption(
            f"appl.run(f, ...) takes a function and its arguments, got {f!r:.80}; write "
            "appl.run(f, x), not appl.run(f(x))"
        )
    own = "own" in kwargs and not _has(f, "own") and bool(kwargs.pop("own"))
    options: dict[str, object] = {}
    if "batch" in kwargs and not _has(f, "batch") and (batch := kwargs.pop("batch")):
        options["batch"], own = batch, True
    around = None if own else enclosing_run()
    if around is not None and around.nests:
        from appl.runtime import nested  # only a run inside a run needs it

        block = nested.NestedRun(cast(Any, around), call_in_words, name_of(f), args)
    else:
        block = None
    opened = (
        (lambda: block)
        if block is not None
        else lambda: services.sessions().record(own=True, **options)
    )
    if in_coroutine():
        blocking = functools.partial(_run_here, opened, f, args, kwargs)
        return Running(_run_in_loop(opened, f, args, kwargs), None if is_async(f) else blocking)
    return _run_here(opened, f, args, kwargs)


def _has(f: Callable[..., object], name: str) -> bool:
    """True if *f* has a parameter that is called *name*."""
    try:
        return name in inspect.signature(f).parameters
    except (TypeError, ValueError):  # a builtin
        return False


def _run_here(
    opened: Callable[[], Any],
    f: Callable[..., Any],
    args: tuple[object, ...],
    kwargs: dict[str, object],
) -> object:
    with opened() as block:
        value = asyncio.run(_scoped(f(*args, **kwargs))) if is_async(f) else f(*args, **kwargs)
        return _exempt(block, value)


async def _scoped(program: Awaitable[object]) -> object:
    """Await *program* on a loop of its own, whose tasks have addresses."""
    frame = FRAME.get()
    if isinstance(frame, NestedFrame):
        frame.run.tree.scope_tasks()
    return await program


def _exempt(block: Any, value: object) -> object:
    if isinstance(value, TextStream):
        spare = getattr(block, "spare", None) or block.run.spare
        spare(value.pending)
    return value


async def _run_in_loop(
    opened: Callable[[], Any],
    f: Callable[..., object],
    args: tuple[object, ...],
    kwargs: dict[str, object],
) -> object:
    async with opened() as block:
        return _exempt(block, await asynchronously(f, *args, **kwargs))


async def asynchronously(f: Callable[..., Any], /, *args: object, **kwargs: object) -> object:
    """The result of *f* in a coroutine: a synchronous *f* runs in a fiber of the loop."""
    if is_async(f):
        return await f(*args, **kwargs)
    program = _Program()
    program.fiber = fiber = Fiber(
        hub_here(),
        lambda: program.perform(lambda: f(*args, **kwargs)),
        copy_context(),
        program.broken_off,
    )
    fiber.start()
    try:
        await arrive(program)
    except asyncio.CancelledError:
        program.cancel()
        await arrive(program)
        raise
    return await awaited(program)


class _Program(Promise):
    """A synchronous function in a fiber of a loop."""

    __slots__ = ("fiber",)

    def __init__(self) -> None:
        super().__init__("the program", hub_here())
        self.fiber: Fiber | None = None

    def perform(self, body: Callable[[], object]) -> None:
        """Call *body*; in the fiber."""
        try:
            outcome: Value | Error = Value(body())
        except (KeyboardInterrupt, SystemExit):
            self.conclude(Error(CallCancelled("the program was interrupted")))
            raise
        except Stop:
            outcome = Error(CallCancelled("the program was cancelled"))
        except BaseException as error:
            outcome = Error(error)
        self.conclude(outcome)

    def broken_off(self) -> None:
        """End the wait for it: a Ctrl-C may have come where no program ran."""
        self.conclude(Error(CallCancelled("the program was interrupted")))
        self.deliver()

    def cancel(self) -> None:
        fiber = self.fiber
        if fiber is not None and not self.done:
            run_on(fiber.hub, lambda: None if self.done else fiber.throw(Stop()))
