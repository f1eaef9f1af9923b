"""What programs are told from outside comes through their world, whatever backend answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from appl import call, gen, observe, ppl
from appl import map as appl_map
from appl import sleep as appl_sleep
from appl.backend import Backend, Emit, Profile, Request, Response
from appl.runtime.run import Run
from appl.runtime.world import World
from appl.testing import Echo
from appl.tracing import Recorder, Replayer, profile_data
from appl.tracing.replaying.rerunner import Rerunner
from appl.tracing.replaying.resumer import Resumer


class Wrapped:
    """A backend around a backend that has what ``Backend`` declares, and nothing else."""

    def __init__(self, backend: Backend) -> None:
        self._backend, self.requests = backend, list[Request]()

    @property
    def profile(self) -> Profile:
        return self._backend.profile

    async def complete(self, request: Request, emit: Emit | None = None) -> Response:
        self.requests.append(request)
        return await self._backend.complete(request, emit)

    async def aclose(self) -> None:
        await self._backend.aclose()


@ppl
def ask(word: str) -> str:
    f"{word}"
    return str(gen())


def side_by_side() -> list[str]:
    return appl_map(ask, ["one", "two", "three"])


@ppl
def streamed() -> str:
    "four"
    return "".join(gen(stream=True).text_stream)


async def in_tasks() -> list[str]:
    started = [call(ask, word) for word in ("five", "six")]
    return [await each for each in started]


PROGRAMS: dict[str, Callable[[], Any]] = {
    "side by side": side_by_side,
    "streamed": streamed,
    "asynchronous": lambda: asyncio.run(in_tasks()),
}


def recorded(path: Path, program: Callable[[], Any]) -> Any:
    backend = Wrapped(Echo())
    recorder = Recorder(path, {"profile": profile_data(backend.profile)}, durability="process")
    with Run(backend, instruments=[recorder], gate=recorder.gate, barrier=recorder.barrier):
        value = program()
    recorder.close()
    assert backend.requests
    return value


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_a_backend_in_a_wrapper_is_replayed_resumed_and_rerun(tmp_path: Path, program: Any) -> None:
    path = tmp_path / "a.trace"
    value = recorded(path, program)
    replayer = Replayer(path)
    worlds: list[tuple[World, Backend]] = [
        (replayer, replayer.backend), (Resumer(path), Echo()), (Rerunner(path), Echo())
    ]  # fmt: skip
    for world, backend in worlds:
        wrapped = Wrapped(backend)
        watching: list[Any] = [world]
        with Run(wrapped, instruments=watching, world=world):
            assert program() == value
        assert not wrapped.requests
    replayer.finish()


class Broken(Replayer):
    """A replay that cannot hand over what comes next, once so much has been handed over."""

    def __init__(self, path: Path, before: int) -> None:
        super().__init__(path)
        self._left = before

    def idle(self, final: bool = True) -> bool:
        self._left -= 1
        if self._left < 0:
            raise ZeroDivisionError("nothing can be handed over")
        return super().idle(final)


@ppl
def sleeps() -> str:
    appl_sleep(0.001)
    return ask("one")


@ppl
def observes() -> str:
    return str(observe(len, "two")) + ask("one")


@ppl
async def sleeps_in_a_coroutine() -> str:
    await appl_sleep(0.001)
    return await call(ask, "one")


WAITS: dict[str, Callable[[], Any]] = {
    "sleep": sleeps,
    "tool": observes,
    "coroutine": lambda: asyncio.run(sleeps_in_a_coroutine()),
    "call": side_by_side,
}


@pytest.mark.parametrize("before", range(2))
@pytest.mark.parametrize("program", WAITS.values(), ids=WAITS)
def test_a_world_that_cannot_go_on_ends_the_run(tmp_path: Path, program: Any, before: int) -> None:
    path = tmp_path / "a.trace"
    recorded(path, program)
    broken = Broken(path, before)
    with pytest.raises(ZeroDivisionError), Run(broken.backend, world=broken):
        program()
