"""What programs are told from outside comes through their world, whatever backend answers."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from appl import call, gen, map as appl_map, observe, ppl, sleep as appl_sleep
from appl.backend import Backend, Emit, Profile, Request, Response
from appl.errors import AuthenticationFailed
from appl.runtime import Call
from appl.runtime.frame import current
from appl.runtime.world import Stepping, World
from appl.testing import (
    Echo,
    Held,
    Instant,
    Late,
    Run,
    Scripted,
    Seeded,
    VirtualClock,
    on_backend_loop,
)
from appl.testing.embedded_server import Served, serving
from appl.tracing import Recorder, Replayer, Rerunner, Resumer, profile_data
from appl_backends.embedded import Embedded
from appl_backends.litellm import LiteLLM
from appl_backends.openai import OpenAI
from appl_backends.sglang import SGLang


class Wrapped:
    """A backend around a backend that has what ``Backend`` declares, and nothing else."""

    def __init__(self, backend: Backend) -> None:
        self._backend, self.requests = backend, list[Request]()
        self.most: int | None = None

    @property
    def profile(self) -> Profile:
        return self._backend.profile

    async def complete(self, request: Request, emit: Emit | None = None) -> Response:
        if len(self.requests) == self.most:
            raise AuthenticationFailed("no more")
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
        with Run(wrapped, world=world):
            assert program() == value
        assert not wrapped.requests
    replayer.finish()


def one_by_one() -> int:
    """Ask many questions, and count the calls of the run that are still there."""
    for number in range(20):
        ask(f"question {number}")
    gc.collect()
    return sum(type(each) is Call and each.run is current() for each in gc.get_objects())


def test_an_answered_call_is_let_go_whoever_answered_it(tmp_path: Path) -> None:
    path = tmp_path / "a.trace"
    live = recorded(path, one_by_one)
    worlds: list[World] = [Replayer(path), Resumer(path), Rerunner(path)]
    kept = []
    for world in worlds:
        with Run(Echo(), world=world):
            kept.append(one_by_one())
    assert max(kept) <= live + 1


# -- around every backend


class Stepped(Wrapped):
    """A wrapper that also has the protocol of backends that answer when all programs wait."""

    def on_idle(self, final: bool = True) -> bool:
        assert isinstance(self._backend, Stepping)
        return self._backend.on_idle(final)


class Released(Wrapped):
    """A wrapper around a backend that answers when told, and is told so at once."""

    async def complete(self, request: Request, emit: Emit | None = None) -> Response:
        assert isinstance(self._backend, Held)
        self._backend.release(*[request.address] * 20)
        return await super().complete(request, emit)


WITHOUT_SERVER: dict[str, Callable[[], Wrapped]] = {
    "echo": lambda: Wrapped(Echo()),
    "scripted": lambda: Wrapped(Scripted(lambda request: request.digest.hex()[:7])),
    "instant": lambda: Wrapped(Instant()),
    "held": lambda: Released(Held()),
    "seeded": lambda: Stepped(Seeded(3)),
    "late": lambda: Stepped(Late(lambda request: request.digest.hex()[:5], VirtualClock())),
    "embedded": lambda: Wrapped(Embedded()),
}
CLIENTS: dict[str, Callable[[Served], Backend]] = {
    "openai": lambda at: OpenAI(base_url=f"{at.url}/v1", api_key=at.api_key, server="sglang"),
    "litellm": lambda at: LiteLLM(
        base_url=f"{at.url}/v1", api_key=at.api_key, model="openai/embedded"
    ),
    "sglang": lambda at: SGLang(
        url=at.url, api_key=at.api_key, admin_key=at.admin_key, advise=lambda line: None
    ),
}
CALLS = 6


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    """The embedded engine in another process."""
    with serving() as server:
        yield server


@pytest.mark.parametrize("made", WITHOUT_SERVER.values(), ids=WITHOUT_SERVER)
def test_every_backend_works_in_a_wrapper(tmp_path: Path, made: Callable[[], Wrapped]) -> None:
    works_everywhere(tmp_path, made)


@pytest.mark.parametrize("client", CLIENTS.values(), ids=CLIENTS)
def test_every_client_works_in_a_wrapper(
    tmp_path: Path, served: Served, client: Callable[[Served], Backend]
) -> None:
    works_everywhere(tmp_path, lambda: Wrapped(client(served)))


def everything() -> list[Any]:
    """Six calls, in all the ways that a program may wait for them."""
    return [side_by_side(), streamed(), asyncio.run(in_tasks())]


def works_everywhere(folder: Path, made: Callable[[], Wrapped]) -> None:
    """The same program gives the same values live, replayed, resumed, rerun and asked anew."""
    whole, broken = folder / "whole.trace", folder / "broken.trace"
    value, asked = lived(made(), whole)
    assert asked == CALLS
    replayer = Replayer(whole)
    assert lived(Wrapped(replayer.backend), world=replayer) == (value, 0)
    replayer.finish()
    assert lived(made(), world=Rerunner(whole)) == (value, 0)
    assert lived(made(), world=Rerunner(whole, anew=["*"])) == (value, CALLS)
    assert lived(made(), world=Resumer(whole)) == (value, 0)
    with pytest.raises(AuthenticationFailed):
        lived(made(), broken, most=CALLS - 1)
    again, asked = lived(made(), world=Resumer(broken))
    assert again == value and 1 <= asked <= 2


def lived(
    wrapped: Wrapped, path: Path | None = None, world: Any = None, most: int | None = None
) -> tuple[Any, int]:
    """What the program gives on a backend that answers so many calls, and how many it has."""
    wrapped.most = most
    header = {"profile": profile_data(wrapped.profile)}
    recorder = Recorder(path, header, durability="process") if path is not None else None
    watching: list[Any] = [each for each in (world, recorder) if each is not None]
    try:
        with Run(wrapped, instruments=watching, world=world, temperature=0, max_tokens=3):
            return everything(), len(wrapped.requests)
    finally:
        if recorder is not None:
            recorder.close()
        on_backend_loop(wrapped.aclose)


# -- a world that fails


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
