"""``@ppl``: where the compiler meets the runtime.

Invariant: what is decorated stays what it was (its name, signature, kind and place as a method),
and its address is taken when it is called, whatever runs it later.
"""

from __future__ import annotations

import functools
import inspect
import sys
import threading
from collections.abc import AsyncGenerator, Callable, Generator
from contextvars import copy_context
from types import FunctionType
from typing import Any, Literal, ParamSpec, TypeVar, cast, overload

from appl.compiler import Options, Translated, rebuild, require_function, translate
from appl.errors import RunError
from appl.prompt import RoleName
from appl.runtime import activation
from appl.runtime.activation import CONTEXTS, Turn
from appl.runtime.context import PromptRecords
from appl.runtime.fiber import hub_here, strand_here
from appl.runtime.frame import FRAME, Frame
from appl.runtime.future import Future
from appl.runtime.ops import OPS
from appl.runtime.run import here
from appl.runtime.task import Task, context_for
from appl.runtime.tasks import OWN_CODE

P = ParamSpec("P")
R = TypeVar("R")
F = TypeVar("F", bound=Callable[..., Any])


class Program:
    """A decorated function: its rebuilt body, and how its activations begin and end."""

    def __init__(
        self, f: FunctionType, ctx: str, docstring_as: RoleName | None, default_return: str | None,
        parallel: bool, auto_prime: bool,
    ) -> None:  # fmt: skip
        options = Options(ctx=ctx, parallel=parallel, docstring_as=docstring_as)
        self.translated: Translated = translate(f, options)
        self.body = rebuild(f, self.translated, OPS)
        self.name, self.kind, self.ctx = f.__name__, self.translated.kind, ctx
        self.file, self.line = self.translated.file, self.translated.line
        self.docstring_as, self.default_return = docstring_as, default_return
        self.parallel, self.auto_prime = parallel, auto_prime
        self._class = _class_of(f)
        self.function: Any = f

    # -- one activation

    def enter(
        self, args: tuple[Any, ...], ctx: str | None, beside: bool = False
    ) -> tuple[Frame, Turn | None]:
        """The frame of a call with *args*, made where the call stands."""
        caller = here(lambda: f"{self.name} {args!r:.400}")
        ctx = ctx or self.ctx
        owner = self._owner(args) if ctx == "resume" else None
        return activation.enter(
            caller, self.name, ctx, (self, owner), beside=beside, line=self.line, file=self.file
        )

    def _owner(self, args: tuple[Any, ...]) -> Any:
        """The object that a method is called on."""
        if not args or self._class is None:
            return None
        first = args[0]
        kinds = first.__mro__ if isinstance(first, type) else type(first).__mro__
        for kind in kinds:
            if kind.__qualname__ == self._class:
                static = isinstance(vars(kind).get(self.name), staticmethod)
                return None if static else first
        return None

    def execute(
        self, frame: Frame, turn: Turn | None, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Run the body in *frame*."""
        token = FRAME.set(frame)
        try:
            if turn is not None:
                activation.begin(turn)
            self._say_docstring(frame)
            result = self.body(*args, **kwargs)
        except BaseException as error:
            activation.fail(frame, error)
            raise
        finally:
            FRAME.reset(token)
            if turn is not None:
                turn.over()
        activation.leave(frame)
        return self._returned(frame, result)

    async def aexecute(
        self, frame: Frame, turn: Turn | None, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Run an ``async def`` body in *frame*."""
        token = FRAME.set(frame)
        frame.thread = threading.get_ident()
        try:
            if turn is not None:
                await activation.abegin(turn)
            self._say_docstring(frame)
            result = await self.body(*args, **kwargs)
        except BaseException as error:
            activation.fail(frame, error)
            raise
        finally:
            FRAME.reset(token)
            if turn is not None:
                turn.over()
        activation.leave(frame)
        return self._returned(frame, result)

    def generate(
        self, frame: Frame, turn: Turn | None, inner: Generator[Any, Any, Any]
    ) -> Generator[Any, Any, Any]:
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
                        frame.run.suspended[frame] = None
                        self._begin_generator(frame, turn)
                    out = step()
                except StopIteration as stop:
                    activation.leave(frame)
                    return self._returned(frame, stop.value)
                finally:
                    FRAME.reset(token)
                try:
                    step = functools.partial(inner.send, (yield out))
                except GeneratorExit:
                    out = step = _no_step  # what was yielded last is held by others, or by nobody
                    self._close_generator(frame, inner)
                    raise
                except BaseException as error:
                    step = functools.partial(inner.throw, error)
        except BaseException as error:
            if not frame.ended:
                activation.fail(frame, error)
            raise
        finally:
            frame.run.suspended.pop(frame, None)
            if turn is not None:
                turn.over()

    def _begin_generator(self, frame: Frame, turn: Turn | None) -> None:
        if turn is not None:
            activation.begin(turn)
        self._say_docstring(frame)

    def _close_generator(self, frame: Frame, inner: Generator[Any, Any, Any]) -> None:
        """Close *inner*, in a context of its own: it may be collected at any moment.

        Collection can strike inside ``ContextVar.set``, where setting another value is not safe.
        """
        activation.resumed(frame)
        copy_context().run(_close_in, frame, inner)

    async def agenerate(
        self, frame: Frame, turn: Turn | None, inner: AsyncGenerator[Any, Any]
    ) -> AsyncGenerator[Any, Any]:
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
                        frame.run.suspended[frame] = None
                        if turn is not None:
                            await activation.abegin(turn)
                        self._say_docstring(frame)
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
            if not frame.ended:
                activation.fail(frame, error)
            raise
        finally:
            frame.run.suspended.pop(frame, None)
            if turn is not None:
                turn.over()

    def _say_docstring(self, frame: Frame) -> None:
        if self.docstring_as is not None and self.translated.docstring is not None:
            frame.prompt.append(self.docstring_as, self.translated.docstring)

    def _returned(self, frame: Frame, result: Any) -> Any:
        if result is None and self.default_return == "prompt":
            return PromptRecords(frame)
        return result

    # -- beside the caller

    def spawn(self, args: tuple[Any, ...], kwargs: dict[str, Any], ctx: str | None) -> Future[Any]:
        """Start a call that runs beside its caller."""
        caller = here(lambda: f"{self.name} {args!r:.400}")
        frame, turn = self.enter(args, ctx, beside=True)
        task = Task(frame, hub_here() if self.kind == "async" else strand_here().hub)
        caller.add(task)
        if (ctx or self.ctx) == "same":
            activation.keep_place(caller, frame, task)
        if self.kind == "async":
            task.run_in_loop(self.aexecute(frame, turn, args, kwargs), context_for(frame))
            return Future(task)
        body = functools.partial(self.execute, frame, turn, args, kwargs)
        if caller.run.sequential:
            task.run_here(body, context_for(frame))
        else:
            task.run_in_fiber(body, context_for(frame))
        return Future(task)


def _close_in(frame: Frame, inner: Generator[Any, Any, Any]) -> None:
    FRAME.set(frame)
    inner.close()


def _no_step() -> None:
    """In place of the next step of a generator that is closed."""


def _restore(token: Any) -> None:
    try:
        FRAME.reset(token)
    except ValueError:  # finalised in another context than the one it ran in
        FRAME.set(None)


def _class_of(f: FunctionType) -> str | None:
    """The qualified name of the class that *f* is defined in."""
    outer, _, _ = f.__qualname__.rpartition(".")
    return outer if outer and not outer.endswith("<locals>") else None


OWN_CODE.add(Program.aexecute.__code__)


def _in_body() -> bool:
    """Whether the caller of a parallel function is compiled code of a ``@ppl`` function."""
    frame = sys._getframe(2)
    return any(constant is OPS for constant in frame.f_code.co_consts)


def _sync(program: Program) -> Callable[..., Any]:
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        ctx = kwargs.pop("ctx_method", None)
        if program.parallel and _in_body():
            return program.spawn(args, kwargs, ctx)
        frame, turn = program.enter(args, ctx)
        return program.execute(frame, turn, args, kwargs)

    return wrapper


def _async(program: Program) -> Callable[..., Any]:
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        ctx = kwargs.pop("ctx_method", None)
        if program.parallel and _in_body():
            return program.spawn(args, kwargs, ctx)
        frame, turn = program.enter(args, ctx)
        return program.aexecute(frame, turn, args, kwargs)

    return _marked(wrapper)


def _generator(program: Program) -> Callable[..., Any]:
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        frame, turn = program.enter(args, kwargs.pop("ctx_method", None))
        made = program.generate(frame, turn, program.body(*args, **kwargs))
        if program.auto_prime:
            next(made)
        return made

    return wrapper


def _asyncgen(program: Program) -> Callable[..., Any]:
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        frame, turn = program.enter(args, kwargs.pop("ctx_method", None))
        return program.agenerate(frame, turn, program.body(*args, **kwargs))

    return wrapper


def _marked(wrapper: Callable[..., Any]) -> Callable[..., Any]:
    """Have *wrapper* recognised as a coroutine function."""
    mark = getattr(inspect, "markcoroutinefunction", None)
    if mark is not None:
        return cast("Callable[..., Any]", mark(wrapper))
    wrapper._is_coroutine = sys.modules["asyncio"].coroutines._is_coroutine  # type: ignore[attr-defined]
    return wrapper


_WRAPPERS = {"sync": _sync, "async": _async, "generator": _generator, "asyncgen": _asyncgen}

_ROLES: dict[str, RoleName] = {"user": "user", "system": "system"}


@overload
def ppl(ctx: Callable[P, R], /) -> Callable[P, R]: ...
@overload
def ppl(
    ctx: Literal["new", "copy", "same", "resume"] = "new",
    compositor: Any = None,
    *,
    default_return: Literal["prompt"] | None = None,
    docstring_as: Literal["user", "system"] | None = None,
    parallel: bool = False,
    auto_prime: bool = False,
    num_extra_wrappers: int = 0,
    new_ctx_func: Any = None,
) -> Callable[[Callable[P, R]], Callable[P, R]]: ...


def ppl(
    ctx: Any = "new",
    compositor: Any = None,
    *,
    default_return: str | None = None,
    docstring_as: str | None = None,
    parallel: bool = False,
    auto_prime: bool = False,
    num_extra_wrappers: int = 0,
    new_ctx_func: Any = None,
) -> Any:
    """Make a function a prompt program: its expression statements are its prompt.

    *ctx* is what prompt it works on: ``new``, a ``copy`` of the caller's, the ``same``, or
    ``resume`` where it left off. *docstring_as* says its docstring; *parallel* lets its calls
    run beside their caller; *auto_prime* runs a generator to its first ``yield``.
    *num_extra_wrappers* and *new_ctx_func* are accepted for old programs and do nothing.
    """
    if not isinstance(ctx, str):
        return _decorate(ctx, "new", None, None, False, False)
    name = ctx.removesuffix("_ctx")
    if name not in CONTEXTS:
        raise ValueError(f"@ppl(ctx={ctx!r}): ctx is one of {', '.join(CONTEXTS)}")
    if docstring_as not in (None, *_ROLES):
        raise ValueError(f"@ppl(docstring_as={docstring_as!r}): it is 'user' or 'system'")
    if default_return not in (None, "prompt"):
        raise ValueError(f"@ppl(default_return={default_return!r}): only 'prompt' is known")
    if compositor is not None:
        raise RunError("@ppl(compositor=...) is not there yet")
    role = _ROLES[docstring_as] if docstring_as is not None else None
    return lambda f: _decorate(f, name, role, default_return, parallel, auto_prime)


def _decorate(
    f: Any, ctx: str, docstring_as: RoleName | None, default_return: str | None, parallel: bool,
    auto_prime: bool,
) -> Any:  # fmt: skip
    if isinstance(f, staticmethod | classmethod):
        inner = _decorate(f.__func__, ctx, docstring_as, default_return, parallel, auto_prime)
        return type(f)(inner)
    program = Program(require_function(f), ctx, docstring_as, default_return, parallel, auto_prime)
    wrapper = functools.wraps(f)(_WRAPPERS[program.kind](program))
    wrapper.__appl__ = program  # type: ignore[attr-defined]
    return wrapper
