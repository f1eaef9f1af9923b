"""One rule for every HTTP library: no redirect is followed, and no body is longer than it may be.

Invariant: the rule holds while a question of this package is asked, and changes nothing of what the
process asks by itself through the same library.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import partial
from typing import Any

from appl.backend.check import ANSWER_BYTES, read_json
from appl.backend.http import (
    ERROR_BYTES,
    STREAM_BYTES,
    error_of_payload,
    not_json,
    redirected,
    too_long,
)
from appl.errors import BackendError, MalformedResponse
from appl_backends.http.events import EventParser
from appl_backends.sensible import sensible


class Question:
    """A question on its way to *who*; ``error`` is why its answer was refused.

    *secrets* are sent with it, and are taken out of what is said of its answer. With *reads*, JSON
    is read before the library gets it, and loses what that would refuse it for. ``over`` says that
    nobody waits any more, ``status`` is that of the last error; ``ended`` is true if a stream has
    come to its end: its mark, or in Google's interface the reason.
    """

    def __init__(self, who: str, secrets: Sequence[str], reads: bool) -> None:
        self.who, self.secrets, self.reads = who, secrets, reads
        self.error: BackendError | None = None
        self.over = self.ended = False
        self.status: int | None = None

    def refuse(self, error: BackendError) -> BackendError:
        """Remember *error*, which the library may hide in one of its own, and return it."""
        self.error = self.error or error
        return self.error


_question: ContextVar[Question | None] = ContextVar("question", default=None)


@contextmanager
def question(who: str, secrets: Sequence[str] = (), *, reads: bool = False) -> Iterator[Question]:
    """The block asks *who*. Raises why the answer was refused, whatever the library made of it."""
    asked = Question(who, secrets, reads)
    token = _question.set(asked)
    try:
        yield asked
    except Exception:
        if asked.error is None:
            raise
    finally:
        asked.over = True
        _question.reset(token)
    error, asked.error = asked.error, None  # a timer of the library may hold the question for long
    if error is not None:
        raise error from None


def alone(error: BackendError) -> BackendError:
    """*error* without the library's own errors and frames: these hold the answer."""
    error.__cause__ = error.__context__ = None
    return error.with_traceback(None)


def guarded_send(send: Callable[..., Any]) -> Callable[..., Any]:
    """The method ``send`` of an asynchronous httpx client, by the rule."""

    async def sent(request: Any, *, stream: bool = False, **options: Any) -> Any:
        asked = _question.get()
        if asked is None:
            return await send(request, stream=stream, **options)
        _begin(request, options, asked)
        response = await send(request, stream=True, **options)
        refused = _refusal(response, asked)
        if refused is not None or asked.status is not None:
            return await _failed(response, refused)
        response.stream = _bounded(response, asked, "AsyncByteStream")
        try:
            await _read(response, asked, stream)
        except BaseException:
            await response.aclose()
            raise
        return response

    return sent


def guarded_blocking_send(send: Callable[..., Any]) -> Callable[..., Any]:
    """The method ``send`` of a blocking httpx client, by the rule."""

    def sent(request: Any, *, stream: bool = False, **options: Any) -> Any:
        asked = _question.get()
        if asked is None:
            return send(request, stream=stream, **options)
        _begin(request, options, asked)
        response = send(request, stream=True, **options)
        refused = _refusal(response, asked)
        if refused is not None or asked.status is not None:
            return _failed_blocking(response, refused)
        response.stream = _bounded(response, asked, "SyncByteStream")
        try:
            if not stream:
                response.read()
        except BaseException:
            response.close()
            raise
        return response

    return sent


def guard_clients(library: Any) -> None:
    """Have all clients of *library*, httpx or one like it, keep the rule of a question."""
    for kind, guarded in (
        (library.AsyncClient, guarded_send),
        (library.Client, guarded_blocking_send),
    ):
        if not hasattr(kind, "_unguarded_send"):
            kind._unguarded_send = kind.send
            kind.send = _method(kind.send, guarded)


def _method(send: Any, guarded: Callable[[Callable[..., Any]], Callable[..., Any]]) -> Any:
    def sent(client: Any, request: Any, **options: Any) -> Any:
        return guarded(partial(send, client))(request, **options)

    return sent


def _begin(request: Any, options: dict[str, Any], asked: Question) -> None:
    """Prepare *request*. Raises why its first attempt was refused: retries are not a library's."""
    if request.headers.get("x-stainless-retry-count", "0") != "0":
        raise asked.error or ConnectionError("the connection broke off")
    request.headers["Accept-Encoding"] = "identity"
    options["follow_redirects"] = False


def _refusal(response: Any, asked: Question) -> BackendError | None:
    """Why *response* is refused by its head, if it is."""
    status, headers = response.status_code, response.headers
    asked.status = status if status >= 400 else None
    if 300 <= status < 400:
        return asked.refuse(redirected(status, headers.get("location", ""), asked.who))
    encoding = headers.get("content-encoding", "identity").strip().lower()
    if asked.status is not None or encoding in _PLAIN:
        return None
    return asked.refuse(
        MalformedResponse(
            f"{asked.who} sent an answer that is compressed ({encoding[:20]!r}), which was not "
            "asked for; a proxy may stand in between",
            status=200,
        )
    )


def _bounded(response: Any, asked: Question, base: str) -> Any:
    """The body of *response*, which ends with an error where it becomes too long."""
    streams = "event-stream" in response.headers.get("content-type", "").lower()
    library: Any = sys.modules[type(response).__module__.partition(".")[0]]
    bounded = _BoundedEvents if streams and asked.reads else _Bounded
    kind = type("BoundedStream", (bounded, getattr(library, base)), {})
    return kind(response.stream, STREAM_BYTES if streams else ANSWER_BYTES, asked)


async def _read(response: Any, asked: Question, stream: bool) -> None:
    """Read the body; its JSON too where *asked* wants it: a library may take minutes for it."""
    kind = response.headers.get("content-type", "").lower()
    is_json = asked.reads and _JSON.search(kind) is not None
    if stream and (not is_json or _LINES.search(kind)):
        return
    body = await response.aread()
    try:
        if is_json:
            data = read_json(body)
            if not isinstance(data, dict | list):
                raise ValueError
            _check_error(data, asked)
            if (found := sensible(data)) is not data:
                response._content = json.dumps(found).encode()
    except ValueError:
        raise asked.refuse(
            not_json(body, asked.who, content_type=kind, secrets=asked.secrets)
        ) from None


def _check_error(data: Any, asked: Question) -> None:
    """Raise the error that *data*, which came with status 200, tells of in place of an answer."""
    if isinstance(data, list) and len(data) == 1:  # as Google wraps its errors
        data = data[0]
    if not isinstance(data, dict) or any(data.get(name) for name in _ANSWERS):
        return
    if data.get("error") or data.get("detail") or "error" in (data.get("type"), data.get("object")):
        raise asked.refuse(error_of_payload(data, asked.who, secrets=asked.secrets))


_ANSWERS = ("choices", "candidates", "content", "output")
_JSON = re.compile(r"json|html|^$|text/plain")
_LINES = re.compile(r"ndjson|jsonl|json-?lines|json-seq|stream\+json")
"""Content types of streams with a JSON value in each line, as Ollama's are."""
_PLAIN = ("", "identity")
_OF_BODY = ("content-length", "content-encoding", "transfer-encoding", "location", "x-should-retry")


async def _failed(response: Any, refused: BackendError | None) -> Any:
    """An error whose body is cut after ``ERROR_BYTES``."""
    body = bytearray()
    try:
        async for piece in response.stream if _is_said(response, refused) else _nothing():
            body += piece
            if len(body) >= ERROR_BYTES:
                break
    finally:
        await response.aclose()
    return _cut(response, bytes(body), refused)


def _failed_blocking(response: Any, refused: BackendError | None) -> Any:
    """As :func:`_failed`, for a blocking client."""
    body = bytearray()
    try:
        for piece in response.stream if _is_said(response, refused) else ():
            body += piece
            if len(body) >= ERROR_BYTES:
                break
    finally:
        response.close()
    return _cut(response, bytes(body), refused)


def _is_said(response: Any, refused: BackendError | None) -> bool:
    """True if the body of an error can be shown."""
    plain = response.headers.get("content-encoding", "identity").strip().lower() in _PLAIN
    return refused is None and plain


def _cut(response: Any, body: bytes, refused: BackendError | None) -> Any:
    """*response* as an error with this *body*, which no library tries again by itself."""
    headers = [each for each in response.headers.items() if each[0].lower() not in _OF_BODY]
    made = type(response)(
        400 if refused is not None else response.status_code,
        headers=[*headers, ("x-should-retry", "false")],
        content=str(refused).encode() if refused is not None else body[:ERROR_BYTES],
        request=response.request,
    )
    made.elapsed = response.elapsed
    return made


async def _nothing() -> AsyncIterator[bytes]:
    yield b""


class _Bounded:
    """A body of at most *most* bytes, none of whose lines is longer than an answer."""

    def __init__(self, inner: Any, most: int, asked: Question) -> None:
        self._inner, self._most, self._asked = inner, most, asked
        self._size = self._line = 0

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for piece in self._inner:
            self._count(piece)
            yield piece

    def __iter__(self) -> Iterator[bytes]:
        for piece in self._inner:
            if self._asked.over:
                raise TimeoutError("nobody waits for the answer any more")
            self._count(piece)
            yield piece

    def _count(self, piece: bytes) -> None:
        self._size += len(piece)
        end = piece.rfind(b"\n") + 1
        self._line = len(piece) - end + (0 if end else self._line)
        if self._size > self._most or self._line > ANSWER_BYTES:
            most = ANSWER_BYTES if self._line > ANSWER_BYTES else self._most
            raise self._asked.refuse(too_long(self._asked.who, most))

    async def aclose(self) -> None:
        await self._inner.aclose()

    def close(self) -> None:
        self._inner.close()


class _BoundedEvents(_Bounded):
    """A stream of events, by the published rule and without what a library would refuse it for."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        parser = EventParser(self._asked.who)
        try:
            async for piece in super().__aiter__():
                for event in parser.feed(piece):
                    yield self._written(*event)
        except BackendError as error:
            raise self._asked.refuse(error) from None
        for kind, data in parser.rest():
            with suppress(MalformedResponse):  # half an event is none
                yield self._written(kind, data)

    def _written(self, kind: str, data: str) -> bytes:
        """An event as the library gets it. Raises ``MalformedResponse`` if it is no JSON."""
        if data.startswith("[DONE]"):
            self._asked.ended = True
            return b"data: [DONE]\n\n"
        self._asked.ended = self._asked.ended or kind in _LAST
        asked = self._asked
        try:
            found = read_json(data)
        except ValueError:
            raise not_json(data, asked.who, secrets=asked.secrets) from None
        _check_error({"type": kind, **found} if kind == "error" else found, asked)
        found = sensible(found)
        asked.ended = asked.ended or _says_why(found)
        head = f"event: {kind}\n" if kind else ""
        # Libraries look for the mark of the end anywhere in a line: a text that holds it is no end.
        text = json.dumps(found).replace("[DONE]", "[\\u0044ONE]")
        return f"{head}data: {text}\n\n".encode()


def _says_why(found: Any) -> bool:
    """True if an event of Google's interface has the reason why the answer ended."""
    candidates = found.get("candidates") if isinstance(found, dict) else None
    listed = candidates if isinstance(candidates, list) else ()
    return any(isinstance(each, dict) and bool(each.get("finishReason")) for each in listed)


_LAST = frozenset({"message_stop", "response.completed"})
"""The types of the last events of streams of Anthropic and of OpenAI's Responses."""
