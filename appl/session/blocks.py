"""Context managers that are runs: one definition for ``with`` and ``async with``.

Invariant: the run ends before its surroundings do; in a coroutine this does not block the loop.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, AsyncExitStack, ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar

from appl.runtime.concurrency.fiber import loop_here

if TYPE_CHECKING:
    from appl.runtime.run import Run
    from appl.runtime.world import World

T = TypeVar("T")
P = ParamSpec("P")


class RunBlock(Generic[T]):
    """A context manager for a run and its surroundings, to be used once."""

    def __init__(self, around: AbstractContextManager[tuple[Run, T]]) -> None:
        self._around = around
        self._stack, self._later = ExitStack(), AsyncExitStack()

    def __enter__(self) -> T:
        with ExitStack() as stack:
            run, value = stack.enter_context(self._around)
            stack.enter_context(run)
            self._stack = stack.pop_all()
        return value

    def __exit__(self, *error: Any) -> None:
        self._stack.__exit__(*error)

    async def __aenter__(self) -> T:
        loop_here()
        async with AsyncExitStack() as stack:
            run, value = self._around.__enter__()
            stack.push_async_exit(self._leave)
            await stack.enter_async_context(run)
            self._later = stack.pop_all()
        return value

    async def __aexit__(self, *error: Any) -> None:
        await self._later.__aexit__(*error)

    async def _leave(self, *error: Any) -> None:
        await asyncio.to_thread(self._around.__exit__, *error)


def block(around: Callable[P, Iterator[tuple[Run, T]]]) -> Callable[P, RunBlock[T]]:
    """Turn a generator of a run and the block's value into a function that makes blocks."""
    manager = contextmanager(around)

    @functools.wraps(around)
    def made(*args: P.args, **options: P.kwargs) -> RunBlock[T]:
        return RunBlock(manager(*args, **options))

    return made


@contextmanager
def settled(world: World) -> Iterator[None]:
    """Raise the divergence of *world*, even if the program swallowed it or failed of it."""
    try:
        yield
    except Exception:
        if (difference := world.difference()) is not None:
            raise difference from None
        raise
    if (difference := world.difference()) is not None:
        raise difference
