"""Any file is a prefix of what was recorded, or a named error; never a wrong record, never a bomb."""

from __future__ import annotations

import functools
import itertools
import random
import subprocess
import sys
import tempfile
import zlib
from pathlib import Path
from typing import Any

import msgpack
import pytest
import zstandard
from hypothesis import given, settings, strategies as st
from made import call, put_in_a_block_for_each_call

from appl.errors import TraceCorrupt, TraceError
from appl.prompt import digest_of
from appl.tracing import Recorder, Replayer, Trace
from appl.tracing.format import block, block_file
from appl.tracing.keeping import row_of


@functools.cache
def whole() -> tuple[bytes, list[dict[str, Any]], list[int]]:
    """A trace of a block for each call: its bytes, its calls, and where its blocks end."""
    path = Path(tempfile.mkdtemp()) / "a.trace"
    recorder = Recorder(path, {"program": "p"})
    for i in range(12):
        call(recorder, f"/p.0/gen.{i}", f"question {i}", f"answer {i} " * (i % 4))
    recorder.close()
    ends = put_in_a_block_for_each_call(path)
    return path.read_bytes(), [c.as_data() for c in Trace.open(path).calls], ends


def opened(data: bytes, path: Path) -> list[dict[str, Any]] | TraceError:
    path.write_bytes(data)
    try:
        found = [c.as_data() for c in Trace.open(path).calls]
    except TraceError as error:
        return error
    Replayer(path)
    row_of(path)
    return found


@pytest.mark.parametrize("step", [13, pytest.param(1, marks=pytest.mark.long)])
def test_a_truncation_at_any_byte_gives_exactly_the_blocks_before_it(
    step: int, tmp_path: Path
) -> None:
    data, calls, ends = whole()
    around = {end + by for end in ends for by in (-1, 0, 1)}
    for size in sorted({*range(0, len(data), step), *around} & {*range(len(data))}):
        found = opened(data[:size], tmp_path / "cut.trace")
        complete = sum(end <= size for end in ends[1:])
        assert found == calls[:complete], size


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_a_flipped_bit_gives_a_prefix_or_a_named_error(data: st.DataObject) -> None:
    good, calls, _ = whole()
    bad = bytearray(good)
    for _ in range(data.draw(st.integers(1, 3))):
        bad[data.draw(st.integers(0, len(bad) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    with tempfile.TemporaryDirectory() as folder:
        found = opened(bytes(bad), Path(folder) / "a.trace")
    assert isinstance(found, TraceError) or found == calls[: len(found)]


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.binary(max_size=300))
def test_a_garbage_tail_or_middle_gives_a_prefix_or_a_named_error(at: int, garbage: bytes) -> None:
    good, calls, _ = whole()
    at %= len(good)
    for bad in (
        good[:at] + garbage,
        good[:at] + garbage + good[at:],
        good[:at] + bytes(len(garbage)) + good[at + len(garbage) :],
    ):
        with tempfile.TemporaryDirectory() as folder:
            found = opened(bad, Path(folder) / "a.trace")
        assert isinstance(found, TraceError) or found == calls[: len(found)]


def test_swapped_repeated_and_missing_blocks_are_corruption_or_a_prefix(tmp_path: Path) -> None:
    good, calls, ends = whole()
    bounds = [8, *ends[1:]]
    blocks = [good[a:b] for a, b in itertools.pairwise(bounds)]
    shuffle = random.Random(3)
    for _ in range(200):
        mixed = (
            shuffle.choices(blocks, k=len(blocks))
            if shuffle.random() < 0.5
            else shuffle.sample(blocks, len(blocks))
        )
        found = opened(good[:8] + b"".join(mixed), tmp_path / "a.trace")
        assert isinstance(found, TraceError) or found == calls[: len(found)]


def test_a_file_of_zeros_and_one_of_noise_are_named(tmp_path: Path) -> None:
    for data in (bytes(10_000), random.Random(1).randbytes(10_000), b"\x80\x04\x95pickle"):
        assert isinstance(opened(data, tmp_path / "a.trace"), TraceError)


# -- files that somebody made on purpose, checksums and all


def made(*records: Any, before: tuple[Any, ...] = (["H", {"format": 1}],)) -> bytes:
    raw = b"".join(msgpack.packb(record) for record in (*before, *records))
    return block.MAGIC + block_file.Encoder().block(raw)


def forged(codec: int, raw_length: int, payload: bytes) -> bytes:
    rest = block.HEAD.pack(0, 0, 0, 0, codec, raw_length)[8:]
    crc = zlib.crc32(payload, zlib.crc32(rest))
    return block.MAGIC + block.HEAD.pack(len(payload), crc, 0, 0, codec, raw_length) + payload


MESSAGE = ["M", 1, "user", "hi"]
TEXT = [[["hi", "stop", None]], [None, None, None], "m", None, None, None]
ERROR = ["builtins.ValueError", "ValueError", "no", ["no"]]
HOSTILE = {
    "a prompt that is its own parent": made(MESSAGE, ["N", 2, 2, 1, b"x" * 16]),
    "a prompt whose parent comes later": made(
        MESSAGE, ["N", 2, 3, 1, b"x" * 16], ["N", 3, 2, 1, b"x" * 16]
    ),
    "a prompt of an unknown message": made(["N", 2, None, 9, b"x" * 16]),
    "a message that is not what its digest says": made(
        MESSAGE, ["N", 2, None, 1, digest_of("else")]
    ),
    "a call of unknown parameters": made(
        ["S", 1, "/p.0", "gen.0", 0, "gen", None, 7, 1, 0, b"", [], None, 1, 1, None]
    ),
    "an end of an unknown call": made(["E", 5, 0, [], 1]),
    "an unknown outcome": made(["E", "/p.0/gen.0", 9, [], 1]),
    "an answer that is no answer": made(["E", "/p.0/gen.0", 0, "text", 1]),
    "more chunks than text": made(["E", "/p.0/gen.0", 0, TEXT, 1, [1, 2]]),
    "fewer chunks than text": made(["E", "/p.0/gen.0", 0, TEXT, 1, [1]]),
    "a chunk of no sample": made(["E", "/p.0/gen.0", 0, TEXT, 1, [[3, 0, 2]]]),
    "a chunk of another kind": made(["E", "/p.0/gen.0", 0, TEXT, 1, [[0, 7, 2]]]),
    "an endless number of chunks": made(["C", "/p.0/gen.0", 1 << 60, 1]),
    "chunks of what was never said": made(["E", "/p.0/gen.0", 1, ERROR, 1, [2], []]),
    "what was said as a number": made(["E", "/p.0/gen.0", 1, ERROR, 1, [2], [[0, 0, 5]]]),
    "an unknown role": made(["M", 1, "root", "hi"]),
    "a number for a text": made(["M", 1, "user", 5]),
    "a long text with a missing piece": made(["B", 1, 1, b"abc"]),
    "a long text of another length": made(
        ["B", 1, 0, b"abc"], ["M", 2, "user", {"$blob": [1, 9, True]}]
    ),
    "a record that is no array": made(5),
    "an empty record": made([]),
    "a kind that is no text": made([["S"]]),
    "a header that is no map": made(["H", [1]], before=()),
    "a header without a format": made(["H", {}], before=()),
    "a deep value": made(
        ["O", "/p", 0, "now", functools.reduce(lambda v, _: [v], range(900), 1), 1]
    ),
    "an unknown tag": made(["O", "/p", 0, "now", {"$object": "os.system"}, 1]),
    "an extension type": made(["O", "/p", 0, "now", msgpack.ExtType(1, b"x"), 1]),
    "half a record": block.MAGIC + block_file.Encoder().block(b"\x93\x01"),
    "an unknown codec": forged(9, 3, b"abc"),
    "a wrong raw length": forged(0, 5, b"abc"),
    "a raw length over the cap": forged(
        1, 1 << 30, zstandard.ZstdCompressor().compress(bytes(100))
    ),
    "a frame larger than its block says": forged(
        1, 100, zstandard.ZstdCompressor().compress(bytes(1 << 20))
    ),
    "a frame that is none": forged(1, 100, b"not zstd"),
    "a frame with something behind it": forged(
        1, 10, zstandard.ZstdCompressor().compress(bytes(10)) + b"more"
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_is_named_as_corrupt(tmp_path: Path, name: str) -> None:
    path = tmp_path / "a.trace"
    path.write_bytes(HOSTILE[name])
    with pytest.raises(TraceCorrupt):
        Trace.open(path, check=True)
    row_of(path)


def test_an_unknown_kind_of_record_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "a.trace"
    path.write_bytes(made(["?", 1, 2, 3], ["W", "/p", "later", 1]))
    assert Trace.open(path).warnings == [("/p", "later")]


def _bombs() -> list[bytes]:
    """Files of some kilobytes that want gigabytes."""
    small = zstandard.ZstdCompressor(level=3).compress
    one, encoder = bytes(15 << 20), block_file.Encoder()
    record = msgpack.packb(["?", one])
    many = block.MAGIC + b"".join(encoder.block(record) for _ in range(40))
    nested = msgpack.packb(["?"])[:-2] + b"\xdd\x00\x04\x00\x00" * 1000
    streamed = zstandard.ZstdCompressor(level=3, write_content_size=False).compressobj()
    unsized = streamed.compress(bytes(1 << 26)) + streamed.flush()
    return [
        many,
        forged(1, 16 << 20, small(bytes(1 << 29))),
        forged(1, 1000, unsized),
        forged(0, len(nested), nested),
        block.MAGIC + block.HEAD.pack(0xFFFFFFFF, 1, 0, 0, 1, 0xFFFFFFFF) + bytes(100),
    ]


OPENED = """
import resource, sys
from pathlib import Path
from appl.errors import TraceError
from appl.tracing import Trace

resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
for file in sorted(Path(sys.argv[1]).glob("*.trace")):
    try:
        Trace.open(file)
        print("opened")
    except TraceError as error:
        print(type(error).__name__)
# ru_maxrss would begin with what the parent has
status = Path("/proc/self/status")
lines = status.read_text().splitlines() if status.exists() else []
print(*[int(line.split()[1]) for line in lines if line.startswith("VmHWM")] or [0])
"""


def test_bombs_are_refused_within_bounded_memory(tmp_path: Path) -> None:
    for i, bomb in enumerate(_bombs()):
        (tmp_path / f"{i}.trace").write_bytes(bomb)
    done = subprocess.run(
        [sys.executable, "-c", OPENED, str(tmp_path)], capture_output=True, text=True, timeout=60
    )
    *said, peak = done.stdout.split()
    assert said == ["TraceCorrupt"] * 4 + ["opened"], done.stderr
    assert int(peak) < 300_000
