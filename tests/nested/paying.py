"""The backend of a process: it writes down each answer that has to be paid, whoever asks.

``APPL_TEST_PAID`` names the file. Answers follow from the prompt; ``APPL_TEST_DELAY`` seeds delays.
``APPL_TEST_KILL`` has the process killed at its answer of this number.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time
from pathlib import Path
from typing import NamedTuple

from appl.backend import Emit, Request, Response
from appl.testing import Fake

PAID, DELAY, KILL = "APPL_TEST_PAID", "APPL_TEST_DELAY", "APPL_TEST_KILL"
BACKEND = "tests.nested.paying:Paid"
LAST_S = 0.05
"""How long the answer lasts at which the process is killed: far longer than the writer gathers."""


class Answer(NamedTuple):
    """An answer that was paid: its address, the digest and model of its request, and when."""

    address: str
    digest: str
    model: str
    process: int
    at: float


class Paid(Fake):
    """Answers with a digest of the prompt, and counts each answer in a file."""

    def __init__(self) -> None:
        super().__init__(lambda request: request.digest.hex()[:6], name="paid")
        seed = os.environ.get(DELAY)
        self._dice = random.Random(seed) if seed else None
        self._until_kill = int(os.environ.get(KILL) or -1)

    async def complete(self, request: Request, emit: Emit | None = None) -> Response:
        """Answer after a moment."""
        self._until_kill -= 1
        is_last = self._until_kill == 0
        if is_last:
            await asyncio.sleep(LAST_S)
        elif self._dice is not None:
            await asyncio.sleep(self._dice.choice((0, 0, 0.001, 0.003)))
        with Path(os.environ[PAID]).open("a") as file:
            paid = (request.address, request.digest.hex(), request.model or "-", os.getpid())
            print(*paid, time.monotonic(), file=file)
        if is_last:
            os.kill(os.getpid(), signal.SIGKILL)
        return self.end(request, request.digest.hex()[:6])


def answers() -> list[Answer]:
    """The answers that were paid, in their order."""
    file = Path(os.environ[PAID])
    lines = file.read_text().splitlines() if file.exists() else []
    found = [line.split() for line in lines]
    return [Answer(a, digest, model, int(p), float(at)) for a, digest, model, p, at in found]


def paid() -> list[str]:
    """The addresses of the answers that were paid, in their order."""
    return [answer.address for answer in answers()]
