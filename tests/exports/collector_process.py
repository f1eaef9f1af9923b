"""A collector in a process of its own, strict in what it reads; run as a script.

    python tests/exports/collector_process.py WAY [CAPACITY WORK_S]

It prints its port, then takes OTLP as protobuf, by OpenTelemetry's own messages. GET says what it
has. WAY is how it answers, and ``takes`` is a collector that takes all: its queue holds CAPACITY
spans, and when that is full the next request is answered with 503, and so are all others for
WORK_S seconds.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

WAY = sys.argv[1]
CAPACITY, WORK_S = int((sys.argv[2:] or [1 << 30])[0]), float((sys.argv[3:] or [0])[0])
LARGEST = 40_000
LOCK = threading.Lock()
Reply = tuple[int, dict[str, str], bytes]


class Queue:
    """How full the collector is, and the ids of the spans that it took."""

    def __init__(self) -> None:
        self.queued, self.busy_until = 0, 0.0
        self.ids: set[bytes] = set()
        self.taken = self.requests = self.refused = self.rejected = 0

    def take(self, ids: list[bytes]) -> bool:
        now = time.monotonic()
        if self.queued + len(ids) > CAPACITY:
            self.queued, self.busy_until = 0, now + WORK_S
        if now < self.busy_until:
            return False
        self.queued += len(ids)
        self.taken += len(ids)
        self.ids.update(ids)
        return True

    def facts(self) -> dict[str, Any]:
        counts = {"requests": self.requests, "refused": self.refused, "rejected": self.rejected}
        repeated = self.taken - len(self.ids)
        ids = sorted(each.hex() for each in self.ids)
        return {"spans": len(self.ids), "repeated": repeated, **counts, "ids": ids}


QUEUE = Queue()


def takes(ids: list[bytes], body: bytes, key: str) -> Reply:
    return (200, {}, b"") if QUEUE.take(ids) else (503, {}, b"")


def busy_at_first(ids: list[bytes], body: bytes, key: str) -> Reply:
    if QUEUE.requests <= 2:
        return 503, {"Retry-After": "1"}, b""
    return takes(ids, body, key)


def takes_small_requests(ids: list[bytes], body: bytes, key: str) -> Reply:
    return (413, {}, b"too large") if len(body) > LARGEST else takes(ids, body, key)


def rejects_some(ids: list[bytes], body: bytes, key: str) -> Reply:
    QUEUE.take(ids[3:])
    QUEUE.rejected += len(ids[:3])
    answer = ExportTraceServiceResponse()
    answer.partial_success.rejected_spans = len(ids[:3])
    answer.partial_success.error_message = "no room"
    return 200, {"Content-Type": "application/x-protobuf"}, answer.SerializeToString()


def loses_the_first_answer(ids: list[bytes], body: bytes, key: str) -> Reply:
    taken = takes(ids, body, key)
    return (0, {}, b"") if QUEUE.requests == 1 else taken


WAYS: dict[str, Callable[[list[bytes], bytes, str], Reply]] = {
    "takes": takes,
    "busy at first": busy_at_first,
    "small requests only": takes_small_requests,
    "rejects some": rejects_some,
    "loses the first answer": loses_the_first_answer,
    "moved": lambda *_: (307, {"Location": "http://127.0.0.1:9/v1/traces"}, b""),
    "a page": lambda *_: (200, {"Content-Type": "text/html"}, b"<html>Log in</html>"),
    "refuses, with the key": lambda ids, body, key: (400, {}, f"no {key}".encode()),
    "hangs up": lambda *_: (0, {}, b""),
}


class Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        request = ExportTraceServiceRequest()
        assert request.ParseFromString(body) == len(body)
        ids = [s.span_id for r in request.resource_spans for g in r.scope_spans for s in g.spans]
        with LOCK:
            QUEUE.requests += 1
            status, headers, said = WAYS[WAY](ids, body, str(self.headers["Authorization"]))
            QUEUE.refused += status != 200
            if status:
                reason = said.decode() if status == 400 else None
                self.say(status, headers, said, reason)
            self.close_connection = not status

    def do_GET(self) -> None:
        with LOCK:
            self.say(200, {}, json.dumps(QUEUE.facts()).encode(), None)

    def say(self, status: int, headers: dict[str, str], body: bytes, reason: str | None) -> None:
        self.send_response(status, reason)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: Any) -> None: ...


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    print(server.server_port, flush=True)
    server.serve_forever()
