"""Spans on their way to a collector: OTLP over HTTP, as JSON, or as protobuf where that is there.

Invariant: keys come from the environment (``OTEL_EXPORTER_OTLP_HEADERS``) at the moment of sending,
and are never in a URL, a setting, a message or a trace. A redirect is not followed.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from http.client import HTTPException
from typing import IO, Any
from urllib.parse import unquote, urlsplit, urlunsplit

from appl.errors import ConfigError, ExportError
from appl.extras import advice
from appl.tracing.exporting import conventions as names
from appl.tracing.exporting.spans import Attributes, Span, SpanEvent, Spans, Value

PATH = "/v1/traces"
_BATCH, _BATCH_BYTES = 512, 2 << 20
_TIMEOUT_S, _TRIES, _WAIT_S, _LONGEST_WAIT_S = 10.0, 4, 0.5, 30.0
_AGAIN = (429, 502, 503, 504)
_KINDS = {"internal": 1, "client": 3}
_ERROR = 2
_ANSWER_BYTES = 1 << 20
_KEY, _SAID = 6, 200


def requests(spans: Spans) -> Iterator[dict[str, Any]]:
    """The export requests for *spans* in OTLP's JSON form, each of a bearable size."""
    batch: list[dict[str, Any]] = []
    size = 0
    for span in spans.spans:
        data = _span(spans.trace_id, span)
        length = len(json.dumps(data))
        if batch and (len(batch) >= _BATCH or size + length > _BATCH_BYTES):
            yield _request(spans, batch)
            batch, size = [], 0
        batch.append(data)
        size += length
    if batch:
        yield _request(spans, batch)


def _request(spans: Spans, batch: list[dict[str, Any]]) -> dict[str, Any]:
    scope = {"scope": {"name": "appl"}, "spans": batch, "schemaUrl": names.SCHEMA}
    service = os.environ.get("OTEL_SERVICE_NAME") or spans.service
    resource = {"attributes": _attributes({names.SERVICE: service})}
    return {
        "resourceSpans": [{"resource": resource, "scopeSpans": [scope], "schemaUrl": names.SCHEMA}]
    }


def _span(trace_id: bytes, span: Span) -> dict[str, Any]:
    data: dict[str, Any] = {
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


def _event(event: SpanEvent) -> dict[str, Any]:
    attributes = _attributes(event.attributes)
    return {"timeUnixNano": str(event.at), "name": event.name, "attributes": attributes}


def _attributes(attributes: Attributes) -> list[dict[str, Any]]:
    return [{"key": key, "value": _value(value)} for key, value in attributes.items()]


def _value(value: Value) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": value}
    if isinstance(value, str):
        return {"stringValue": _valid(value)}
    return {"arrayValue": {"values": [_value(each) for each in value]}}


def _valid(text: str) -> str:
    """*text* as UTF-8 can hold it."""
    return text.encode("utf-8", "replace").decode("utf-8")


# -- sending


def endpoint(given: str) -> str:
    """The URL to which *given* leads: a base, to which OTLP's path is added. Raises
    ``ConfigError``."""
    parts = urlsplit(given)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError(
            f"an OTLP endpoint is a URL, as in http://localhost:4318, got {given!r:.99}"
        )
    if parts.username or parts.password or parts.query:
        raise ConfigError(
            f"the OTLP endpoint at {parts.hostname} holds a key or a query; keys belong into the "
            "environment: OTEL_EXPORTER_OTLP_HEADERS='authorization=Bearer …'"
        )
    path = parts.path.rstrip("/")
    path = path if path.endswith(PATH) else path + PATH
    return urlunsplit((parts.scheme, parts.netloc, path, "", ""))


def headers(environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """The headers that the environment gives, as OpenTelemetry's exporters read them."""
    environ = os.environ if environ is None else environ
    text = environ.get("OTEL_EXPORTER_OTLP_TRACES_HEADERS") or environ.get(
        "OTEL_EXPORTER_OTLP_HEADERS", ""
    )
    found: dict[str, str] = {}
    for pair in text.split(","):
        key, equals, value = pair.partition("=")
        if equals and key.strip():
            found[unquote(key.strip())] = unquote(value.strip())
    return found


def send(
    spans: Spans,
    to: str,
    *,
    encode: Encoder | None = None,
    timeout_s: float = _TIMEOUT_S,
    tries: int = _TRIES,
) -> int:
    """Send *spans* to the collector at *to*; how many it took. Raises ``ExportError``.

    As protobuf where the extra ``otel`` is installed, which every collector takes; else as JSON.
    A collector that is busy is asked again for a while.
    """
    url, taken = endpoint(to), 0
    encode = encode or encoder()
    for request in requests(spans):
        count = sum(len(s["spans"]) for r in request["resourceSpans"] for s in r["scopeSpans"])
        taken += count - _sent(url, encode(request), timeout_s, tries)
    return taken


class Encoder:
    """OTLP's JSON."""

    content_type = "application/json"

    def __call__(self, request: dict[str, Any]) -> tuple[str, bytes]:
        """Content type and body."""
        return self.content_type, json.dumps(request).encode()


class Protobuf(Encoder):
    """OTLP's protobuf, by OpenTelemetry's own messages."""

    content_type = "application/x-protobuf"

    def __init__(self) -> None:
        service: Any = importlib.import_module(
            "opentelemetry.proto.collector.trace.v1.trace_service_pb2"
        )
        self._message = service.ExportTraceServiceRequest
        self._parse = importlib.import_module("google.protobuf.json_format").ParseDict

    def __call__(self, request: dict[str, Any]) -> tuple[str, bytes]:
        return self.content_type, self._parse(_base64(request), self._message()).SerializeToString()


def encoder() -> Encoder:
    """Protobuf where it can be made, else JSON."""
    try:
        return Protobuf()
    except ImportError:
        return Encoder()


def _base64(value: Any) -> Any:
    """OTLP writes ids in hexadecimal digits, where JSON of protobuf has base 64."""
    if isinstance(value, dict):
        return {
            key: _based(each) if key in ("traceId", "spanId", "parentSpanId") else _base64(each)
            for key, each in value.items()
        }
    return [_base64(each) for each in value] if isinstance(value, list) else value


def _based(digits: str) -> str:
    base64 = importlib.import_module("base64")
    return str(base64.b64encode(bytes.fromhex(digits)).decode())


class _Stay(urllib.request.HTTPRedirectHandler):
    """Keys are for the server that was named."""

    def redirect_request(
        self, req: Any, fp: IO[bytes], code: int, msg: str, headers: Any, newurl: str
    ) -> None:
        return None


def _sent(url: str, body: tuple[str, bytes], timeout_s: float, tries: int) -> int:
    """Send one request; how many of its spans were refused."""
    kind, data = body
    opener = urllib.request.build_opener(_Stay)
    given = {**headers(), "Content-Type": kind, "User-Agent": "appl"}
    for left in reversed(range(max(tries, 1))):
        request = urllib.request.Request(url, data, given, method="POST")
        try:
            with opener.open(request, timeout=timeout_s) as answer:
                return _rejected(answer.read(_ANSWER_BYTES), answer.headers.get("Content-Type"))
        except urllib.error.HTTPError as error:
            with error:
                if error.code not in _AGAIN or not left:
                    raise ExportError(_refused(url, error, kind)) from None
                wait = _wait(error.headers.get("Retry-After"), tries - left)
        except (OSError, HTTPException) as error:
            reason = getattr(error, "reason", error)
            if not left:
                raise ExportError(f"the collector at {url} cannot be reached: {reason}") from None
            wait = _wait(None, tries - left)
        time.sleep(wait)
    raise AssertionError("the loop returns or raises")


def _wait(after: str | None, tried: int) -> float:
    with contextlib.suppress(TypeError, ValueError):
        return min(max(float(after or ""), 0.0), _LONGEST_WAIT_S)
    return min(_WAIT_S * 2.0 ** (tried - 1), _LONGEST_WAIT_S)


def _refused(url: str, error: urllib.error.HTTPError, kind: str) -> str:
    if error.code == 415 and kind == Encoder.content_type:
        why = advice("otel", "a collector that takes protobuf only")
    elif error.code in (401, 403):
        why = "the key in OTEL_EXPORTER_OTLP_HEADERS is missing or wrong"
    else:
        why = _without_keys(str(error.reason or "no reason given"))
    return f"the collector at {url} refused the spans ({error.code}): {why}"


def _without_keys(said: str) -> str:
    """What a server said, which may be what it was told."""
    for value in headers().values():
        for word in {value, *value.split()}:
            said = said.replace(word, "[key]") if len(word) >= _KEY else said
    return said[:_SAID]


def _rejected(answer: bytes, kind: str | None) -> int:
    if not answer:
        return 0
    if kind is not None and "protobuf" in kind:
        try:
            service: Any = importlib.import_module(
                "opentelemetry.proto.collector.trace.v1.trace_service_pb2"
            )
            told = service.ExportTraceServiceResponse.FromString(answer)
        except Exception:  # whatever it says, it took the request
            return 0
        return int(told.partial_success.rejected_spans)
    try:
        return int(json.loads(answer)["partialSuccess"]["rejectedSpans"])
    except (ValueError, KeyError, TypeError):
        return 0
