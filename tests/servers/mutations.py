"""Answers of servers with one thing wrong: each field, each wrong value, whole and streamed."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from typing import Any

DEEP = 50_000
WRONG: tuple[Any, ...] = (
    None, True, False, 0, -1, 5, 2**63, 2**70, -(2**70), 10**400, 0.5, 1e308, float("nan"),
    float("inf"), -float("inf"), "", "x", "\x00", "\ud800", "9" * 5000, "x" * 5000, [], [[]], [None],
    [5], {}, {"x": 5}, {"type": 5}, {"error": {"message": 5, "code": "x"}}, [{"index": 2**70}],
)  # fmt: skip
"""Values that stand where another was meant."""

Path = tuple[str | int, ...]
_TEXT = "@@deep@@"


def paths(value: Any, at: Path = ()) -> Iterator[Path]:
    """The ways to every value within *value*, itself among them."""
    yield at
    items: Any = ()
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, list):
        items = enumerate(value)
    for key, each in items:
        yield from paths(each, (*at, key))


def put(value: Any, path: Path, wrong: Any) -> Any:
    """*value* with *wrong* at *path*."""
    if not path:
        return wrong
    changed = copy.deepcopy(value)
    inner = changed
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = wrong
    return changed


def without(value: Any, path: Path) -> Any:
    """*value* that lacks what is at *path*."""
    changed = copy.deepcopy(value)
    inner = changed
    for key in path[:-1]:
        inner = inner[key]
    del inner[path[-1]]
    return changed


def mutated(value: Any) -> Iterator[bytes]:
    """*value* as JSON: each field wrong in each way, left out, or too deep."""
    for path in paths(value):
        for wrong in WRONG:
            yield written(put(value, path, wrong))
        if path:
            yield written(without(value, path))
        deep = "[" * DEEP + "]" * DEEP if len(path) % 2 else '{"a":' * DEEP + "1" + "}" * DEEP
        yield written(put(value, path, _TEXT)).replace(f'"{_TEXT}"'.encode(), deep.encode())


def written(value: Any) -> bytes:
    """*value* as JSON, with what JSON has no word for as Python writes it."""
    return json.dumps(value).encode()


def damaged(whole: bytes, seed: int, count: int) -> Iterator[bytes]:
    """*whole* with bytes changed, cut out, doubled and put elsewhere."""
    draw = random.Random(seed)
    for _ in range(count):
        body = bytearray(whole)
        for _ in range(draw.randint(1, 3)):
            at, size = draw.randrange(len(body) + 1), draw.randint(0, 12)
            piece = bytes(body[at : at + size])
            instead = draw.choice((b"", piece * 2, draw.randbytes(size), b'"', b"}", b"\r\n\r\n"))
            body[at : at + size] = instead
        yield bytes(body)
