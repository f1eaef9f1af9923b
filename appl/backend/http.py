"""The errors of HTTP answers: a status, its headers and a body become one ``BackendError``.

Every client of an HTTP server uses these functions, so that the same failure is the same error for
every backend.

Invariant: pure functions; no key, credential or URL with one is part of a text.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import lru_cache
from urllib.parse import urlsplit

from appl.backend.check import ANSWER_BYTES, read_json
from appl.errors import (
    AuthenticationFailed,
    BackendBusy,
    BackendError,
    BackendRefused,
    BackendUnavailable,
    ConfigError,
    MalformedResponse,
    ModelNotFound,
    PromptTooLong,
)
from appl.prompt.key_masking import without_likely_keys
from appl.prompt.secret import UNRECORDED, of_environment
from appl.prompt.secret_forms import Mask

EXCERPT = 200
"""The largest number of a body's characters that an error shows."""

STREAM_BYTES = 256 << 20
"""The largest number of bytes of all events of a stream."""

ERROR_BYTES = 1 << 14
"""The number of bytes that are read of an error's body; the rest is not waited for."""

Headers = Mapping[str, str]


def errors_of_http(
    status: int,
    headers: Headers,
    body: str | bytes | object,
    server: str,
    *,
    secrets: Iterable[str] = (),
    now: float | None = None,
) -> BackendError:
    """The error for an HTTP answer of *server*, in the form of :func:`describe_server`.

    *body* is text, bytes, or JSON that was read already. *secrets* are masked in the message, and
    so is everything that looks like a key. *now* is the time in seconds since the epoch, against
    which dates in headers are read.
    """
    if 300 <= status < 400:
        return redirected(status, _named(headers, "location"), server)
    text = _text(body)[:ERROR_BYTES]
    message = message_in_body(text, secrets)
    wait = retry_after(headers, text, now) if status in _WAITS or status >= 500 else None
    kind, advice = _meaning(status, text, wait)
    shown = f"{server} answered {status}{f': {message}' if message else ''}"
    error = kind(f"{shown}; {advice}" if advice else shown, retry_after=wait, status=status)
    if kind is BackendRefused or not kind.retriable:
        error.retry_after = None
    return error


def error_of_payload(
    payload: object, server: str, *, headers: Headers | None = None, secrets: Iterable[str] = ()
) -> BackendError:
    """The error that a server wrote into an answer or a stream that began with status 200.

    *payload* is the value of ``error``, or the object that holds it. Its code decides what it is,
    or else its words; where neither is known, the server failed inside.
    """
    status = _status_in(payload)
    if status is None:
        text = _text(payload)[:ERROR_BYTES]
        statuses = ((_NO_MONEY, 402), (_BUSY, 429), (_TOO_LONG, 400), (_KEY, 400))
        status = next((code for words, code in statuses if words.search(text)), 500)
    return errors_of_http(status, headers or {}, payload, server, secrets=secrets)


def is_error(data: Mapping[str, object]) -> bool:
    """True if a JSON object with status 200 is an error: it has no answer, but a message."""
    if data.get("choices"):
        return False
    if any(data.get(name) for name in ("error", "message", "detail")):
        return True
    return "error" in (data.get("type"), data.get("object"))


def not_json(
    body: str | bytes, server: str, *, content_type: str = "", secrets: Iterable[str] = ()
) -> MalformedResponse:
    """The error for an answer with status 200 that is no JSON: a page, half a text.

    *server* was asked, in the form of :func:`describe_server`.
    """
    text = _text(body)
    page = "html" in content_type.lower() or _HTML.match(text) is not None
    what = "an HTML page" if page else ("nothing" if not text.strip() else "no JSON")
    shown = excerpt(text, secrets)
    advice = "; a proxy or the wrong base_url may stand in between" if page else ""
    return MalformedResponse(f"{server} answered 200 with {what}: {shown!r}{advice}", status=200)


def redirected(status: int, location: str, server: str) -> BackendRefused:
    """The error for a redirect, which is not followed: keys and prompts are for one server."""
    return BackendRefused(f"{server} answered {status}: {redirection(location)}", status=status)


def redirection(location: str) -> str:
    """The sentence about a redirect to *location*, without what may be secret in it."""
    where = f"it redirects to {masked(address(location[:EXCERPT]))}" if location else "it redirects"
    return f"{where}, and redirects are not followed: check the URL in the settings"


def too_long(server: str, most: int = ANSWER_BYTES) -> MalformedResponse:
    """The error for an answer of more than *most* bytes."""
    return MalformedResponse(f"{server} sent an answer of more than {most >> 20} MiB", status=200)


def unreachable(
    error: BaseException, server: str, *, begun: bool = False, secrets: Iterable[str] = ()
) -> BackendUnavailable:
    """The error for a connection that failed, or broke off after it had *begun*."""
    message = excerpt(str(error), secrets)
    cause = message if message and message[0] != "<" else type(error).__name__
    what = "broke the connection off" if begun else "cannot be reached"
    advice = "" if begun else "; is it running, and is its URL right?"
    worked = None if begun else False
    return BackendUnavailable(f"{server} {what} ({cause}){advice}", worked=worked)


def describe_server(backend: str, model: str = "", url: str = "") -> str:
    """The description of a server for errors: backend, model and host, without credentials."""
    host = host_of(url)
    about = ", ".join(part for part in (model and f"model {model}", host and f"at {host}") if part)
    return f"{backend} ({about})" if about else backend


def check_url(url: str | None, setting: str) -> None:
    """Raise ``ConfigError`` for a *url* that no client could use; *setting* is its name.

    A URL with a user and password is refused too: some clients drop them, some send them and some
    cannot connect. The error shows neither.
    """
    if url is None:
        return
    if not url.lower().startswith(("http://", "https://")):
        raise ConfigError(f"{setting} must begin with http:// or https://, got {address(url)!r}")
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        host = None
    if not host:
        raise ConfigError(f"{setting} must be http://host:port and perhaps a path")
    if "@" in parts.netloc:
        raise ConfigError(
            f"{setting} must not hold a user or password, got {address(url)!r}: give a key as "
            "api_key, from a variable of the environment, and what a proxy asks for as headers"
        )


_SECRET_PARTS = re.compile(r"(?<=://)[^/\s]+(?=@)|(?<=\?)\S+")  # user and password, query


def address(url: str) -> str:
    """*url* in a form that may be shown: without user, password and query."""
    return _SECRET_PARTS.sub("***", url)


def host_of(url: str) -> str:
    """Host and port of *url* and nothing else; empty if it has none."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return ""
    return f"{host}:{port}" if host and port else host


# -- how long to wait

_WAITS = frozenset({408, 409, 413, 425, 429})
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|milliseconds?|h|hours?|m|mins?|minutes?|s|seconds?)")
_SECONDS = {"ms": 0.001, "mi": 60.0, "m": 60.0, "h": 3600.0, "s": 1.0}
_RETRY_IN = re.compile(
    r"(?:try again|retry)\s+(?:in|after)\s+((?:\d+(?:\.\d+)?\s*(?:ms|milliseconds?|hours?|h"
    r"|minutes?|mins?|m|seconds?|s)(?![a-z])\s*)+)",
    re.IGNORECASE,
)
_DELAY = re.compile(r'"retry_?delay"\s*:\s*"(\d+(?:\.\d+)?)s"', re.IGNORECASE)
_EPOCH = 1e9
"""A number from here on is a moment since the epoch, not a time to wait."""


def retry_after(headers: Headers, body: str = "", now: float | None = None) -> float | None:
    """The seconds that a server asks its clients to wait, ``None`` if it does not say.

    Sources in this order: ``retry-after-ms``; ``Retry-After`` as seconds, whole or not, or as an
    HTTP date; ``x-ratelimit-reset*``, ``anthropic-ratelimit-*-reset`` and ``ratelimit-reset`` as
    seconds, as ``6m0s`` or ``500ms``, as a moment since the epoch in seconds or milliseconds, or as
    an ISO date: the latest of the limits whose ``remaining`` is 0, of all limits if there is none;
    in the *body*, Google's ``retryDelay`` and sentences like "try again in 1.2s". Never negative.
    """
    at = time.time() if now is None else now
    fields = {name.lower(): value.strip() for name, value in headers.items()}
    wait, millis = None, fields.get("retry-after-ms", "")
    if re.fullmatch(r"\d{1,12}(\.\d+)?", millis):
        wait = float(millis) / 1000
    if wait is None:
        wait = _moment(fields.get("retry-after", ""), at)
    if wait is None:
        resets = {name: _moment(fields[name], at) for name in fields if _RESET.fullmatch(name)}
        waits = {name: each for name, each in resets.items() if each is not None}
        limits = {name: fields.get(name.replace("reset", "remaining"), "") for name in waits}
        spent = [waits[name] for name, rest in limits.items() if rest in ("0", "0.0")]
        wait = max(spent or waits.values(), default=None)
    if wait is None:
        wait = _in_body(body)
    return wait if wait is None else max(0.0, wait)


def _moment(text: str, now: float) -> float | None:
    """The seconds from *now* that *text* means: a number, a duration, or a date."""
    if re.fullmatch(r"[+-]?\d{1,15}(\.\d*)?", text):
        number = float(text)
        if abs(number) >= _EPOCH * 1000:
            number /= 1000
        return number - now if abs(number) >= _EPOCH else number
    if re.fullmatch(rf"(?:{_DURATION.pattern}\s*)+", text):
        return _duration(text)
    for read in (parsedate_to_datetime, datetime.fromisoformat):
        try:
            date = read(text)
        except (ValueError, TypeError, IndexError, OverflowError):
            continue
        date = date if date.tzinfo is not None else date.replace(tzinfo=UTC)
        return date.timestamp() - now
    return None


def _duration(text: str) -> float:
    pairs = _DURATION.findall(text.lower())
    return sum(float(n) * (_SECONDS.get(unit[:2]) or _SECONDS[unit[0]]) for n, unit in pairs)


_RESET = re.compile(
    r"(?:x-ratelimit-reset(?:-\w+)*|anthropic-ratelimit-[\w-]+-reset|(?:x-)?ratelimit-reset)"
)


def _in_body(body: str) -> float | None:
    delay = _DELAY.search(body)
    if delay is not None:
        return float(delay[1])
    match = _RETRY_IN.search(body)
    return _duration(match[1]) if match is not None else None


# -- what a status means

_TOO_LONG = re.compile(
    r"context_length_exceeded|max(?:imum)? context|context window|prompt is too long"
    r"|exceed\w* (?:the )?(?:available |maximum |model'?s? )*context"
    r"|longer than the model'?s context|exceeds the maximum allowed length"
    r"|input is too long|too many (?:input )?tokens|input tokens exceed"
    r"|string_above_max_length",
    re.IGNORECASE,
)
_NO_MODEL = re.compile(
    r"model_not_found|(?:model|deployment)\b.{0,120}\b(?:not found|does not exist|not exist"
    r"|unknown|not supported|no access)|(?:unknown|no such|invalid|not a valid) model"
    r"|DeploymentNotFound",
    re.IGNORECASE | re.DOTALL,
)
_NO_MONEY = re.compile(
    r"insufficient_quota|billing_hard_limit|credit balance is too low"
    r"|insufficient (?:credit|balance)",
    re.IGNORECASE,
)
_FILTERED = re.compile(
    r"content_filter|content management policy|content_policy|ResponsibleAIPolicy", re.IGNORECASE
)
_BUSY = re.compile(r"overloaded|queue is full|too many requests|rate limit", re.IGNORECASE)
_KEY = re.compile(r"invalid_api_key|api[ _]key (?:not valid|is invalid)", re.IGNORECASE)

_NO_MEDIA = re.compile(r"(?:image|audio|video) input is not supported", re.IGNORECASE)
"""The words of llama.cpp, with status 500, where its model takes text alone."""

_Meaning = tuple[type[BackendError], str]


def _meaning(status: int, body: str, wait: float | None) -> _Meaning:
    """The class of the error, and the advice."""
    if status in (401, 403) or (status == 400 and _KEY.search(body)):
        return AuthenticationFailed, "check the key, and what it may do"
    if status in (402, 429) and (status == 402 or _NO_MONEY.search(body)):
        return BackendRefused, "the account has no credit left, and asking again does not help"
    if status in (429, 529):
        return BackendBusy, _retry_phrase(wait)
    if status in (408, 409, 425) or status >= 500:
        if status == 500 and _NO_MEDIA.search(body):
            advice = "say what is in images and sounds as text, or choose another model"
            return BackendRefused, advice
        if status in (501, 505):
            return BackendRefused, "it does not have what was asked for: check the URL"
        if status == 503 and (wait is not None or _BUSY.search(body)):
            return BackendBusy, _retry_phrase(wait)
        return BackendUnavailable, ""
    if status < 300:
        return MalformedResponse, ""
    return _refused(status, body)


def _refused(status: int, body: str) -> _Meaning:
    if status in (400, 413, 422) and _TOO_LONG.search(body):
        return PromptTooLong, "shorten the prompt, or choose a model with a longer context"
    if status == 404 and not _NO_MODEL.search(body):
        return BackendRefused, "there is nothing at this URL: check base_url (does it end in /v1?)"
    if status in (400, 404, 422) and _NO_MODEL.search(body):
        return ModelNotFound, "check the name of the model"
    if _FILTERED.search(body):
        return BackendRefused, "its content filter stopped the request"
    if status == 413:
        return BackendRefused, "the request is too large"
    return BackendRefused, ""


def _retry_phrase(wait: float | None) -> str:
    return "" if wait is None else f"it asks to be left alone for {wait:.3g} s"


_KINDS_OF = {
    400: "invalid_request_error content_filter context_length_exceeded badrequesterror bad_request"
    " invalid_argument failed_precondition validationexception",
    401: "authentication_error invalid_api_key unauthenticated",
    403: "permission_error permission_denied accessdeniedexception",
    404: "not_found_error model_not_found notfounderror not_found resourcenotfoundexception",
    413: "request_too_large",
    429: "rate_limit_error rate_limit_exceeded insufficient_quota resource_exhausted"
    " throttlingexception",
    500: "server_error api_error internal internalserverexception",
    503: "unavailable modelnotreadyexception serviceunavailableexception",
    504: "timeout deadline_exceeded",
    529: "overloaded_error",
}
"""Words by which the errors of OpenAI, Anthropic, Google and Amazon are known, by HTTP status."""
_STATUS_OF = {kind: status for status, kinds in _KINDS_OF.items() for kind in kinds.split()}


def _status_in(payload: object) -> int | None:
    """The HTTP status that an error object names by number or word."""
    inner = payload.get("error", payload) if isinstance(payload, Mapping) else payload
    if not isinstance(inner, Mapping):
        return None
    for key in ("status_code", "status", "code", "type"):
        value = inner.get(key)
        if isinstance(value, str) and re.fullmatch("[0-9]{3}", value):
            value = int(value)
        if isinstance(value, int) and 400 <= value < 600:
            return value
        if isinstance(value, str) and value.lower() in _STATUS_OF:
            return _STATUS_OF[value.lower()]
    return None


# -- what is shown

_HTML = re.compile(r"\s*<(?:!doctype\s+html|html|head|body)\b", re.IGNORECASE)


def masked(text: str, secrets: Iterable[str] = ()) -> str:
    """*text* with secrets masked, as a server may repeat what it was asked.

    It masks *secrets*, those of the environment, texts that look like a key, and a URL's
    credentials.
    """
    mask_secrets = _mask(tuple(secret for secret in (*secrets, *of_environment()) if secret))
    return without_likely_keys(mask_secrets(text), UNRECORDED)


@lru_cache(maxsize=4)  # that of each backend, whose errors may be many
def _mask(secrets: tuple[str, ...]) -> Mask:
    return Mask(secrets, UNRECORDED)


def excerpt(body: str | bytes, secrets: Iterable[str] = ()) -> str:
    """The beginning of *body* on one line, without secrets, of at most ``EXCERPT`` characters."""
    line = " ".join(masked(_text(body)[: 20 * EXCERPT], secrets).split())
    return line if len(line) <= EXCERPT else f"{line[: EXCERPT - 1]}…"


def message_in_body(body: str, secrets: Iterable[str] = ()) -> str:
    """The message in the body of a server's error, or the whole text if it has none."""
    try:
        value = read_json(body)
    except ValueError:
        return excerpt(body, secrets)
    return excerpt(_message(value) or body, secrets)


def _message(value: object) -> str:
    """The message in an error body, in the nestings that servers use."""
    if isinstance(value, list) and value:
        return _message(value[0])
    if not isinstance(value, Mapping):
        return value if isinstance(value, str) else ""
    for key in ("error", "message", "detail", "msg", "error_description", "error_message"):
        message = _message(value[key]) if key in value else ""
        if message:
            return message
    return ""


def _named(headers: Headers, wanted: str) -> str:
    return next((value for name, value in headers.items() if name.lower() == wanted), "")


def _text(body: object) -> str:
    if isinstance(body, str):
        return body
    if isinstance(body, bytes | bytearray):
        return bytes(body).decode("utf-8", "replace")
    try:
        return json.dumps(body, ensure_ascii=False) if body is not None else ""
    except (TypeError, ValueError, RecursionError):
        return f"a {type(body).__name__}"
