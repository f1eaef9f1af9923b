"""Good traces in small blocks, and what is true of each of their beginnings."""

from __future__ import annotations

import functools
import hashlib
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from appl.cli.terminal import as_json
from appl.tracing import Trace, records
from appl.tracing.format import block, block_file, codec

GOLDEN = Path(__file__).parents[1] / "traces" / "1"
NAMES = ("tree", "observed", "failing", "streamed", "tools", "media", "masked", "resumed")
KEY = bytes(32)
"""The key that signs the blocks of the first size."""
SIZES = (3, 11)  # records in a block


@dataclass(frozen=True)
class Sample:
    """A trace: its bytes, where its blocks begin and end, and their records."""

    name: str
    data: bytes
    bounds: tuple[int, ...]
    groups: tuple[tuple[Any, ...], ...]

    @functools.cached_property
    def truths(self) -> dict[int, str]:
        """By how many records were read, what reading them gives."""
        found, count = {}, 0
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "a.trace"
            for size, group in zip(self.bounds, ((), *self.groups), strict=True):
                path.write_bytes(self.data[:size])
                count += len(group)
                found[count] = told(Trace.open(path))
        return found


def told(trace: Trace) -> str:
    """All that *trace* says of the run, as a digest."""
    data = trace.as_data()
    data.update(path="", state="", torn_bytes=0)
    return hashlib.blake2b(as_json(data).encode(), digest_size=16).hexdigest()


def built(name: str, groups: Sequence[Sequence[Any]]) -> Sample:
    """The trace that holds *groups* of records, one block each."""
    key = KEY if name.endswith(f"/{SIZES[0]}") else None
    encoder, data, bounds = block_file.Encoder(key=key), block.MAGIC, [len(block.MAGIC)]
    for group in groups:
        data += encoder.block(b"".join(map(codec.pack, group)))
        bounds.append(len(data))
    return Sample(name, data, tuple(bounds), tuple(map(tuple, groups)))


def told_of(data: bytes, sample: Sample) -> Sample:
    """The trace that *data*, made of *sample*, has to be judged by.

    The beginning that two traces share, with the rest of the second, is no damaged first: it is the
    second, byte for byte, and no reader can know otherwise.
    """
    return _by_data().get(data, sample)


@functools.cache
def _by_data() -> dict[bytes, Sample]:
    return {each.data: each for each in samples()}


@functools.cache
def samples() -> tuple[Sample, ...]:
    """Every golden trace, in blocks of two sizes."""
    found = []
    for name in NAMES:
        flat = list(records(GOLDEN / f"{name}.trace"))
        for size in SIZES:
            groups = [flat[at : at + size] for at in range(0, len(flat), size)]
            found.append(built(f"{name}/{size}", groups))
    return tuple(found)
