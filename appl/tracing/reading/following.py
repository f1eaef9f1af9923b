"""A trace that is read while it grows.

Invariant: each block is read once, and nothing is written; the writer's lock is only asked for.
"""

from __future__ import annotations

import math
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

from appl.tracing.format.allowance import DecodingAllowance
from appl.tracing.format.store import is_tape, regular_file
from appl.tracing.format.trace_scan import TraceScan
from appl.tracing.reading.reader import Reader, StoredCall
from appl.tracing.reading.stored_records import Source
from appl.tracing.reading.trace import Home, Trace

if TYPE_CHECKING:
    from appl.tracing.format.failures import Failure
    from appl.tracing.reading.further_records import StoredToolUse


class Following:
    """A trace and what is added to it: ``poll`` reads on, and says what that changed.

    ``trace`` is the run as far as it was read; its lists grow. ``behind`` says that the last poll
    did not get to the end. A tape is read whole, and never grows. With *salvage* a damaged trace
    ends before the damage. Raises ``TraceError`` as ``Trace.open`` does, from ``poll`` too.
    """

    def __init__(self, path: str | os.PathLike[str], *, salvage: bool = False) -> None:
        self.file_of = regular_file(Path(path))
        self._tape = is_tape(self.file_of)
        self.trace = Trace.open(path) if self._tape else Trace(Path(path))
        self.behind = False
        self._scan = TraceScan(self.file_of, salvage=salvage)
        self._reader = _TouchedAddresses.of_blocks(self.trace, self._scan)
        if self._tape:
            self._reader.touched = dict.fromkeys((*self.trace.by_address, *self.trace.tools))

    def poll(self, patience: float = math.inf) -> list[str]:
        """Read what was written since; the addresses of calls and tool calls that it touched.

        After about *patience* seconds it leaves the rest to the next poll, and ``behind`` is set.
        """
        if self._tape:
            return self._take()
        until = time.monotonic() + patience
        self.behind = False
        for _ in self._scan.blocks_to(self._reader.block):
            if time.monotonic() > until:
                self.behind = True
                break
        self._reader.finish(self._scan)
        return self._take()

    def _take(self) -> list[str]:
        self._reader.touch_failed()
        touched, self._reader.touched = list(self._reader.touched), {}
        return touched

    @property
    def blocks(self) -> int:
        """The number of blocks that were read."""
        return self._scan.blocks

    def close(self) -> None:
        """Let go of the file."""
        self.file_of.close()

    def __enter__(self) -> Following:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class _TouchedAddresses(Reader):
    """Notes the addresses that records are about, each once, in their order."""

    def __init__(
        self, trace: Trace, source: Source, allowance: DecodingAllowance, home: Home
    ) -> None:
        super().__init__(trace, source, allowance, home)
        self.touched: dict[str, None] = {}
        self._failed: set[str] = set()

    def _add(self, call: StoredCall) -> None:
        super()._add(call)
        self.touched[call.address] = None

    def call_of(self, reference: object) -> StoredCall:
        call = super().call_of(reference)
        self.touched[call.address] = None
        return call

    def add_tool(self, used: StoredToolUse) -> None:
        super().add_tool(used)
        self.touched[used.address] = None

    def use_of(self, reference: object) -> StoredToolUse | None:
        use = super().use_of(reference)
        if use is not None:
            self.touched[use.address] = None
        return use

    def add_failure(self, failure: Failure) -> None:
        super().add_failure(failure)
        self._failed.add(failure.address)

    def touch_failed(self) -> None:
        """Note the calls that have failed by a refusal, or with the item around them."""
        if self._failed:
            for address in self._by_address:
                around = address
                while around and around not in self._failed:
                    around = around.rpartition("/")[0]
                if around:
                    self.touched[address] = None
            self._failed.clear()
