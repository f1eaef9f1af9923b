"""The one scan over the blocks of a trace file, for every reader of its records.

Invariant: each good block is given once and in its order, and what the end of the file says about
the run is judged here alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import BinaryIO, Literal

from appl.tracing.format import block, store
from appl.tracing.format.allowance import DecodingAllowance

State = Literal["running", "finished", "crashed"]


class TraceScan:
    """Gives the blocks of *file* to a reader. A later scan goes on where the last one stopped.

    With *salvage* a damaged trace ends before the damage. *limit* is the memory in bytes that the
    records may take, 0 for one in proportion to the file.
    """

    def __init__(self, file: BinaryIO, *, salvage: bool = False, limit: int = 0) -> None:
        self._file, self._salvage, self._limit = file, salvage, limit
        self._found = block.Scan()
        self._running = False

    @property
    def allowance(self) -> DecodingAllowance:
        """The memory that all records may take together."""
        return self._found.allowance

    @property
    def blocks(self) -> int:
        """The number of blocks that were read."""
        return self._found.blocks

    def blocks_to(self, take_in: Callable[[bytes, int], None]) -> Iterator[None]:
        """Call *take_in* with each block and its number; yields after each.

        Raises ``TraceError``.
        """
        self._running = store.locked(self._file)  # before reading: what ended then is read whole
        found = self._found
        for raw in block.scan(self._file, found, salvage=self._salvage, limit=self._limit):
            take_in(raw, found.blocks)
            yield

    def read(self, take_in: Callable[[bytes, int], None]) -> None:
        """As ``blocks_to``, to the last good block."""
        for _ in self.blocks_to(take_in):
            pass

    @property
    def damage(self) -> str:
        """The damage before which a scan with *salvage* ended; empty without one."""
        return self._found.damaged

    @property
    def torn(self) -> int:
        """The size of a last group that a crash cut off; a running process may still write it."""
        return 0 if self._running else self._found.torn

    def state(self, closed: bool) -> State:
        """The state of the run whose last record *closed* it, or did not."""
        return "running" if self._running else "finished" if closed else "crashed"
