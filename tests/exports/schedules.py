"""A strict OTLP collector in this process that fails by a random schedule, on a clock of its own.

It shares nothing with the exporter but the protocol: it reads requests by OpenTelemetry's own
messages and keeps what it took by span id.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from appl.tracing.exporting.collector import CollectorAnswer

from .conftest import parsed


class MovedClock:
    """A clock that moves when somebody sleeps."""

    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def time(self) -> float:
        return self.now

    monotonic = time

    def sleep(self, seconds: float) -> None:
        assert seconds > 0
        self.now += seconds


@dataclass
class FakeCollector:
    """Answers requests as *dice* fall; each may take a while.

    *health* is how often it works, *choosy* how often it then rejects some of the spans.
    ``taken`` are the spans that it keeps, by id; ``doubtful`` those whose answer was lost after
    they were taken, so that they may rightly come again. ``wrong`` is what broke the protocol.
    """

    dice: random.Random
    clock: MovedClock
    health: float = 0.5
    largest: int = 1 << 30
    per_second: float = 1e9
    choosy: float = 0.0
    taken: dict[bytes, bytes] = field(default_factory=dict)
    doubtful: set[bytes] = field(default_factory=set)
    rejected: int = 0
    wrong: list[str] = field(default_factory=list)
    requests: int = 0
    refused_at_load: int = 0
    _closed_until: float = 0.0
    _free_at: float = 0.0

    def post(
        self, url: str, headers: Mapping[str, str], data: bytes, timeout_s: float
    ) -> CollectorAnswer:
        self.requests += 1
        began = self.clock.now
        if began < self._closed_until:
            self.wrong.append(f"came {self._closed_until - began} s before the time it was told")
        self.clock.now += self.dice.uniform(0, 0.2)
        request = parsed(headers["Content-Type"], data)
        spans = [s for r in request.resource_spans for g in r.scope_spans for s in g.spans]
        if len(data) > self.largest:
            return CollectorAnswer(413, {}, b"too large")
        if began < self._free_at:
            self.refused_at_load += 1
            return CollectorAnswer(503, {}, b"")
        if self.dice.random() < self.health:
            self._free_at = began + len(spans) / self.per_second
            self._take(spans)
            return (
                self._partly(spans)
                if self.dice.random() < self.choosy
                else CollectorAnswer(200, {}, b"")
            )
        return self._fail(spans, timeout_s)

    def _take(self, spans: list[Any]) -> None:
        for span in spans:
            data = span.SerializeToString(deterministic=True)
            if span.span_id in self.taken and span.span_id not in self.doubtful:
                self.wrong.append(f"{span.span_id.hex()} came again")
            if self.taken.setdefault(span.span_id, data) != data:
                self.wrong.append(f"{span.span_id.hex()} came with other content")

    def _partly(self, spans: list[Any]) -> CollectorAnswer:
        """Some spans are rejected; the answer counts them, in one of both forms."""
        some = self.dice.sample(spans, self.dice.randint(0, len(spans)))
        self.rejected += len(some)
        if self.dice.random() < 0.5:
            answer = ExportTraceServiceResponse()
            answer.partial_success.rejected_spans = len(some)
            answer.partial_success.error_message = "no room"
            kind, body = "application/x-protobuf", answer.SerializeToString()
        else:
            partial = {"rejectedSpans": str(len(some)), "errorMessage": "no room"}
            kind, body = "application/json", json.dumps({"partialSuccess": partial}).encode()
        return CollectorAnswer(200, {"Content-Type": kind}, body)

    def _fail(self, spans: list[Any], timeout_s: float) -> CollectorAnswer:
        kind = self.dice.choice(["drop", "lose", "late", "429", "502", "503", "503", "504"])
        if kind == "lose":
            self._take(spans)
            self.doubtful |= {span.span_id for span in spans}
        if kind in ("drop", "lose"):
            raise ConnectionResetError("the connection was reset")
        if kind == "late":
            self.clock.now += timeout_s
            raise TimeoutError("no answer")
        return self._busy(int(kind))

    def _busy(self, status: int) -> CollectorAnswer:
        if self.dice.random() < 0.5:
            return CollectorAnswer(status, {}, b"")
        wait = self.dice.choice([0, 1, 3])
        self._closed_until = self.clock.now + wait
        return CollectorAnswer(status, {"Retry-After": str(wait)}, b"")
