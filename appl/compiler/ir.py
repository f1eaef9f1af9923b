"""The two forms a prompt function is lowered to: a call graph, and Python code over ``Hooks``.

Invariant: a ``Graph`` that left this package has passed ``verify``; lowered code reaches the
runtime through the methods of ``Hooks`` and in no other way.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Any, Protocol

HOOKS_NAME = "@appl"  # how printed code names the hooks; no identifier, so no user name can clash
PLACEHOLDER = "\0@appl\0"  # the constant of lowered code in whose place the hooks are put


class Hooks(Protocol):
    """What lowered code calls, written ``@appl.name(...)`` in its printed form.

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

    def prep(self, f: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Callable[[], Any]:
        """``f(*args, **kwargs)`` made ready: waits for what *f* needs finished.

        The user's code calls the result, so that no frame stands between caller and callee.
        """

    def wait(self, value: Any, /) -> Any:
        """The finished value, resolved as ``prep`` resolves an argument: also in containers."""

    def items(self, generator: Generator[Any, None, None] | AsyncGenerator[Any, None], /) -> Any:
        """A generator expression that is an argument: ``prep`` passes it on.

        A callee that takes futures gets the generator itself, any other one that waits for
        each element.
        """

    def region(self) -> AbstractContextManager[Any]:
        """Around the body of a ``try``: leaving it waits for the calls started inside."""

    def scope(self, manager: Any, /) -> Any:
        """Around a ``with`` item: one of ours as it is, any other with a region inside it."""

    def aprep(
        self, f: Callable[..., Any], /, *args: Any, **kwargs: Any
    ) -> Awaitable[Callable[[], Any]]:
        """``prep`` in an ``async def``: waits without blocking the loop."""

    def await_(self, value: Any, /) -> Awaitable[Any]:
        """The finished value if *value* itself is a future; containers are not searched."""

    def await_all(self, value: Any, /) -> Awaitable[Any]:
        """``wait`` in an ``async def``: the finished value, also in containers."""

    def abase(self, value: Any, name: str, /) -> Awaitable[Any]:
        """The object whose attribute *name* is read.

        A future stays itself for its own attributes that do not wait, else it is finished first.
        """

    def aregion(self) -> AbstractAsyncContextManager[Any]:
        """``region`` in an ``async def``."""

    def ascope(self, manager: Any, /) -> AbstractAsyncContextManager[Any]:
        """``scope`` for an item of ``async with``."""

    def mixed(self, manager: Any, /) -> AbstractAsyncContextManager[Any]:
        """``scope`` for an item of a plain ``with`` in an ``async def``.

        Enters and leaves the synchronous *manager* and waits for its region asynchronously.
        """


HOOK_NAMES = frozenset(name for name in vars(Hooks) if not name.startswith("_"))
AWAITED_HOOKS = frozenset({"aprep", "await_", "await_all", "abase"})
