"""The page of the trace format is true: a reader written after it reads a trace, and its signature."""

from __future__ import annotations

import hmac
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

import msgpack
import zstandard

from appl.tracing import Recorder
from appl.tracing.format import record
from appl.tracing.format.signing import Owner
from tests.tracing.made import call

PAGE = (Path(__file__).parents[2] / "docs" / "trace-format.md").read_text("utf-8")
SECRET = b"a secret of the owner of the runs"


def records(data: bytes, key: bytes | None) -> Iterator[list[object]]:
    """The records of a trace, read as the page says; *key* is that of its signatures."""
    assert data[:8] == b"APPLTRC1"
    at, number, previous, before = 8, 0, 0, bytes(16)
    while at < len(data):
        head = data[at : at + 21]
        length, checksum, numbered, after, codec, raw = struct.unpack("<IIIIBI", head)
        payload = data[at + 21 : at + 21 + length]
        assert (numbered, after) == (number, previous)
        assert checksum == zlib.crc32(head[8:] + payload)
        if codec & 0x80:
            payload, signature = payload[:-16], payload[-16:]
            if key is not None:
                whole = hmac.digest(key, before + head[8:] + payload, "sha256")
                assert signature == whole[:16]
            before = signature
        if codec & 0x7F == 1:
            payload = zstandard.ZstdDecompressor().decompress(payload, max_output_size=raw)
        assert len(payload) == raw
        unpacker = msgpack.Unpacker(strict_map_key=False)
        unpacker.feed(payload)
        yield from unpacker
        at, number, previous = at + 21 + length, number + 1, checksum


def test_a_reader_written_after_the_page_reads_a_signed_trace_and_one_that_is_not(
    tmp_path: Path,
) -> None:
    owner = Owner(SECRET, tmp_path / "runs.ended")
    for name, given in (("signed", owner), ("unsigned", None)):
        recorder = Recorder(tmp_path / name, {"program": "p"}, owner=given)
        for number in range(20):
            call(recorder, f"/p.0/gen.{number}", f"question {number}")
        recorder.close()
        data = (tmp_path / name).read_bytes()
        kinds = [str(each[0]) for each in records(data, owner.key if given else None)]
        assert kinds[:2] == ["H", "I"] and kinds.count("S") == kinds.count("E") == 20


def test_the_page_lists_the_kinds_of_records_that_there_are() -> None:
    table = (record.__doc__ or "").split("====\nH ")[1].split("\n====")[0]
    assert f"\nH {table}\n" in PAGE
    assert f"format {record.FORMAT}" in PAGE
