"""Ways to damage a trace: each makes bytes out of a sample and dice.

After ``DAMAGE`` what can be read is a beginning of what was written, or an error. ``FORGERY`` makes
whole blocks with right checksums that hold what no run has written: any reading of these is right
that says so with a typed error, or makes values within its allowance.
"""

from __future__ import annotations

import itertools
import random
import struct
import zlib
from collections.abc import Callable
from typing import Any

import msgpack
import zstandard

from appl.tracing.format import block, block_file, codec

from .samples import Sample, built, samples

Dice = random.Random
Way = Callable[[Sample, Dice], bytes]


def _place(sample: Sample, dice: Dice) -> int:
    return dice.randrange(len(sample.data))


def _bits(sample: Sample, dice: Dice) -> bytes:
    bad = bytearray(sample.data)
    for _ in range(dice.choice([1, 1, 1, 2, 3, 8, 64])):
        bad[_place(sample, dice)] ^= 1 << dice.randrange(8)
    return bytes(bad)


def _truncated(sample: Sample, dice: Dice) -> bytes:
    return sample.data[: _place(sample, dice)]


def _overwritten(sample: Sample, dice: Dice) -> bytes:
    at, size = _place(sample, dice), dice.choice([1, 4, 17, 64, 512])
    fill = dice.choice([bytes(size), b"\xff" * size, dice.randbytes(size), b"\x01\0\0\0" * size])
    return sample.data[:at] + fill + sample.data[at + len(fill) :]


def _inserted(sample: Sample, dice: Dice) -> bytes:
    at, data = _place(sample, dice), sample.data
    size = dice.choice([1, 3, 21, 100])
    return data[:at] + dice.choice([dice.randbytes(size), bytes(size), data[:size]]) + data[at:]


def _deleted(sample: Sample, dice: Dice) -> bytes:
    at = _place(sample, dice)
    return sample.data[:at] + sample.data[at + dice.choice([1, 2, 21, 100, 700]) :]


def _moved(sample: Sample, dice: Dice) -> bytes:
    """A piece of the file, copied over or between other parts of it."""
    data, at = sample.data, _place(sample, dice)
    start = _place(sample, dice)
    piece = data[start : start + dice.randrange(1, 400)]
    return data[:at] + piece + data[at + dice.choice([0, len(piece)]) :]


def _blocks(sample: Sample) -> list[bytes]:
    ends = sample.bounds
    return [sample.data[a:b] for a, b in itertools.pairwise(ends)]


def _shuffled(sample: Sample, dice: Dice) -> bytes:
    blocks = _blocks(sample)
    for _ in range(dice.choice([1, 1, 2, 5])):
        at, to = dice.randrange(len(blocks)), dice.randrange(len(blocks))
        change = dice.choice(["swap", "drop", "repeat", "move"])
        if change == "swap":
            blocks[at], blocks[to] = blocks[to], blocks[at]
        elif change == "repeat":
            blocks.insert(to, blocks[at])
        elif len(blocks) > 1:
            taken = blocks.pop(at)
            if change == "move":
                blocks.insert(to, taken)
    return block.MAGIC + b"".join(blocks)


def _spliced(sample: Sample, dice: Dice) -> bytes:
    """The beginning of one trace and the rest of another, cut where blocks meet."""
    other = dice.choice(samples())
    at = dice.randrange(1, len(sample.bounds))
    at, to = (at, at) if dice.random() < 0.7 else (at, dice.randrange(len(other.bounds)))
    to = min(to, len(other.bounds) - 1)
    return sample.data[: sample.bounds[at]] + other.data[other.bounds[to] :]


def _joined(sample: Sample, dice: Dice) -> bytes:
    other = dice.choice(samples()).data
    return sample.data + dice.choice(
        [other, other[8:], other[: dice.randrange(len(other))], b"\x80\x04\x95."]
    )


def _mislabelled(sample: Sample, dice: Dice) -> bytes:
    """A field of the head of a block is another number; its checksum may fit, or not."""
    bad = bytearray(sample.data)
    at = dice.choice(sample.bounds[:-1])
    end = sample.bounds[sample.bounds.index(at) + 1]
    offset, size = dice.choice([(0, 4), (4, 4), (8, 4), (12, 4), (16, 1), (17, 4)])
    number = dice.choice(
        [0, 1, 2, 0x7F, 0xFFFF, 0xFFFFFFFF, 1 << 31, end - at, dice.getrandbits(32)]
    )
    bad[at + offset : at + offset + size] = (number % (1 << 8 * size)).to_bytes(size, "little")
    if dice.random() < 0.5:
        crc = zlib.crc32(bytes(bad[at + 21 : end]), zlib.crc32(bytes(bad[at + 8 : at + 21])))
        bad[at + 4 : at + 8] = struct.pack("<I", crc)
    return bytes(bad)


def _other_start(sample: Sample, dice: Dice) -> bytes:
    starts = [
        b"",
        b"APPLTRC",
        b"APPLTRC2",
        b"appltrc1",
        b"\x80\x05\x95",
        b"{\n",
        b"PK\x03\x04",
        b"\x1f\x8b",
    ]
    return dice.choice([*starts, dice.randbytes(8)]) + sample.data[dice.choice([0, 4, 8]) :]


DAMAGE: tuple[Way, ...] = (
    _bits, _truncated, _overwritten, _inserted, _deleted, _moved, _shuffled, _spliced, _joined,
    _mislabelled, _other_start,
)  # fmt: skip


# -- whole blocks that hold what no run has written

_LONG = "x" * 5_000


_ALIKE: dict[type, list[Any]] = {
    int: [0, -1, 1, 2, 3, 1 << 31, (1 << 63) - 1, (1 << 64) - 1, -(1 << 63), 1 << 55],
    str: ["", "/", "..", "a/b/../../c", "\x1b]0;x\x07\x1b[2J", "\x9b31m", "\u202etxt.exe", "a\rb\x08\x08", "\x00",
          "\ud800", "x" * 5_000, "\u0085\u2028", "\x1b]8;;http://evil\x1b\\x", '{"a": ' * 2_000, "1e999", "NaN",
          '{"temperature": [1], "stop": 5, "tools": "x", "schema": {"a": [{}]}}', '{"x": "\\u001b[2J"}', "[]"],
    float: [float("inf"), float("nan"), -1e308, 0.0],
    bytes: [b"", b"\xff" * 16, b"\x1b[31m", b"x" * 5_000],
    bool: [True, False],
}  # fmt: skip


def _value(dice: Dice, depth: int = 3) -> Any:
    """Something that a field is not meant to hold."""
    plain = [
        None, True, False, 0, 1, -1, 7, 2**31, 2**63 - 1, -(2**63), 2**64 - 1, 0.5, -1e308, float("inf"),
        float("nan"), "", "/", "x", "é\ud800\x00", "\x1b[2J\x9b31m\u202e\r\b", "/a.0/gen.0", "gen.0", "$int",
        _LONG, b"", b"x" * 16, b"\xff\xfe", "user", "image", 10**9, '{"a":' * 900, "[" * 9_000, "1e999",
    ]  # fmt: skip
    kind = dice.random()
    if depth and kind < 0.12:
        return [_value(dice, depth - 1) for _ in range(dice.choice([0, 1, 2, 3, 7, 40]))]
    if depth and kind < 0.2:
        keys = [
            "$int",
            "$tuple",
            "$map",
            "$blob",
            "$object",
            "media",
            "calls",
            "of",
            "name",
            "error",
            "",
        ]
        size = dice.choice([0, 1, 1, 2, 4])
        return {dice.choice(keys): _value(dice, depth - 1) for _ in range(size)}
    if kind < 0.23:
        return {"$blob": [dice.choice([1, 5, "1", None]), dice.choice([0, 1 << 60, -1]), True]}
    if kind < 0.25:
        return {"$int": dice.choice(["0x" + "f" * 4_000, "12", "zz", "-0x1", 5])}
    if kind < 0.27:
        found: Any = 1
        for _ in range(dice.choice([50, 150, 400, 1_000])):
            found = dice.choice([[found], {"a": found}])
        return found
    return dice.choice(plain)


def changed_value(value: Any, dice: Dice) -> Any:
    """*value* with one thing in it, or itself, made another."""
    if isinstance(value, list) and value and dice.random() < 0.8:
        at, made = dice.randrange(len(value)), list(value)
        made[at] = changed_value(made[at], dice)
        return made
    if isinstance(value, dict) and value and dice.random() < 0.8:
        key = dice.choice(list(value))
        return {**value, key: changed_value(value[key], dice)}
    if type(value) in _ALIKE and dice.random() < 0.6:
        return dice.choice(_ALIKE[type(value)])
    if isinstance(value, int) and dice.random() < 0.5:
        other = value + dice.choice([-2, -1, 1, 2, 100, 1 << 20, 1 << 40])
        return max(-(1 << 63), min(other, (1 << 64) - 1))  # what a packed integer can be
    if isinstance(value, str | bytes) and value and dice.random() < 0.3:
        return value * dice.choice([0, 2, 50])
    return _value(dice)


def _again(groups: list[list[Any]]) -> bytes:
    return built("", groups).data


def _groups(sample: Sample) -> list[list[Any]]:
    return [list(group) for group in sample.groups]


def _a_record(groups: list[list[Any]], dice: Dice) -> tuple[list[Any], int]:
    group = dice.choice(groups)
    return group, dice.randrange(len(group))


def _fields(sample: Sample, dice: Dice) -> bytes:
    """Fields that are something else."""
    groups = _groups(sample)
    for _ in range(dice.choice([1, 1, 1, 2, 4])):
        group, at = _a_record(groups, dice)
        if not isinstance(group[at], list) or not group[at]:
            continue
        (tag, *rest), change = group[at], dice.random()
        if change < 0.7 and rest:
            place = dice.randrange(len(rest))
            rest[place] = changed_value(rest[place], dice)
            group[at] = [tag, *rest]
        elif change < 0.8:
            group[at] = [tag, *rest, _value(dice)]
        elif change < 0.9:
            group[at] = [dice.choice("HITXBGMLNPSDACEVFROWZU!"), *rest]
        else:
            group[at] = changed_value(group[at], dice)
    return _again(groups)


def _order(sample: Sample, dice: Dice) -> bytes:
    """Records that are gone, there twice, or elsewhere: numbers that mean nothing, or two things."""
    groups = _groups(sample)
    for _ in range(dice.choice([1, 1, 2, 6])):
        group, at = _a_record(groups, dice)
        taken = group[at]
        if dice.random() < 0.7 and len(group) > 1:
            del group[at]
        if dice.random() < 0.7:
            other, to = _a_record(groups, dice)
            other.insert(to, taken)
    return _again(groups)


def _mixed(sample: Sample, dice: Dice) -> bytes:
    """Records of two runs in one file."""
    groups = _groups(sample)
    other = [each for group in dice.choice(samples()).groups for each in group]
    for _ in range(dice.choice([1, 3, 10])):
        group, at = _a_record(groups, dice)
        group[at : at + dice.choice([0, 1])] = [dice.choice(other)]
    return _again(groups)


def _numbers(sample: Sample, dice: Dice) -> bytes:
    """References to themselves, to what comes later, in circles, and to nothing."""
    groups = _groups(sample)
    for _ in range(dice.choice([1, 2, 5])):
        group, at = _a_record(groups, dice)
        tag, *rest = group[at]
        places = [i for i, each in enumerate(rest) if type(each) is int]
        if places:
            rest[dice.choice(places)] = dice.choice(
                [*(r for r in rest if type(r) is int), 1, 2, 3, 1 << 50]
            )
        group[at] = [tag, *rest]
    return _again(groups)


def _packed(sample: Sample, dice: Dice) -> bytes:
    """The packed bytes of a block are damaged, and its checksum is right."""
    encoder, number = block_file.Encoder(), dice.randrange(len(sample.groups))
    written = [block.MAGIC]
    for index, group in enumerate(sample.groups):
        raw = bytearray(b"".join(map(codec.pack, group)))
        if index == number:
            for _ in range(dice.choice([1, 1, 2, 5])):
                raw[dice.randrange(len(raw))] = dice.choice(
                    [0xC1, 0xDD, 0xDF, 0xC6, 0xDB, 0x91, 0x80, 0xD4, dice.randrange(256)]
                )
            extra = [
                b"",
                b"",
                b"\xc7\x01\x05x",
                msgpack.packb(msgpack.ExtType(7, b"x")),
                b"\x81\x01\x02",
                b"\xdd\xff\xff\xff\xff",
                b"\xa2\xc3\x28",
            ]
            raw += dice.choice(extra)
        written.append(encoder.block(bytes(raw)))
    return b"".join(written)


def _frames(sample: Sample, dice: Dice) -> bytes:
    """Compressed blocks that are not what their heads say."""
    raw = b"".join(map(codec.pack, sample.groups[0]))
    stream = zstandard.ZstdCompressor(write_content_size=False).compressobj()
    payload = dice.choice([
        zstandard.ZstdCompressor().compress(raw),
        stream.compress(raw) + stream.flush(),
        zstandard.ZstdCompressor().compress(raw) * 2,
        zstandard.ZstdCompressor().compress(raw)[: dice.randrange(1, 40)],
        zlib.compress(raw), raw, dice.randbytes(50), b"",
    ])  # fmt: skip
    size = dice.choice(
        [len(raw), len(raw) + 1, len(raw) - 1, 0, codec.MAX_RAW, codec.MAX_RAW + 1, 0xFFFFFFFF]
    )
    head = block.HEAD.pack(0, 0, 0, 0, dice.choice([0, 1, 1, 1, 2, 255]), size)[8:]
    crc = zlib.crc32(payload, zlib.crc32(head))
    return block.MAGIC + struct.pack("<II", len(payload), crc) + head + payload


FORGERY: tuple[Way, ...] = (_fields, _fields, _fields, _order, _mixed, _numbers, _packed, _frames)


def drawn(seed: int) -> tuple[Sample, Way, bytes]:
    """File number *seed*: the sample, what was done to it, and the bytes."""
    dice = random.Random(seed)
    sample = dice.choice(samples())
    way = dice.choice(dice.choice([DAMAGE, FORGERY]))
    return sample, way, way(sample, dice)
