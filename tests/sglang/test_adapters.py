"""Adapters are loaded once each, when a call first asks for them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

import pytest

from appl.backend import Sampling
from appl.errors import BackendRefused, Unsupported
from appl_backends.sglang.adapters import Adapters
from appl_backends.sglang.plan import LaunchPlan
from appl_backends.sglang.request_bodies import routed


class Loading:
    """A server that loads adapters, and says so after a while; *refusing* fails with that."""

    def __init__(self, refusing: str = "") -> None:
        self.learned: dict[object, object] = {}
        self.loaded: list[dict[str, Any]] = []
        self.done = asyncio.Event()
        self.refusing = refusing

    async def post(self, path: str, body: bytes) -> object:
        assert path == "/load_lora_adapter"
        self.loaded.append(json.loads(body))
        await self.done.wait()
        if self.refusing:
            raise BackendRefused(self.refusing, status=400)
        return {"success": True}

    async def within(self, seconds: float, answer: Awaitable[Any], path: str) -> Any:
        return await answer


def asking(name: str) -> Sampling:
    return Sampling(extra=(("lora", name),))


async def ask(adapters: Adapters, server: Loading, *names: str) -> list[BaseException | None]:
    """What becomes of calls that ask for adapters all at once."""
    waiting = [asyncio.ensure_future(adapters.ready(asking(name))) for name in names]
    await asyncio.sleep(0)
    server.done.set()
    return await asyncio.gather(*waiting, return_exceptions=True)  # type: ignore[return-value]


async def test_many_calls_have_an_adapter_loaded_once(tmp_path: Path) -> None:
    server = Loading()
    adapters = Adapters({"poems": tmp_path, "far": "/there/only"}, server)  # type: ignore[arg-type]
    assert await ask(adapters, server, *["poems"] * 20, "far", "unknown") == [None] * 22
    assert await ask(adapters, server, "poems", "far") == [None, None]
    assert server.loaded == [
        {"lora_name": "poems", "lora_path": str(tmp_path.resolve())},
        {"lora_name": "far", "lora_path": "/there/only"},
    ]


async def test_a_call_without_an_adapter_loads_none(tmp_path: Path) -> None:
    server = Loading()
    await Adapters({"poems": tmp_path}, server).ready(Sampling())  # type: ignore[arg-type]
    assert server.loaded == []


async def test_one_that_is_loaded_already_is_there(tmp_path: Path) -> None:
    server = Loading("Failed to load LoRA adapter poems because it is already loaded")
    adapters = Adapters({"poems": tmp_path}, server)  # type: ignore[arg-type]
    assert await ask(adapters, server, "poems", "poems") == [None, None]


async def test_one_that_fails_is_tried_again_by_the_next_call(tmp_path: Path) -> None:
    server = Loading("there is no such folder")
    adapters = Adapters({"poems": tmp_path}, server)  # type: ignore[arg-type]
    failed = await ask(adapters, server, "poems", "poems")
    assert all(isinstance(each, BackendRefused) for each in failed) and len(server.loaded) == 1
    server.refusing = ""
    assert await ask(adapters, server, "poems") == [None] and len(server.loaded) == 2


async def test_a_call_that_is_cancelled_does_not_end_the_loading_for_others(tmp_path: Path) -> None:
    server = Loading()
    adapters = Adapters({"poems": tmp_path}, server)  # type: ignore[arg-type]
    first, second = (asyncio.ensure_future(adapters.ready(asking("poems"))) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.sleep(0)
    server.done.set()
    await second
    with pytest.raises(asyncio.CancelledError):
        await first


@pytest.mark.parametrize("wrong", ["", 3, ["poems"], True])
async def test_what_is_no_name_of_an_adapter_is_refused(wrong: object, tmp_path: Path) -> None:
    server = Loading()
    adapters = Adapters({"poems": tmp_path}, server)  # type: ignore[arg-type]
    sampling = Sampling(extra=(("lora", wrong),))
    for ask_for in (adapters.ready(sampling), _routed(sampling)):
        with pytest.raises(Unsupported, match=r"gen\(lora=...\) takes the name of an adapter"):
            await ask_for
    assert not server.loaded


async def _routed(sampling: Sampling) -> dict[str, Any]:
    return routed(sampling)


async def test_an_adapter_that_is_not_loaded_is_named_with_its_folder() -> None:
    server = Loading("it has rank 32")
    (error,) = await ask(Adapters({"far": "there/only"}, server), server, "far")  # type: ignore[arg-type]
    assert str(error).startswith("the adapter 'far' is not loaded from there/only, which is no")
    assert isinstance(error, BackendRefused) and "it has rank 32" in str(error)


def test_a_server_is_started_with_room_for_every_adapter_and_none(tmp_path: Path) -> None:
    adapters = {name: tmp_path / name for name in "abc"}
    for folder in adapters.values():
        folder.mkdir()
        (folder / "adapter_model.safetensors").write_bytes(bytes(1000))
    plan = LaunchPlan("m", adapters={name: str(at) for name, at in adapters.items()})
    words = plan.arguments(0, 1, tmp_path)
    at = words.index("--lora-paths")
    assert words[at + 1 : at + 4] == [f"{name}={folder}" for name, folder in adapters.items()]
    assert words[words.index("--max-loras-per-batch") + 1] == "4" and "--enable-lora" in words


def test_adapters_without_room_for_all_take_turns(tmp_path: Path) -> None:
    adapters = {}
    for at in range(20):
        folder = tmp_path / str(at)
        folder.mkdir()
        with (folder / "adapter_model.safetensors").open("wb") as file:
            file.truncate(1 << 30)  # a file without blocks
        adapters[str(at)] = str(folder)
    words = LaunchPlan("m", adapters=adapters).arguments(0, 1, tmp_path)
    assert words[words.index("--max-loras-per-batch") + 1] == "8"
