"""The page of the trace format is true: a reader written after it reads a trace, and its signature."""

from __future__ import annotations

import hmac
import re
import runpy
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgpack
import pytest
import zstandard

from appl.tracing import Owner, Recorder
from tests.tracing.made import call

DOCS = Path(__file__).parents[2] / "docs"
TRACES = Path(__file__).parents[1] / "traces"
PAGE = (DOCS / "trace-format.md").read_text("utf-8")
SECRET = b"a secret of the owner of the runs"


def records(data: bytes, key: bytes | None) -> Iterator[list[Any]]:
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
        unpacker = msgpack.Unpacker(strict_map_key=False, unicode_errors="surrogatepass")
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


TYPES: dict[str, Any] = {
    "id": int, "integer": int, "microseconds": int, "nanoseconds": int, "number": int | float,
    "text": str, "address": str, "bytes": bytes, "map": dict, "array": list, "error": list,
    "answer": list, "long text": str | dict, "long bytes": bytes | dict, "nil": type(None),
    "array of ids and addresses": list, "array of texts": list, "value": object, "record": list,
}  # fmt: skip
"""What the words of the page mean in MessagePack."""
FIELD = re.compile(r"(\[)?`(\w+)`: ([a-z ]+?)\]?(?:, |$)")


def table() -> dict[str, list[tuple[bool, str]]]:
    """By their tags the fields of each kind of record: if one may be missing, and its type."""
    rows = re.findall(r"^\| `(.)` \| .* \| (.*) \|$", PAGE, re.MULTILINE)
    return {
        tag: [(bool(optional), words) for optional, _, words in FIELD.findall(fields)]
        for tag, fields in rows
    }


def wrong(record: list[Any], fields: list[tuple[bool, str]]) -> list[str]:
    """What in *record* is not as the page says. Of several optional fields the last may be alone."""
    needed = sum(not optional for optional, _ in fields)
    values = record[1:]
    if not needed <= len(values) <= len(fields):
        return [f"{len(values)} fields"]
    if len(fields) - needed > 1 and values and isinstance(values[-1], dict):
        fields = [*fields[: len(values) - 1], fields[-1]]
    pairs = zip(values, fields, strict=False)
    return [
        f"{value!r:.40} is no {words}"
        for value, (_, words) in pairs
        if not any(isinstance(value, TYPES[word]) for word in words.split(" or "))
    ]


@pytest.mark.parametrize("path", sorted(TRACES.glob("[0-9]*/*.trace")), ids=lambda path: path.stem)
def test_every_record_of_the_golden_traces_is_as_the_page_says(path: Path) -> None:
    known = table()
    assert len(known) == 27
    data = path.read_bytes()
    whole = data[:-32] if path.stem == "torn" else data
    for record in records(whole, None):
        inner = record
        while inner[0] in "!$":
            assert wrong(inner, known[inner[0]]) == []
            inner = inner[-1]
        assert wrong(inner, known[inner[0]]) == [], inner


def test_the_page_is_what_the_table_gives_today() -> None:
    made = runpy.run_path(str(DOCS / "trace_format.py"))
    assert made["page"](PAGE) == PAGE, "run: python docs/trace_format.py"
