"""Requests that nobody meant: mutated bodies, heads and bytes, sent over real connections.

A request is drawn from a seed, so that one that fails can be sent again.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

PATIENCE = 1.0
"""Seconds after which a request that generates is given up, as a client that goes away does."""

JUNK: list[Any] = [
    None, True, False, 0, -1, 1, 2**31, 2**63, 2**70, -(2**70), 1e308, -0.0, 1e-320, "", "x", "\x00",
    "\ud800", "é🙂" * 40, "a" * 5000, [], {}, [[]], [{}], [None], ["a", 1], {"a": {"b": []}}, [1] * 300,
    "none", "auto", "required", "json_object", "(a+)+$", "[", "^(?=x)", "root ::= root", 4097, 0.5,
]  # fmt: skip
HEADS: list[tuple[str, str]] = [
    ("Content-Encoding", "gzip"), ("Content-Encoding", "br"), ("Content-Type", "text/plain"),
    ("Content-Type", "multipart/form-data; boundary=x"), ("Transfer-Encoding", "chunked"),
    ("Transfer-Encoding", "gzip, chunked"), ("Content-Length", "5"), ("Content-Length", "-1"),
    ("Content-Length", "99999999999"), ("Expect", "100-continue"), ("Expect", "200-ok"),
    ("Upgrade", "websocket"), ("Connection", "upgrade"), ("Origin", "http://evil.example"),
    ("Origin", "null"), ("Host", "evil.example"), ("Host", "[::1"), ("Host", "a" * 300),
    ("Authorization", "Bearer \xff"), ("Sec-Fetch-Site", "cross-site"), ("Range", "bytes=0-1"),
    ("X-" + "y" * 200, "z" * 9000), ("Cookie", ";" * 500), ("Accept", "*/*"), ("TE", "trailers"),
]  # fmt: skip
METHODS = ("GET", "POST", "PUT", "DELETE", "OPTIONS", "HEAD", "PATCH", "BREW", "G\x01T", "")
TARGETS = ("", "/", "//", "/%", "/%00", "/..%2f..", "*", "/v1/models/%ff", "/a" * 3000, "/generate?x=%zz",
           "http://evil.example/", "/\r\nX: y", "/abort_request", "/health", "/metrics")  # fmt: skip


@dataclass(frozen=True)
class Draft:
    """A request as it is meant: method, path, and the JSON of its body if it has one."""

    method: str
    path: str
    body: dict[str, Any] | None = None


@dataclass(frozen=True)
class Verdict:
    """What came back: the status (0 without an answer), and the bytes that had been sent."""

    status: int
    sent: bytes


def mutated(rng: random.Random, value: Any, depth: int = 0) -> Any:
    """*value* with some of it replaced, doubled, renamed or left out."""
    if isinstance(value, dict) and value and rng.random() < 0.85:
        made = dict(value)
        name = rng.choice(sorted(made))
        how = rng.random()
        if how < 0.1:
            del made[name]
        elif how < 0.2:
            made[rng.choice(["x", "__class__", "\ud800", ""])] = made.pop(name)
        else:
            made[name] = mutated(rng, made[name], depth + 1)
        return made
    if isinstance(value, list) and value and rng.random() < 0.6:
        made_list = list(value)
        at = rng.randrange(len(made_list))
        made_list[at] = mutated(rng, made_list[at], depth + 1)
        return made_list * rng.choice([1, 1, 1, 2, 30])
    return rng.choice(JUNK)


def encoded(rng: random.Random, body: Any) -> bytes:
    """JSON of *body*, sometimes cut, deepened, in another encoding or with wrong bytes."""
    data = json.dumps(body).encode()
    how = rng.random()
    if how < 0.70:
        return data
    if how < 0.76:
        return data[: rng.randrange(len(data) + 1)]
    if how < 0.80:
        return b'{"text":' + b"[" * 60_000
    if how < 0.84:
        return b'{"text":"\\ud83d","max_tokens":1' + b"0" * 5000 + b"}"
    if how < 0.88:
        return gzip.compress(data) if rng.random() < 0.5 else data.decode().encode("utf-16")
    if how < 0.92:
        return b'{"prompt": NaN, "text": Infinity, "n": -Infinity}'
    raw = bytearray(data or b"x")
    for _ in range(rng.randrange(1, 6)):
        raw[rng.randrange(len(raw))] = rng.randrange(256)
    return bytes(raw)


def bytes_of(rng: random.Random, draft: Draft, host: str, headers: dict[str, str]) -> bytes:
    """The bytes of a request made from *draft*."""
    method, path, heads = draft.method, draft.path, {"Host": host, **headers}
    body = draft.body
    if body is not None:
        for _ in range(rng.choice([0, 1, 1, 1, 2, 3])):
            body = mutated(rng, body)
    data = b"" if body is None else encoded(rng, body)
    lines = list(heads.items())
    strange = rng.random()
    if strange < 0.12:
        lines = [each for each in lines if rng.random() < 0.8] + rng.choices(HEADS, k=2)
    elif strange < 0.17:
        method = rng.choice(METHODS)
    elif strange < 0.22:
        path = rng.choice(TARGETS)
    named = {name for name, _ in lines}
    if data and not named & {"Content-Length", "Transfer-Encoding"}:
        lines.append(("Content-Length", str(len(data))))
    head = "".join(f"{name}: {value}\r\n" for name, value in lines)
    raw = f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode("latin-1", "replace") + data
    if strange > 0.995:
        raw = raw[: rng.randrange(len(raw))]
    return raw


async def exchange(url: str, raw: bytes, patience: float = PATIENCE) -> Verdict:
    """Send *raw* on a connection of its own, and read the status that comes back."""
    parts = urlsplit(url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    try:
        writer.write(raw)
        async with asyncio.timeout(patience):
            line = await reader.readline()
        word = line.split(b" ", 2)[1:2]
        return Verdict(int(word[0]) if word and word[0].isdigit() else 0, raw)
    except (OSError, TimeoutError):
        return Verdict(0, raw)
    finally:
        writer.close()


async def storm(
    url: str,
    headers: dict[str, str],
    drafts: Sequence[Draft],
    seeds: Iterable[int],
    bad: Callable[[int], bool],
    *,
    beside: int = 64,
) -> tuple[Counter[int], list[Verdict]]:
    """Send a request for each seed, *beside* at once; the statuses, and what was *bad*."""
    statuses: Counter[int] = Counter()
    failures: list[Verdict] = []
    left = iter(seeds)
    host = urlsplit(url).netloc

    async def one() -> None:
        for seed in left:
            rng = random.Random(seed)
            raw = bytes_of(rng, rng.choice(drafts), host, headers)
            verdict = await exchange(url, raw)
            statuses[verdict.status] += 1
            if bad(verdict.status):
                failures.append(verdict)

    async with asyncio.TaskGroup() as group:
        for _ in range(beside):
            group.create_task(one())
    return statuses, failures
