"""What the workers of a cluster run: functions, and a backend that keeps a ledger on disk."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

from appl import gen, ppl
from appl.backend import Emit, Profile, Request, Response, Sample, Usage

FEATURES = frozenset({"n", "prefill", "seed", "stream", "tools"})


class Ledger:
    """Answers with the last message in capitals, and writes down in *file* what it was asked.

    Nothing is answered before *together* calls have been asked.
    """

    def __init__(
        self, file: str, seconds: float = 0.0, hold: str = "\0", together: int = 0
    ) -> None:
        self._file, self._seconds, self._hold = Path(file), seconds, hold
        self._missing, self._all_asked = together, asyncio.Event()
        self.profile = Profile("ledger", FEATURES)

    async def complete(self, request: Request, emit: Emit | None = None) -> Response:
        said = list(request.messages or ())[-1].content
        begun = time.monotonic()
        self._note(request.address, begun, None)
        if self._hold in said:
            await asyncio.get_running_loop().create_future()
        self._missing -= 1
        if self._missing <= 0:
            self._all_asked.set()
        await self._all_asked.wait()
        await asyncio.sleep(self._seconds)
        self._note(request.address, begun, time.monotonic())
        return Response((Sample(said.upper(), "stop"),), Usage(len(said.split()), 1))

    def _note(self, address: str, begun: float, ended: float | None) -> None:
        line = json.dumps([address, begun, ended, os.getpid()]) + "\n"
        with self._file.open("a") as file:
            file.write(line)

    async def aclose(self) -> None:
        """Nothing is held."""


class Entry:
    """One attempt, as the ledger has it."""

    def __init__(self, address: str, begun: float, ended: float | None, pid: int) -> None:
        self.address, self.begun, self.ended, self.pid = address, begun, ended, pid


def ledger(file: Path) -> list[Entry]:
    """All attempts, in the order of their beginnings; ``ended`` is ``None`` for one broken off."""
    found: dict[tuple[str, float], Entry] = {}
    for line in file.read_text().splitlines():
        address, begun, ended, pid = json.loads(line)
        found[address, begun] = Entry(address, begun, ended, pid)
    return sorted(found.values(), key=lambda each: each.begun)


@ppl
def ask(word: Any) -> str:
    f"{word}"
    return str(gen(max_tokens=4))


@ppl
def talk(word: str) -> str:
    f"Say {word}."
    first = gen(max_tokens=6)
    f"{first}"
    "And again."
    return f"{first} / {gen(max_tokens=6)}"


@ppl
def fatal(word: str) -> str:
    """Its worker dies once, after the first answer."""
    f"{word} one"
    first = str(gen(max_tokens=4))
    flag = Path(os.environ["APPL_TEST_FLAG"])
    if word == "w3" and not flag.exists():
        flag.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    f"{first} two"
    return str(gen(max_tokens=4))


def _note() -> None:
    """Note the process in a file beside the flag."""
    with Path(f"{os.environ['APPL_TEST_FLAG']}.processes").open("a") as file:
        file.write(f"{os.getpid()}\n")


def ask_noted(word: Any) -> str:
    """As ``ask``; notes the process."""
    _note()
    return ask(word)


def talk_noted(word: str) -> str:
    """As ``talk``; notes the process."""
    _note()
    return talk(word)


@ppl
def telling(name: str) -> str:
    """Tells the model the value of a variable of the worker's environment."""
    f"{os.environ[name]}"
    return str(gen(max_tokens=4))


@ppl
def own_thread(word: str) -> str:
    """Asks on a thread that appl does not know."""
    found: list[str] = []

    def inside() -> None:
        try:
            found.append(str(gen(messages=word, max_tokens=4)))
        except Exception as error:
            found.append(f"{type(error).__name__}: {error}")

    thread = threading.Thread(target=inside)
    thread.start()
    thread.join()
    return found[0]
