"""Small files that want gigabytes, or hours: what they hold is named by their keys."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgpack
import zstandard

from appl.backend import Sampling
from appl.prompt import Message, Messages
from appl.tracing.format import block, block_file, codec

PARAMS = ["P", 1, "m", Sampling().canonical()]
USER = ["M", 1, "user", "hi"]
ANSWER = [[["hi", "stop", None]], [1, 1, 1], "m", None, None, None]
ERROR = ["builtins.ValueError", "ValueError", "no", ["no"]]
MANY = 300_000


def forged(codec_: int, raw_length: int, payload: bytes) -> bytes:
    """A file of one block whose checksum is right, whatever else is."""
    rest = block.HEAD.pack(0, 0, 0, 0, codec_, raw_length)[8:]
    crc = zlib.crc32(payload, zlib.crc32(rest))
    return block.MAGIC + block.HEAD.pack(len(payload), crc, 0, 0, codec_, raw_length) + payload


def file(*groups: Iterable[Any], head: bool = True) -> bytes:
    """A trace of *groups* of records, one block each."""
    encoder, written = block_file.Encoder(), [block.MAGIC]
    first = [["H", {"format": 1}], ["I", 0, 1, "h", "run", 1, 1]]
    for group in [first, *groups] if head else groups:
        written.append(encoder.block(b"".join(map(_packed, group))))
    return b"".join(written)


def _packed(record: Any) -> bytes:
    return record if isinstance(record, bytes) else codec.pack(record)


def call(number: int, at: str = "/p.0", node: int | None = None) -> list[Any]:
    return ["S", number, at, f"gen.{number}", 0, "gen", node, 1, 1, 0, b"", [], None, 1, 1, None]


def pieces(number: int, megabytes: int) -> list[list[Any]]:
    return [["B", number, i, b"x" * (1 << 20)] for i in range(megabytes)]


def _zeros(size: int, told: bool = True) -> bytes:
    made = zstandard.ZstdCompressor(level=3, write_content_size=told)
    if told:
        return made.compress(bytes(size))
    stream = made.compressobj()
    return stream.compress(bytes(size)) + stream.flush()


def _window() -> bytes:
    """A frame that asks for a window of 2 GiB."""
    asked = zstandard.ZstdCompressionParameters(window_log=31, enable_ldm=True)
    stream = zstandard.ZstdCompressor(compression_params=asked).compressobj(size=1000)
    return stream.compress(bytes(1000)) + stream.flush()


def _frames(count: int) -> bytes:
    encoder = block_file.Encoder()
    record = msgpack.packb(["?", bytes(15 << 20)])
    return block.MAGIC + b"".join(encoder.block(record) for _ in range(count))


def _chain(count: int, text: str = "hi") -> list[list[Any]]:
    """A prompt of *count* messages, with the digests that it has to have."""
    message = Message("user", text)
    found, link = [["M", 1, "user", text]], None
    for number in range(count):
        link = Messages(link, message)
        found.append(["N", number + 1, number or None, 1, link.digest])
    return found


def _growing(count: int) -> list[list[Any]]:
    return [["M", 1, "user", "x" * 1000], *(["L", i + 2, i + 1, "y" * 10] for i in range(count))]


def _masked(count: int) -> list[list[Any]]:
    lines = [["!", ["KEY"], ["L", i + 2, i + 1, "y"]] for i in range(count)]
    return [["M", 1, "user", "x"], *lines]


def _many(make: Callable[[int], Any], count: int = MANY) -> Iterator[Any]:
    return map(make, range(count))  # each is packed when it is made: millions would be collected


def _alike(record: list[Any], count: int) -> list[bytes]:
    """The same record, *count* times."""
    return [codec.pack(record)] * count


def bombs() -> dict[str, bytes]:
    """Every bomb, made when asked: some take a second."""
    deep: Any = 1
    for _ in range(900):
        deep = [deep]
    nested = msgpack.packb(["?"])[:-2] + b"\xdd\x00\x04\x00\x00" * 1000
    chats = [*_chain(2_000), PARAMS, *_many(lambda i: call(i, node=2_000), 5_000)]
    return {
        "many large blocks": _frames(40),
        "a frame larger than it may be": forged(1, 16 << 20, _zeros(1 << 28)),
        "a frame larger than it says": forged(1, 1000, _zeros(1 << 28)),
        "a frame that does not say": forged(1, 1000, _zeros(1 << 28, told=False)),
        "a window of gigabytes": forged(1, 1000, _window()),
        "lists in lists": forged(0, len(nested), nested),
        "a length of 4 GiB": block.MAGIC + block.HEAD.pack(0xFFFFFFFF, 1, 0, 0, 1, 0xFFFFFFFF) + bytes(100),
        "empty maps": file([["O", "/p", 0, "now", [[{}] * (1 << 18)] * 60, 1]]),
        "empty lists": file([["X", 1, "", "p.0", "p", None, None, 1, [[[]] * (1 << 18)] * 60]]),
        "a header of many maps": file([["H", {"format": 1, "a": [[{}] * (1 << 17)] * 60}]], head=False),
        "records of another kind": file(_alike(["?", [[], [], {}]], 1_000_000)),
        "warnings": file(*[_alike(["W", "", "", 0], 1_000_000)] * 3),
        "observations": file(_many(lambda i: ["O", "/p", i, "now", None, 1])),
        "scopes in scopes": file(_many(lambda i: ["X", i + 1, i or "", "abcdefgh", "n", None, None, 0], 50_000)),
        "calls in deep scopes": file(
            [["X", 1, "", "a" * 1_000_000, "n", None, None, 0], PARAMS], _many(lambda i: call(i, at=1), 2_000)  # type: ignore[arg-type]
        ),
        "one text in many messages": file(pieces(1, 15), _many(lambda i: ["M", 10 + i, "user", {"$blob": [1, 15 << 20, True]}], 200)),
        "one text in many answers": file(
            pieces(1, 15), _many(lambda i: ["E", f"/p.0/gen.{i}", 0, [[[{"$blob": [1, 15 << 20, True]}, "stop", None]], *ANSWER[1:]], 1], 200)
        ),
        "one text in many values": file(pieces(1, 15), [["O", "/p", 0, "now", [{"$blob": [1, 15 << 20, True]}] * 500, 1]]),
        "a picture in many messages": file(
            pieces(1, 8), [["G", 1, "image", None, {"$blob": [1, 8 << 20, False]}, "image/png", None]],
            _many(lambda i: ["M", i + 10, "user", "x", {"media": [[0, 1]] * 50}], 5_000),
        ),
        "pictures of one text": file(pieces(1, 8), _many(lambda i: ["G", i, "image", None, {"$blob": [1, 8 << 20, False]}, "image/png", None], 200)),
        "wide characters": file(*[[["M", i, "user", "x" * 900_000 + "\U0001f600"] for i in range(12)]] * 20),
        "calls of one prompt": file([USER, PARAMS], _many(lambda i: call(i))),
        "calls with a long prompt": file(chats),
        "a long prompt": file(_chain(60_000)),
        "a text that goes on": file(_growing(100_000)),
        "a text that goes on, masked": file(_masked(60_000)),
        "attempts of one call": file(_many(lambda i: ["A", "/p.0/gen.0", i, ERROR, 1], 200_000)),
        "chunks of one call": file(_alike(["C", "/p.0/gen.0", 1, 1], 400_000)),
        "ends of one call": file(_alike(["E", "/p.0/gen.0", 0, ANSWER, 1], 100_000)),
        "calls that begin again": file([USER, PARAMS, *_alike(call(1), 100_000)]),
        "one long text in a long prompt": file([*_chain(120, "x" * 900_000), PARAMS, call(1, node=120)]),
        "incarnations": file(_many(lambda i: ["I", i, 1, "h", "run", 1, 1], 200_000)),
        "samples": file([["E", "/p.0/gen.0", 0, [[["", "stop", None]] * 250_000, *ANSWER[1:]], 1]]),
        "edges": file([PARAMS, *([*call(i)[:11], ["/a"] * 200_000, *call(i)[12:]] for i in range(10))]),
        "chunks": file([["E", "/p.0/gen.0", 0, [[["x" * 200_000, "stop", None]], *ANSWER[1:]], 1, [1] * 200_000]] * 20),
        "one long address": file([PARAMS, call(1, at="/" + "a" * 400_000), *_many(lambda i: call(i + 2), 20_000)]),
        "one long tool": file(
            [["F", 1, "/p", "t" * 300_000, "u" * 300_000, "{}", "effect", None, 1, 1]],
            _many(lambda i: ["F", i, "/p", f"tool.{i}", "t", "{}", "effect", None, 1, 1], 20_000),
        ),
        "a deep value": file([["O", "/p", 0, "now", deep, 1]]),
        "a deep error": file([["E", "/p.0/gen.0", 1, ["a.B", "ValueError", "x", deep], 1]]),
        "a number of many digits": file([["O", "/p", 0, "now", {"$int": "0x" + "f" * ((1 << 20) - 8)}, 1]]),
    }  # fmt: skip
