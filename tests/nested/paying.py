"""The backend of a process: it writes down each answer that has to be paid, whoever asks.

``APPL_TEST_PAID`` names the file. Answers follow from the prompt; ``APPL_TEST_DELAY`` seeds delays.
"""

from __future__ import annotations

import asyncio
import os
import random
from pathlib import Path

from appl.backend import Emit, Request, Response
from appl.testing import Fake

PAID, DELAY = "APPL_TEST_PAID", "APPL_TEST_DELAY"
BACKEND = "tests.nested.paying:Paid"


class Paid(Fake):
    """Answers with a digest of the prompt, and counts each answer in a file."""

    def __init__(self) -> None:
        super().__init__(lambda request: request.digest.hex()[:6], name="paid")
        seed = os.environ.get(DELAY)
        self._dice = random.Random(seed) if seed else None

    async def complete(self, request: Request, emit: Emit | None = None) -> Response:
        """Answer after a moment."""
        if self._dice is not None:
            await asyncio.sleep(self._dice.choice((0, 0, 0.001, 0.003)))
        with Path(os.environ[PAID]).open("a") as file:
            file.write(f"{request.address}\n")
        return self.end(request, request.digest.hex()[:6])


def paid() -> list[str]:
    """The addresses of the answers that were paid, in their order."""
    file = Path(os.environ[PAID])
    return file.read_text().split() if file.exists() else []
