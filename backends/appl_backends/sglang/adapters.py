"""LoRA adapters that a server loads when a call first asks for them.

The server puts the least used one aside by itself where it has no more room, and loads it again, so
that nothing is unloaded here.
Invariant: an adapter is asked to be loaded once at a time, however many calls wait for it.
"""

from __future__ import annotations

import asyncio
import copy
import os
from collections.abc import Mapping
from pathlib import Path

from appl.backend import Sampling, canonical
from appl.errors import BackendError, BackendRefused
from appl_backends.sglang.request_bodies import adapter_of
from appl_backends.sglang.wire import Wire

LOAD_S = 120.0
"""Seconds in which a server must have read an adapter from its disk."""


class Adapters:
    """The adapters in *folders*, by name, for the server behind *wire*.

    A folder that is on this machine is told by its absolute path; any other is one of the server's.
    """

    def __init__(self, folders: Mapping[str, str | os.PathLike[str]], wire: Wire) -> None:
        self._folders, self._wire = {name: _path(at) for name, at in folders.items()}, wire
        self._loading: dict[str, asyncio.Task[None]] = {}

    async def ready(self, sampling: Sampling) -> None:
        """Have the server load what *sampling* asks for. Raises ``BackendError``."""
        name = adapter_of(sampling)
        if name is None or name not in self._folders or ("adapter", name) in self._wire.learned:
            return
        task = self._loading.get(name)
        if task is None:
            task = self._loading[name] = asyncio.ensure_future(self._load(name))
            task.add_done_callback(lambda ended: self._ended(name, ended))
        try:  # one caller that is cancelled does not cancel the others' loading
            await asyncio.shield(task)
        except BackendError as error:  # each call has an error of its own
            raise copy.copy(error) from None

    def _ended(self, name: str, task: asyncio.Task[None]) -> None:
        self._loading.pop(name, None)
        if not task.cancelled():
            task.exception()  # every waiter raises it; without one nobody need know

    async def _load(self, name: str) -> None:
        folder, path = self._folders[name], "/load_lora_adapter"
        body = canonical({"lora_name": name, "lora_path": folder}).encode("ascii")
        try:
            await self._wire.within(LOAD_S, self._wire.post(path, body), path)
        except BackendRefused as error:
            if "already loaded" not in str(error):
                here = "" if Path(folder).is_absolute() else ", which is no folder of this machine"
                said = f"the adapter {name!r} is not loaded from {folder}{here}: {error}"
                raise BackendRefused(said, status=error.status) from error
        self._wire.learned["adapter", name] = True


def _path(folder: str | os.PathLike[str]) -> str:
    here = Path(folder).expanduser()
    return str(here.resolve()) if here.is_dir() else os.fspath(folder)
