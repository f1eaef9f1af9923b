"""A collector on this machine that reads strictly what it gets, by OpenTelemetry's own messages."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.json_format import Parse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from tests.cli.conftest import Project, project as _project

__all__ = ["Project", "project"]

project = _project


@dataclass
class Collector:
    """What was received; ``script`` are statuses to answer with before everything is taken."""

    url: str = ""
    script: list[int] = field(default_factory=list)
    requests: list[ExportTraceServiceRequest] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    rejected: int = 0

    @property
    def spans(self) -> list[Any]:
        return [
            span
            for request in self.requests
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]

    def attributes(self, span: Any) -> dict[str, Any]:
        return {each.key: plain(each.value) for each in span.attributes}


def plain(value: Any) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [plain(each) for each in value.array_value.values]
    return getattr(value, kind)


def parsed(kind: str, body: bytes) -> ExportTraceServiceRequest:
    """The request in *body*; anything that the protocol does not know is an error."""
    if kind == "application/x-protobuf":
        request = ExportTraceServiceRequest()
        assert request.ParseFromString(body) == len(body)
        return request
    return Parse(json.dumps(based(json.loads(body))), ExportTraceServiceRequest())


def based(value: Any) -> Any:
    """OTLP's JSON has hexadecimal ids where protobuf's has base 64."""
    if isinstance(value, dict):
        return {
            key: base64.b64encode(bytes.fromhex(each)).decode()
            if key in ("traceId", "spanId", "parentSpanId")
            else based(each)
            for key, each in value.items()
        }
    return [based(each) for each in value] if isinstance(value, list) else value


@contextmanager
def collecting(*script: int) -> Iterator[Collector]:
    collector = Collector(script=list(script))

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            collector.paths.append(self.path)
            collector.headers.append({k.lower(): v for k, v in self.headers.items()})
            status = collector.script.pop(0) if collector.script else 200
            if status == 200:
                try:
                    kind = self.headers["Content-Type"]
                    collector.requests.append(parsed(kind, body))
                except Exception as error:
                    collector.wrong.append(repr(error))
                    status = 400
            said = self.headers.get("authorization") if status == 400 else None
            self.send_response(status, said)
            if status in (301, 307):
                self.send_header("Location", collector.url + "/elsewhere")
            self.send_header("Retry-After", "0")
            told = ExportTraceServiceResponse()
            told.partial_success.rejected_spans = collector.rejected
            data = told.SerializeToString() if status == 200 else b""
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    collector.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield collector
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def collector_process(*words: str) -> Iterator[str]:
    """The address of a collector in a process of its own, which *words* say how to answer."""
    script = Path(__file__).with_name("collector_process.py")
    command = [sys.executable, str(script), *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.terminate()


@pytest.fixture
def collector() -> Iterator[Collector]:
    with collecting() as made:
        yield made
        assert not made.wrong


@pytest.fixture
def golden(tmp_path: Path) -> Any:
    """Records the program of that name; its trace."""
    from appl.tracing import Trace
    from tests.traces.make import recorded

    def make(name: str) -> Trace:
        recorded(name, tmp_path / f"{name}.trace")
        return Trace.open(tmp_path / f"{name}.trace")

    return make
