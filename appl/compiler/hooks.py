"""The interface of lowered code: Python code over ``Hooks``, by which it reaches the runtime.

Invariant: lowered code reaches the runtime through the methods of ``Hooks`` and in no other way.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from types import CodeType
from typing import Any, Protocol

PLACEHOLDER = "\0@appl\0"  # the constant of lowered code in whose place the hooks are put


class CompiledMark:
    """The base of the hooks as an object: the last constant of compiled code is one."""

    __slots__ = ()


def is_compiled(code: CodeType) -> bool:
    """True if *code* is that of the body of a ``@ppl`` function, or of a function inside it."""
    constants = code.co_consts
    return bool(constants) and isinstance(constants[-1], CompiledMark)


def program_of(f: object) -> Any:
    """The program behind a prompt function or method; ``None`` for anything else.

    ``functools.wraps`` copies the mark of a prompt function to a wrapper around it, but not its
    code: by that a wrapper is known to be a function of its own.
    """
    program = getattr(f, "__appl__", None)
    own = program is not None and getattr(f, "__code__", None) is getattr(program, "code", None)
    return program if own else None


class Hooks(Protocol):
    """The functions that lowered code calls, written ``@appl.name(...)`` in its printed form.

    There is one object for the whole process: it becomes a constant of the generated code, so
    it must not refer to a function. All parameters are positional-only.
    """

    def text(self, text: str, /) -> None:
        """A statement that is a string: one item of the prompt."""

    def begin(self) -> None:
        """An f-string statement starts: opens an item for the parts that follow."""

    def piece(self, text: str, /) -> None:
        """A constant part of the open item."""

    def hole(self, value: object, conversion: str, spec: str, /) -> None:
        """A ``{value!conversion:spec}`` part of the open item; a future is not waited for.

        ``conversion`` is ``""``, ``"r"``, ``"s"`` or ``"a"``; ``spec`` is already evaluated.
        """

    def say(self, value: object, /) -> None:
        """The value of an expression statement that is not a call: it must be prompt text."""

    def said(self, value: object, /) -> None:
        """The value of a statement that is a call: prompt text if it is that, else ignored."""

    def prep(
        self, f: Callable[..., object], /, *args: object, **kwargs: object
    ) -> Callable[[], object]:
        """``f(*args, **kwargs)`` made ready: waits for what *f* needs finished.

        The user's code calls the result, so that no frame stands between caller and callee.
        """

    def wait(self, value: object, /) -> object:
        """The finished value, resolved as ``prep`` resolves an argument: also in containers."""

    def items(
        self, generator: Generator[object, None, None] | AsyncGenerator[object, None], /
    ) -> object:
        """A generator expression that is an argument: ``prep`` passes it on.

        A callee that takes futures gets the generator itself, any other one that waits for
        each element.
        """

    def region(self, catches: bool, /) -> AbstractContextManager[object]:
        """Stands around the body of a ``try``; leaving it waits for the calls started inside.

        ``catches``: there are handlers, so each statement waits for the answers of its calls.
        """

    def kept(self, value: object = None, /) -> object:
        """*value* itself, after the calls of this statement are answered; raises their errors.

        It waits only in a body whose exceptions a handler may catch.
        """

    def gprep(
        self, f: Callable[..., object], /, *args: object, **kwargs: object
    ) -> Callable[[], object]:
        """``prep`` in such a body: plain code is called when the calls before it are answered."""

    def scope(self, manager: object, /) -> object:
        """Stands around a ``with`` item: one of ours stays, any other gets a region inside."""

    def aprep(
        self, f: Callable[..., object], /, *args: object, **kwargs: object
    ) -> Awaitable[Callable[[], object]]:
        """``prep`` in an ``async def``: waits without blocking the loop."""

    def await_(self, value: object, /) -> Awaitable[object]:
        """The finished value if *value* itself is a future; containers are not searched."""

    def await_all(self, value: object, /) -> Awaitable[object]:
        """``wait`` in an ``async def``: the finished value, also in containers."""

    def abase(self, value: object, name: str, /) -> Awaitable[object]:
        """The object whose attribute *name* is read.

        A future stays itself for its own attributes that do not wait, else it is finished first.
        """

    def aregion(self, catches: bool, /) -> AbstractAsyncContextManager[object]:
        """``region`` in an ``async def``."""

    def akept(self, value: object = None, /) -> Awaitable[object]:
        """``kept`` in an ``async def``."""

    def agprep(
        self, f: Callable[..., object], /, *args: object, **kwargs: object
    ) -> Awaitable[Callable[[], object]]:
        """``gprep`` in an ``async def``."""

    def ascope(self, manager: object, /) -> AbstractAsyncContextManager[object]:
        """``scope`` for an item of ``async with``."""

    def mixed(self, manager: object, /) -> AbstractAsyncContextManager[object]:
        """``scope`` for an item of a plain ``with`` in an ``async def``.

        Enters and leaves the synchronous *manager* and waits for its region asynchronously.
        """


HOOK_NAMES = frozenset(name for name in vars(Hooks) if not name.startswith("_"))
AWAITED_HOOKS = frozenset({"aprep", "agprep", "akept", "await_", "await_all", "abase"})
