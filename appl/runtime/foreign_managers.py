"""Managers of others in a ``with`` of a prompt function: each has a region inside it.

Invariant: the calls that the body has started have an end before the manager is left.
"""

from __future__ import annotations

from types import TracebackType
from typing import Any

from appl.runtime.concurrency.region import Region
from appl.runtime.prompts.roles import Spoken

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


class Scope:
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


class AsyncScope:
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


class MixedScope(AsyncScope):
    """A plain manager in an async function."""

    __slots__ = ()

    async def _enter_manager(self) -> Any:
        _supports(self._manager, "__enter__", "__exit__")
        return type(self._manager).__enter__(self._manager)

    async def _exit_manager(self, *error: object) -> object:
        return type(self._manager).__exit__(self._manager, *error)
