"""One export request to an OTLP collector over HTTP, and the meaning of its answer.

Invariant: keys come from the environment (``OTEL_EXPORTER_OTLP_HEADERS``) at the moment of sending,
and are never in a URL, a setting, a message or a trace. A redirect is not followed, and no answer
is read beyond a limit or a deadline.
"""

from __future__ import annotations

import os
import queue
import re
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http.client import HTTPException
from typing import IO
from urllib.parse import unquote, urlsplit, urlunsplit

from appl.backend.check import read_json
from appl.backend.http import ERROR_BYTES, excerpt, message_in_body, redirection, retry_after
from appl.base.extras import advice
from appl.errors import ConfigError
from appl.tracing.exporting.otlp import RequestEncoder
from appl.tracing.text_diff import visible

PATH = "/v1/traces"
ANSWER_BYTES = 1 << 18
"""The most bytes of an answer that are read."""
_BUSY = (429, 502, 503, 504)
"""The statuses that OTLP calls retryable."""
_TOO_LARGE = 413
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_UNPRINTABLE = re.compile(r"[^\t\x20-\x7e\xa0-\xff]")


@dataclass(frozen=True, slots=True)
class CollectorAnswer:
    """An HTTP answer."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Taken:
    """The collector took the request except *rejected* spans; *said* is its message."""

    rejected: int = 0
    said: str = ""


@dataclass(frozen=True, slots=True)
class Busy:
    """The collector is busy; *wait_s* is the wait in seconds that it asks for, if it does."""

    why: str
    wait_s: float | None = None
    answered: bool = True


@dataclass(frozen=True, slots=True)
class TooLarge:
    """The collector takes smaller requests only."""

    why: str


@dataclass(frozen=True, slots=True)
class Rejected:
    """The collector will not take the request, however often it is sent."""

    why: str


Outcome = Taken | Busy | TooLarge | Rejected
Post = Callable[[str, Mapping[str, str], bytes, float], CollectorAnswer]
"""Sends a body to a URL with headers, within seconds. Raises ``OSError``, ``HTTPException``."""


def endpoint(base: str) -> str:
    """The URL for *base*, with OTLP's path added. Raises ``ConfigError``."""
    wrong = ConfigError(f"an OTLP endpoint is a URL, as in http://localhost:4318, got {base!r:.99}")
    try:
        parts = urlsplit(base)
    except ValueError:
        raise wrong from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise wrong
    if parts.username or parts.password or parts.query:
        raise ConfigError(
            f"the OTLP endpoint at {parts.hostname} holds a key or a query; keys belong into the "
            "environment: OTEL_EXPORTER_OTLP_HEADERS='authorization=Bearer …'"
        )
    path = parts.path.rstrip("/")
    path = path if path.endswith(PATH) else path + PATH
    return urlunsplit((parts.scheme, parts.netloc, path, "", ""))


def headers(environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """The headers that the environment gives, as OpenTelemetry's exporters read them.

    Raises ``ConfigError`` for one that HTTP cannot send.
    """
    environ = os.environ if environ is None else environ
    text = environ.get("OTEL_EXPORTER_OTLP_TRACES_HEADERS") or environ.get(
        "OTEL_EXPORTER_OTLP_HEADERS", ""
    )
    pairs: dict[str, str] = {}
    for pair in text.split(","):
        key, equals, value = pair.partition("=")
        if equals and key.strip():
            pairs[unquote(key.strip())] = unquote(value.strip())
    _check(pairs)
    return pairs


def _check(pairs: Mapping[str, str]) -> None:
    for number, (name, value) in enumerate(pairs.items(), 1):
        if not _NAME.fullmatch(name) or _UNPRINTABLE.search(value):
            raise ConfigError(
                f"header {number} of OTEL_EXPORTER_OTLP_HEADERS cannot be sent: its name has only "
                "letters, digits and dashes, and its value no line break; "
                "write NAME=VALUE,NAME=VALUE"
            )


class Collector:
    """The collector at an address; ``ask`` sends it one request."""

    def __init__(self, to: str, post: Post | None = None) -> None:
        self.url = endpoint(to)
        self._post = post or http_post

    def ask(self, kind: str, data: bytes, count: int, timeout_s: float) -> Outcome:
        """Send *data*, *count* spans of content type *kind*; what became of them."""
        keys = headers()
        secrets = [word for value in keys.values() for word in (value, *value.split())]
        headers_sent = {**keys, "Content-Type": kind, "User-Agent": "appl"}
        try:
            answer = self._post(self.url, headers_sent, data, timeout_s)
        except (OSError, HTTPException) as error:
            reason = str(getattr(error, "reason", error)) or type(error).__name__
            why = visible(excerpt(reason, secrets))
            return Busy(f"the collector at {self.url} cannot be reached: {why}", None, False)
        if 200 <= answer.status < 300:
            return _taken(answer, count, secrets, self.url)
        body = answer.body[:ERROR_BYTES].decode("utf-8", "replace")
        message = visible(message_in_body(body, secrets) or excerpt(answer.reason, secrets))
        if answer.status in _BUSY:
            why = f"{answer.status}: {message}" if message else str(answer.status)
            wait = retry_after(answer.headers, body)
            return Busy(f"the collector at {self.url} is busy ({why})", wait)
        why = self._why(answer, kind, message or "no reason given")
        return TooLarge(why) if answer.status == _TOO_LARGE else Rejected(why)

    def _why(self, answer: CollectorAnswer, kind: str, message: str) -> str:
        if 300 <= answer.status < 400:
            message = redirection(_header(answer, "location"))
        elif answer.status == 415 and kind == RequestEncoder.content_type:
            message = advice("otel", "a collector that takes protobuf only")
        elif answer.status in (401, 403):
            message = "the key in OTEL_EXPORTER_OTLP_HEADERS is missing or wrong"
        return f"the collector at {self.url} refused the spans ({answer.status}): {message}"


def _header(answer: CollectorAnswer, wanted: str) -> str:
    return next((value for name, value in answer.headers.items() if name.lower() == wanted), "")


# -- an answer that the request was taken


def _taken(answer: CollectorAnswer, count: int, secrets: list[str], url: str) -> Outcome:
    kind = _header(answer, "content-type")
    if "html" in kind.lower():
        return Rejected(f"the server at {url} answered with a page: it is no collector")
    try:
        if "protobuf" in kind:
            from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as service

            partial = service.ExportTraceServiceResponse.FromString(answer.body).partial_success
            rejected, message = int(partial.rejected_spans), str(partial.error_message)
        else:
            fields = read_json(answer.body)["partialSuccess"]
            rejected = int(fields.get("rejectedSpans", 0))
            message = str(fields.get("errorMessage", ""))
    except Exception:  # a collector that answers 200 took the request, whatever its words
        rejected, message = 0, ""
    return Taken(min(max(rejected, 0), count), visible(excerpt(message, secrets)))


# -- HTTP


class _Stay(urllib.request.HTTPRedirectHandler):
    """Follows no redirect: keys are for the server that was named."""

    def redirect_request(
        self, req: object, fp: IO[bytes], code: int, msg: str, headers: object, newurl: str
    ) -> None:
        return None


def http_post(
    url: str, headers: Mapping[str, str], data: bytes, timeout_s: float
) -> CollectorAnswer:
    """POST *data* to *url*. Raises ``OSError``, ``HTTPException``.

    A thread asks, since a socket's own limit starts anew with each byte of an answer that drips.
    """
    results: queue.SimpleQueue[CollectorAnswer | Exception] = queue.SimpleQueue()

    def ask() -> None:
        try:
            results.put(_asked(url, headers, data, timeout_s))
        except Exception as error:
            results.put(error)

    threading.Thread(target=ask, name="appl-export", daemon=True).start()
    try:
        result = results.get(timeout=timeout_s)
    except queue.Empty:
        raise TimeoutError(f"no answer within {timeout_s:.3g} s") from None
    if isinstance(result, Exception):
        raise result
    return result


def _asked(url: str, headers: Mapping[str, str], data: bytes, timeout_s: float) -> CollectorAnswer:
    request = urllib.request.Request(url, data, dict(headers), method="POST")
    try:
        with urllib.request.build_opener(_Stay).open(request, timeout=timeout_s) as answer:
            return CollectorAnswer(answer.status, dict(answer.headers), answer.read(ANSWER_BYTES))
    except urllib.error.HTTPError as error:
        with error:
            body = error.read(ERROR_BYTES)
            return CollectorAnswer(error.code, dict(error.headers), body, str(error.reason))
