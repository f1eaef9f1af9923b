"""The message of each golden run is the one that OpenTelemetry's SDK writes for the same spans."""

from __future__ import annotations

from typing import Any

import pytest
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode

from appl.tracing.exporting import conventions, otlp
from appl.tracing.exporting.spans import ExportSpan, Spans, spans_of
from tests.traces.programs import PROGRAMS

KINDS = {"internal": SpanKind.INTERNAL, "client": SpanKind.CLIENT}


def utf8(value: Any) -> Any:
    """*value* without lone surrogates: the SDK drops an attribute that has one."""
    if isinstance(value, dict):
        return {key: utf8(each) for key, each in value.items()}
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value


def readable_spans(spans: Spans) -> list[ReadableSpan]:
    """The *spans* as the SDK's exporters take them."""
    resource = Resource({"service.name": spans.service}, conventions.SCHEMA)
    scope = InstrumentationScope("appl", None, conventions.SCHEMA)

    def context(identity: bytes) -> SpanContext:
        trace, span = int.from_bytes(spans.trace_id), int.from_bytes(identity)
        return SpanContext(trace, span, is_remote=False)

    def readable(span: ExportSpan) -> ReadableSpan:
        links = [Link(context(link), {"appl.link": "data"}) for link in span.links]
        error = Status() if span.error is None else Status(StatusCode.ERROR, utf8(span.error))
        return ReadableSpan(
            span.name, context(span.identity), span.parent and context(span.parent), resource,
            utf8(span.attributes), [Event(e.name, utf8(e.attributes), e.at) for e in span.events],
            links, KINDS[span.kind], None, error, span.start, span.end, scope,
        )  # fmt: skip

    return [readable(span) for span in spans.spans]


def of_ours(spans: Spans) -> ExportTraceServiceRequest:
    kind, body = otlp.ProtobufEncoder()(otlp.request(spans, otlp.encoded(spans)))
    assert kind == "application/x-protobuf"
    return ExportTraceServiceRequest.FromString(body)


def without_flags(request: Any) -> str:
    """The request as text; what is known of a parent's place is not in a recorded run."""
    for span in request.resource_spans[0].scope_spans[0].spans:
        span.flags = 0
        for link in span.links:
            link.flags = 0
    return str(request)


@pytest.mark.parametrize("name", list(PROGRAMS))
@pytest.mark.parametrize("options", [{}, {"content": True, "inference": True}])
def test_a_request_is_the_one_that_the_sdk_writes(
    golden: Any, name: str, options: dict[str, bool]
) -> None:
    spans = spans_of(golden(name), **options)
    assert without_flags(of_ours(spans)) == without_flags(encode_spans(readable_spans(spans)))
