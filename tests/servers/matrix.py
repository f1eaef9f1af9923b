"""Answers that are wrong as bytes: status, encoding, framing, the order of a stream, its speed.

Each case is what a server sends after the request, and what it does to the connection then.
"""

from __future__ import annotations

import gzip
import itertools
import json
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.servers.mutations import damaged, mutated, written
from tests.servers.right import CHAT, EVENTS, NATIVE, sse
from tests.wire.servers import FaultServer

STATUSES = (100, 101, 102, 103, 200, 201, 202, 203, 204, 205, 206, 226, 299, 300, 304, 305, 306, 399,
            400, 401, 402, 403, 404, 405, 407, 408, 409, 410, 411, 413, 414, 415, 416, 417, 418, 421,
            422, 423, 424, 425, 426, 428, 431, 451, 499, 500, 501, 502, 504, 505, 506, 507, 508, 510,
            511, 520, 521, 522, 523, 524, 525, 526, 530, 598, 599, 600, 700, 999)  # fmt: skip
BUSY = (429, 503, 529)
CHARSETS = ("latin-1", "utf-16", "utf-16-le", "utf-32", "utf-8-sig", "cp037", "utf-7", "x", "")
TYPES = ("application/json", "text/event-stream", "text/html", "text/plain", "image/png", "",
         "application/octet-stream", "multipart/form-data; boundary=x", "\xff", "application/x-ndjson",
         "application/vnd.amazon.eventstream")  # fmt: skip
CODINGS = ("gzip", "deflate", "br", "zstd", "compress", "gzip, gzip", "identity", "x", "GZIP", "")
BOMB = zlib.compress(b"\0" * (64 << 20), 9)


@dataclass(frozen=True, slots=True)
class Case:
    """The bytes *raw*, written in *pieces* of that many bytes each *every* seconds; then it *ends*."""

    name: str
    raw: bytes
    ends: str = "close"
    pieces: int = 0
    every: float = 0.0


@dataclass
class Protocol:
    """How a right answer looks in one interface, whole or streamed."""

    name: str
    stream: bool
    whole: Any
    events: Sequence[Any] = field(default_factory=tuple)

    @property
    def kind(self) -> str:
        return "text/event-stream" if self.stream else "application/json"

    @property
    def body(self) -> bytes:
        return sse([written(each) for each in self.events]) if self.stream else written(self.whole)


_NATIVE_META = NATIVE["meta_info"]
NATIVES: tuple[Any, ...] = (
    {**NATIVE, "text": "o", "meta_info": {**_NATIVE_META, "finish_reason": None}},
    {**NATIVE, "text": "ok"},
)
CHATTING = {
    False: Protocol("chat", False, CHAT),
    True: Protocol("chat stream", True, None, EVENTS),
}
GENERATING = {
    False: Protocol("native", False, NATIVE),
    True: Protocol("native stream", True, None, NATIVES),
}
PROTOCOLS = {"openai": CHATTING, "litellm": CHATTING, "sglang": GENERATING}


def http(
    body: bytes,
    kind: str,
    status: int | str = 200,
    *,
    length: str | None = None,
    keep: bool = False,
    **headers: str,
) -> bytes:
    """An answer with its length, and any further headers; with *keep*, another may follow."""
    named = {"Content-Type": kind, "Content-Length": length or str(len(body))}
    named |= {} if keep else {"Connection": "close"}
    named |= {name.replace("_", "-"): value for name, value in headers.items()}
    head = "".join(f"{name}: {value}\r\n" for name, value in named.items())
    return f"HTTP/1.1 {status} X\r\n{head}\r\n".encode("latin-1") + body


def chunked(pieces: Sequence[bytes], kind: str, end: bytes = b"0\r\n\r\n") -> bytes:
    """An answer in chunks."""
    head = f"HTTP/1.1 200 X\r\nContent-Type: {kind}\r\nTransfer-Encoding: chunked\r\n"
    head += "Connection: close\r\n\r\n"
    return head.encode() + b"".join(b"%x\r\n%b\r\n" % (len(p), p) for p in pieces) + end


def fields(protocol: Protocol) -> Iterator[Case]:
    """Each field wrong in each way."""
    if not protocol.stream:
        for body in mutated(protocol.whole):
            yield Case("field", http(body, protocol.kind, keep=True), "whole")
        return
    right = [written(each) for each in protocol.events]
    for number, event in enumerate(protocol.events):
        for wrong in mutated(event):
            events = sse([*right[:number], wrong, *right[number + 1 :]])
            yield Case("field", http(events, protocol.kind, keep=True), "whole")


def bytes_changed(protocol: Protocol, seed: int, count: int) -> Iterator[Case]:
    """Bytes changed, cut out and doubled, in the body and in the head."""
    for body in damaged(protocol.body, seed, count):
        yield Case("bytes of a body", http(body, protocol.kind))
    for raw in damaged(http(b"", protocol.kind)[:-2], seed, count // 4):
        yield Case("bytes of a head", raw + b"\r\n" + protocol.body)


def statuses(protocol: Protocol) -> Iterator[Case]:
    """The right answer, an error and nothing, with each status."""
    error = json.dumps({"error": {"message": "no", "code": 5, "type": None}}).encode()
    for status in (*STATUSES, *BUSY):
        for body in (protocol.body, error, b""):
            yield Case(f"status {status}", http(body, protocol.kind, status))
    for status in ("0", "-1", "1000", "99999999999999999999", "abc", "", "2 00", "\xb2\xb0\xb0"):
        yield Case(f"status {status!r}", http(protocol.body, protocol.kind, status))


def encodings(protocol: Protocol) -> Iterator[Case]:
    """Charsets declared or not, compressed or said to be, and other types of content."""
    body = protocol.body
    for charset in CHARSETS:
        try:
            written_so = (
                body.decode().replace("ok", "\u00e9k").encode(charset or "utf-8", "replace")
            )
        except LookupError:
            written_so = body
        for kind in (protocol.kind, f"{protocol.kind}; charset={charset}"):
            yield Case(f"charset {charset}", http(written_so, kind))
            yield Case(f"other than {charset}", http(body, kind))
    for broken in (
        b"\xff",
        b"\xc3",
        b"\xed\xa0\x80",
        b"\xf8\x88\x80\x80\x80",
        b"\0",
        b"\xef\xbb\xbf",
    ):
        yield Case("broken text", http(body.replace(b"ok", broken), protocol.kind))
        yield Case("broken beginning", http(broken + body, protocol.kind))
    packed = gzip.compress(body)
    for coding in CODINGS:
        for data in (packed, packed[:-9], packed[:9] + b"\0" * 40, zlib.compress(body), body, b""):
            yield Case(f"coding {coding}", http(data, protocol.kind, Content_Encoding=coding))
        for status in (400, 500):
            yield Case(
                f"coding {coding}", http(BOMB, protocol.kind, status, Content_Encoding=coding)
            )
    for coding in ("deflate", "gzip"):
        yield Case("bomb", http(BOMB, protocol.kind, Content_Encoding=coding))
    for kind in TYPES:
        yield Case(f"type {kind}", http(body, kind))


def framings(protocol: Protocol) -> Iterator[Case]:
    """Lengths, chunks and heads that are wrong."""
    body, kind = protocol.body, protocol.kind
    for length in ("0", "1", str(len(body) - 1), str(len(body) + 1), "-1", "+9", "9" * 30, "x", "1, 2",
                   "0x10", str(1 << 63)):  # fmt: skip
        yield Case(f"length {length}", http(body, kind, length=length))
    for size in (b"zz", b"-1", b"f" * 17, b"", b"5;" + b"x" * 9000, b"0x5", b"\xb2"):
        yield Case("size of a chunk", chunked([], kind, size + b"\r\n" + body + b"\r\n0\r\n\r\n"))
    for end in (
        b"",
        b"0\r\n",
        b"0\r\nX: y\r\n\r\n",
        b"0\r\n\r\n0\r\n\r\n",
        b"0\r\n\r\nHTTP/1.1 200 X\r\n",
    ):
        yield Case("end of chunks", chunked([body], kind, end))
    yield Case("chunks of a byte", chunked([body[at : at + 1] for at in range(len(body))], kind))
    yield Case(
        "many empty headers", http(body, kind).replace(b"\r\n", b"\r\n" + b"X: y\r\n" * 5000, 1)
    )
    for line in (b"X" * 70_000 + b": y", b"X: " + b"y" * 70_000, b": y", b"X\0: y", b"X y", b" X: y",
                 b"Content-Length: 5", b"Transfer-Encoding: chunked", b"Transfer-Encoding: gzip",
                 b"Connection: close", b"Connection: upgrade\r\nUpgrade: h2c", b"Set-Cookie: " + b"a=b;" * 999,
                 b"Retry-After: " + b"9" * 400, b"\xff\xfe: \xff", b"Content-Encoding: gzip" * 9):  # fmt: skip
        yield Case("a header", http(body, kind).replace(b"\r\n", b"\r\n" + line + b"\r\n", 1))
    for first in (
        b"HTTP/0.9 200 X",
        b"HTTP/1.0 200 X",
        b"HTTP/2 200",
        b"HTTP/9.9 200 X",
        b"ICY 200 X",
        b"HTTP/1.1",
        b"",
        b"\x16\x03\x01",
        b"PRI * HTTP/2.0",
        b"HTTP/1.1 200 " + b"x" * 70_000,
    ):
        raw = http(body, kind)
        yield Case("first line", first + raw[raw.index(b"\r\n") :])
    yield Case("two answers", http(body, kind, keep=True) * 2, "whole")
    yield Case("provisional answers", b"HTTP/1.1 100 X\r\n\r\n" * 2000 + http(body, kind))
    for raw in (http(body, kind), chunked([body], kind)):
        for share in (0.1, 0.5, 0.9):
            for ends in ("close", "reset"):
                yield Case(f"cut {ends}", raw[: int(len(raw) * share)], ends)


def redirects(protocol: Protocol, elsewhere: str) -> Iterator[Case]:
    """Each status of a redirect, to each form of address."""
    host = elsewhere.partition("://")[2]
    targets = (elsewhere, f"//{host}/x", f"\\\\{host}", f" {elsewhere}", f"http:{host}", "/other", "?x=y",
               "#x", "", "x" * 9000, "http://[::bad/", f"http://a@{host}/", f"{elsewhere}\t", "data:,x",
               "file:///etc/passwd", "\xff", f"http://{host}#@x/", "javascript:x", f"HTTP://{host}/")  # fmt: skip
    for status in (300, 301, 302, 303, 305, 306, 307, 308):
        for target in targets:
            yield Case(
                f"{status} to {target[:30]}", http(b"", protocol.kind, status, Location=target)
            )
            refresh = http(
                protocol.body, protocol.kind, Refresh=f"0; url={target}", Location=target
            )
            yield Case(f"200 with {target[:30]}", refresh)


def orders(protocol: Protocol) -> Iterator[Case]:
    """The events of a stream in each order, some of them left out, doubled, or after the end."""
    if not protocol.stream:
        return
    done = b"data: [DONE]\n\n"
    events = [b"data: %b\n\n" % written(each) for each in protocol.events]
    events += [done, b": note\n\n", b"event: x\nid: 1\nretry: 5\n"]
    for count in range(len(events) + 1):
        for some in itertools.permutations(events, count):
            yield Case("order", http(b"".join(some), protocol.kind))
    for each in events:
        for number in (2, 50):
            yield Case("again", http(b"".join([*events[:-3], each * number, done]), protocol.kind))
    for end in (b"\n", b"\r\n\r\n", b"\r\r", b""):
        yield Case("ends of lines", http(protocol.body.replace(b"\n\n", end), protocol.kind))
    for mark in (b"data:", b"data :", b"DATA: ", b"data", b"\xef\xbb\xbfdata: ", b"data: data: "):
        yield Case("marks", http(protocol.body.replace(b"data: ", mark), protocol.kind))
    for split in (b"\ndata: ", b"\n", b"\0"):
        yield Case("within", http(protocol.body.replace(b",", b"," + split, 3), protocol.kind))


def choices(protocol: Protocol) -> Iterator[Case]:
    """The choices of two answers in each order, doubled, left out and wrongly numbered."""
    numbers = (0, 1, 2, -1, 1 << 70, None, "0", 0.0, True)
    for one, two in itertools.product(numbers, repeat=2):
        yield Case(f"choices {one} {two}", http(_two(protocol, one, two), protocol.kind))


def _two(protocol: Protocol, one: Any, two: Any) -> bytes:
    if protocol.name.startswith("native"):
        pair = [{**NATIVE, "index": one}, {**NATIVE, "index": two}]
        return sse([written(each) for each in pair]) if protocol.stream else written(pair)
    whole = protocol.events[0] if protocol.stream else protocol.whole
    choice = {**whole["choices"][0], "finish_reason": "stop"}
    both = {**whole, "choices": [{**choice, "index": one}, {**choice, "index": two}]}
    return sse([written(both)]) if protocol.stream else written(both)


def slow(protocol: Protocol, every: float) -> Iterator[Case]:
    """Silence, and a byte or an event now and then: in the head, in the body, after the end."""
    whole, kind = http(protocol.body, protocol.kind), protocol.kind
    at = whole.index(b"\r\n\r\n") + 4
    for size in (0, 9, at - 3, at, at + 9, len(whole) - 1):
        yield Case(f"silence after {size}", whole[:size], "hang")
    yield Case("drip", whole, "hang", 1, every)
    yield Case("drip of chunks", chunked([b"x"] * 4000, kind), "hang", 6, every)
    yield Case("trickle of comments", chunked([b": note\n\n"] * 4000, kind), "hang", 13, every)
    events = [b"data: %b\n\n" % written(each) for each in protocol.events[:1]]
    trickle = chunked(events * 4000, kind)
    yield Case("trickle of events", trickle, "hang", 400, every)
    yield Case("provisional answers", b"HTTP/1.1 100 X\r\n\r\n" * 4000, "hang", 18, every)
    yield Case("end that does not come", chunked([protocol.body], kind, b""), "hang")


class RawServer(FaultServer):
    """Sends the case that each request is due; what it says of itself is right."""

    def __init__(self, cases: Sequence[Case], **options: Any) -> None:
        super().__init__(**options)
        self.left = iter(cases)

    def _asked(self, link: Any, method: str, path: str, headers: Any, body: bytes) -> None:
        if method == "GET" or path in ("/abort_request", "/tokenize"):
            super()._asked(link, method, path, headers, body)
            return
        self.look_at(path, headers, body)
        case = next(self.left, None)
        self.answered[path] += 1
        if case is None:
            link.send(http(b"", "text/plain", 500), "close")
        elif not case.pieces:
            link.send(case.raw, case.ends)
        else:
            link.send(b"", "hang")
            self._drip(link, case, 0)

    def _drip(self, link: Any, case: Case, at: int) -> None:
        if at < len(case.raw) and link in self._links:
            link.send(case.raw[at : at + case.pieces], "hang")
            self._loop.call_later(case.every, self._drip, link, case, at + case.pieces)
