"""A collector in a process of its own that refuses what comes faster than it works; run as a script.

It prints its port, then takes OTLP as protobuf. Its queue holds CAPACITY spans. When it is full, the
next request is answered with 503, and so are all others for WORK_S seconds. GET says what it has.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

CAPACITY, WORK_S = int(sys.argv[1]), float(sys.argv[2])
LOCK = threading.Lock()


class Queue:
    """How full the collector is, and the ids of the spans that it took."""

    def __init__(self) -> None:
        self.queued, self.busy_until = 0, 0.0
        self.ids: set[bytes] = set()
        self.taken = self.requests = self.refused = 0

    def take(self, ids: list[bytes]) -> bool:
        self.requests += 1
        now = time.monotonic()
        if self.queued + len(ids) > CAPACITY:
            self.queued, self.busy_until = 0, now + WORK_S
        if now < self.busy_until:
            self.refused += 1
            return False
        self.queued += len(ids)
        self.taken += len(ids)
        self.ids.update(ids)
        return True

    def facts(self) -> dict[str, int]:
        counts = {"requests": self.requests, "refused": self.refused}
        return {"spans": len(self.ids), "repeated": self.taken - len(self.ids), **counts}


QUEUE = Queue()


class Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        request = ExportTraceServiceRequest()
        request.ParseFromString(self.rfile.read(int(self.headers["Content-Length"])))
        ids = [s.span_id for r in request.resource_spans for g in r.scope_spans for s in g.spans]
        with LOCK:
            self.say(200 if QUEUE.take(ids) else 503, b"")

    def do_GET(self) -> None:
        with LOCK:
            self.say(200, json.dumps(QUEUE.facts()).encode())

    def say(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: Any) -> None: ...


server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
