"""A backend is closed on the I/O loop before its run returns, whichever thread runs the loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator

import pytest

import appl
from appl import gen, ppl
from appl.testing import Echo, on_backend_loop

closed = list[int]()


class Noted(Echo):
    """Notes for each end the thread that it came on."""

    async def aclose(self) -> None:
        closed.append(threading.get_ident())


class Slow(Noted):
    """Its end waits for another thread."""

    async def aclose(self) -> None:
        await asyncio.get_running_loop().run_in_executor(None, threading.Event().wait, 0.01)
        await super().aclose()


class Failing(Echo):
    """Its end fails."""

    async def aclose(self) -> None:
        raise ConnectionResetError("it was gone already")


@pytest.fixture(autouse=True)
def settings() -> Iterator[None]:
    """No run is recorded; nothing is closed yet."""
    closed.clear()
    appl.init(trace=False)
    yield
    appl.init(backend=None, trace=None)


@ppl
def ask(question: str) -> str:
    f"{question}"
    return str(gen())


def plainly() -> None:
    for _ in range(3):  # from the second one on the loop is lent to this thread
        appl.run(ask, "one")


def blocking_a_loop() -> None:
    async def main() -> None:
        with appl.record():
            await asyncio.sleep(0)

    for _ in range(3):
        asyncio.run(main())


def in_a_loop() -> None:
    async def main() -> None:
        for _ in range(3):
            await appl.run(ask, "one")

    asyncio.run(main())


def on_a_thread() -> None:
    thread = threading.Thread(target=plainly)
    thread.start()
    thread.join()


@pytest.mark.parametrize("backend", [Noted, Slow])
@pytest.mark.parametrize("program", [plainly, blocking_a_loop, in_a_loop, on_a_thread])
def test_a_backend_is_closed_on_its_loop_before_the_run_returns(
    program: Callable[[], None], backend: type[Noted]
) -> None:
    appl.init(backend=f"{__name__}:{backend.__name__}")
    program()
    assert closed == [on_backend_loop(threading.get_ident)] * 3


def test_whoever_closes_a_backend_gets_its_error() -> None:
    appl.init(backend=f"{__name__}:Failing")
    for _ in range(3):
        with pytest.raises(ConnectionResetError, match="gone already"):
            appl.run(ask, "one")
