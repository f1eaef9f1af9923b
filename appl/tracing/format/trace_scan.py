"""The scan over the file of a run: what there is, and how the file ends.

Invariant: what a scan leaves out is no good block.
"""

from __future__ import annotations

import fcntl
from collections.abc import Callable, Iterator
from typing import BinaryIO, Literal

from appl.tracing.format import block
from appl.tracing.format.allowance import DecodingAllowance

State = Literal["running", "finished", "crashed"]


def locked(file: BinaryIO) -> bool:
    """True if a process writes the trace that *file* reads."""
    try:
        fcntl.flock(file.fileno(), fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    fcntl.flock(file.fileno(), fcntl.LOCK_UN)
    return False


class TraceScan:
    """The one scan over the blocks of *file* for every reader of its records.

    Each good block is given once and in its order, and what the end of the file says about the run
    is judged here alone. A later scan goes on where the last one stopped.

    With *salvage* a damaged trace ends before the damage. *limit* is the memory in bytes that the
    records may take, 0 for one in proportion to the file.
    """

    def __init__(self, file: BinaryIO, *, salvage: bool = False, limit: int = 0) -> None:
        self.file, self._salvage, self._limit = file, salvage, limit
        self._scan = block.Scan()
        self._running = False

    @property
    def allowance(self) -> DecodingAllowance:
        """The memory that all records may take together."""
        return self._scan.allowance

    @property
    def blocks(self) -> int:
        """The number of blocks that were read."""
        return self._scan.blocks

    def blocks_to(self, take_in: Callable[[bytes, int], None]) -> Iterator[None]:
        """Call *take_in* with each block and its number; yields after each.

        Raises ``TraceError``.
        """
        self._running = locked(self.file)  # before reading: what ended then is read whole
        scan = self._scan
        for raw in block.scan(self.file, scan, salvage=self._salvage, limit=self._limit):
            take_in(raw, scan.blocks)
            yield

    def read(self, take_in: Callable[[bytes, int], None]) -> None:
        """As ``blocks_to``, to the last good block."""
        for _ in self.blocks_to(take_in):
            pass

    @property
    def position(self) -> tuple[int, int]:
        """The end of the last block that was read, in the file, and its checksum."""
        return self._scan.good, self._scan.last

    @property
    def damage(self) -> str:
        """The damage before which a scan with *salvage* ended; empty without one."""
        return self._scan.damaged

    @property
    def torn(self) -> int:
        """The size of a last group that a crash cut off; a running process may still write it."""
        return 0 if self._running else self._scan.torn

    def state(self, closed: bool) -> State:
        """The state of the run whose last record *closed* it, or did not."""
        return "running" if self._running else "finished" if closed else "crashed"
