"""Spans in OTLP's form: as JSON, or as protobuf where it is installed.

Invariant: the same span has the same form, and so the same mark, every time.
"""

from __future__ import annotations

import functools
import json
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from appl.tracing.exporting import conventions as names
from appl.tracing.exporting.spans import Attributes, ExportSpan, SpanEvent, Spans, Value

BATCH, BATCH_BYTES = 512, 2 << 20
"""The most spans of one request, and the most bytes of its JSON where it has several."""
MARK = 16
_KINDS = {"internal": 1, "client": 3}
_ERROR = 2


@dataclass(frozen=True, slots=True)
class EncodedSpan:
    """A span in OTLP's JSON form, of *size* bytes; *mark* is the digest of its content."""

    place: int
    data: dict[str, object]
    size: int
    mark: bytes


def encoded(spans: Spans) -> Iterator[EncodedSpan]:
    """The *spans* in OTLP's JSON form, one by one."""
    for place, span in enumerate(spans.spans):
        data = _span(spans.trace_id, span)
        text = json.dumps(data).encode()
        yield EncodedSpan(place, data, len(text), blake2b(text, digest_size=MARK).digest())


def batches(
    spans: Iterable[EncodedSpan], most: int = BATCH, most_bytes: int = BATCH_BYTES
) -> Iterator[list[EncodedSpan]]:
    """The *spans* in groups of limited size; a larger span stands alone."""
    batch: list[EncodedSpan] = []
    size = 0
    for span in spans:
        if batch and (len(batch) >= most or size + span.size > most_bytes):
            yield batch
            batch, size = [], 0
        batch.append(span)
        size += span.size
    if batch:
        yield batch


def requests(spans: Spans) -> Iterator[dict[str, object]]:
    """The export requests for *spans* in OTLP's JSON form, each of limited size."""
    return (request(spans, batch) for batch in batches(encoded(spans)))


def request(spans: Spans, batch: Iterable[EncodedSpan]) -> dict[str, object]:
    """The export request for a *batch* of *spans* in OTLP's JSON form."""
    scope = {
        "scope": {"name": "appl"},
        "spans": [span.data for span in batch],
        "schemaUrl": names.SCHEMA,
    }
    service = os.environ.get("OTEL_SERVICE_NAME") or spans.service
    resource = {"attributes": _attributes({names.SERVICE: service})}
    return {
        "resourceSpans": [{"resource": resource, "scopeSpans": [scope], "schemaUrl": names.SCHEMA}]
    }


def _span(trace_id: bytes, span: ExportSpan) -> dict[str, object]:
    data: dict[str, object] = {
        "traceId": trace_id.hex(),
        "spanId": span.identity.hex(),
        "name": _valid(span.name),
        "kind": _KINDS[span.kind],
        "startTimeUnixNano": str(span.start),
        "endTimeUnixNano": str(span.end),
        "attributes": _attributes(span.attributes),
        "events": [_event(event) for event in span.events],
        "links": [
            {
                "traceId": trace_id.hex(),
                "spanId": link.hex(),
                "attributes": _attributes({names.LINK: "data"}),
            }
            for link in span.links
        ],
        "status": {} if span.error is None else {"code": _ERROR, "message": _valid(span.error)},
    }
    return data if span.parent is None else {**data, "parentSpanId": span.parent.hex()}


def _event(event: SpanEvent) -> dict[str, object]:
    attributes = _attributes(event.attributes)
    return {"timeUnixNano": str(event.at), "name": event.name, "attributes": attributes}


def _attributes(attributes: Attributes) -> list[dict[str, object]]:
    return [{"key": key, "value": _value(value)} for key, value in attributes.items()]


def _value(value: Value) -> dict[str, object]:
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": value}
    if isinstance(value, str):
        return {"stringValue": _valid(value)}
    return {"arrayValue": {"values": [_value(item) for item in value]}}


def _valid(text: str) -> str:
    """*text* with lone surrogates replaced, which UTF-8 cannot hold."""
    return text.encode("utf-8", "replace").decode("utf-8")


# -- on the wire


class RequestEncoder:
    """Encodes requests as OTLP's JSON."""

    content_type = "application/json"

    def __call__(self, request: dict[str, object]) -> tuple[str, bytes]:
        """Content type and body."""
        return self.content_type, json.dumps(request).encode()


class ProtobufEncoder(RequestEncoder):
    """Encodes requests as OTLP's protobuf, with OpenTelemetry's own messages."""

    content_type = "application/x-protobuf"

    def __init__(self) -> None:
        from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as service

        self._message: Any = service.ExportTraceServiceRequest

    def __call__(self, request: dict[str, object]) -> tuple[str, bytes]:
        return self.content_type, self._message(**_fields(request)).SerializeToString()


def encoder() -> RequestEncoder:
    """The encoder for protobuf if its package is installed, else for JSON."""
    try:
        return ProtobufEncoder()
    except ImportError:
        return RequestEncoder()


_IDS = frozenset({"traceId", "spanId", "parentSpanId"})
_NUMBERS = frozenset({"intValue", "timeUnixNano", "startTimeUnixNano", "endTimeUnixNano"})
"""The fields that are written as digits in JSON: ids in hexadecimal, and 64-bit numbers."""


def _fields(data: dict[str, object]) -> dict[str, object]:
    """The fields of a message in OTLP's JSON form, as protobuf names and types them."""
    return {_snake_case(key): _field(key, value) for key, value in data.items()}


def _field(key: str, value: object) -> object:
    if isinstance(value, dict):
        return _fields(value)
    if isinstance(value, list):
        return [_fields(item) for item in value]
    if isinstance(value, str) and key in _IDS:
        return bytes.fromhex(value)
    return int(value) if isinstance(value, str) and key in _NUMBERS else value


@functools.cache
def _snake_case(key: str) -> str:
    return re.sub("[A-Z]", lambda letter: f"_{letter[0].lower()}", key)
