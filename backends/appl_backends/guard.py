"""One rule for every HTTP library: no redirect is followed, and no body is longer than it may be.

Invariant: the rule holds while a question of this package is asked, and changes nothing of what the
process asks by itself through the same library.
"""

from __future__ import annotations

import re
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from appl.backend_http import (
    ANSWER_BYTES,
    ERROR_BYTES,
    STREAM_BYTES,
    not_json,
    read_json,
    redirected,
    too_long,
)
from appl.errors import BackendError, MalformedResponse


class Question:
    """A question on its way to *who*; ``error`` is why its answer was refused.

    *secrets* are sent with it, and are taken out of what is said of its answer.
    """

    def __init__(self, who: str, secrets: Sequence[str]) -> None:
        self.who, self.secrets = who, secrets
        self.error: BackendError | None = None

    def refuse(self, error: BackendError) -> BackendError:
        """Remember *error*, which the library may hide in one of its own, and return it."""
        self.error = self.error or error
        return self.error


_question: ContextVar[Question | None] = ContextVar("question", default=None)


@contextmanager
def question(who: str, secrets: Sequence[str] = ()) -> Iterator[Question]:
    """The block asks *who*. Raises why the answer was refused, whatever the library made of it."""
    asked = Question(who, secrets)
    token = _question.set(asked)
    try:
        yield asked
    except Exception:
        if asked.error is None:
            raise
    finally:
        _question.reset(token)
    if asked.error is not None:
        raise asked.error from None


def guarded_send(send: Callable[..., Any]) -> Callable[..., Any]:
    """The method ``send`` of an httpx client, by the rule."""

    async def sent(request: Any, *, stream: bool = False, **options: Any) -> Any:
        if _question.get() is None:
            return await send(request, stream=stream, **options)
        request.headers["Accept-Encoding"] = "identity"
        options["follow_redirects"] = False
        response = await _judged(await send(request, stream=True, **options))
        if not stream:
            await response.aread()
        return response

    return sent


class GuardedTransport:
    """An httpx transport around another one, by the rule."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    async def handle_async_request(self, request: Any) -> Any:
        """The answer to *request*."""
        if _question.get() is None:
            return await self.inner.handle_async_request(request)
        request.headers["Accept-Encoding"] = "identity"
        response = await self.inner.handle_async_request(request)
        response.request = request
        return await _read(await _judged(response))

    async def aclose(self) -> None:
        """Close the connections."""
        await self.inner.aclose()

    async def __aenter__(self) -> GuardedTransport:
        await self.inner.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> None:
        await self.inner.__aexit__(*error)


async def _judged(response: Any) -> Any:
    """*response* with a bounded body. Raises ``BackendError`` for what sends elsewhere."""
    asked = _question.get()
    assert asked is not None
    status, headers = response.status_code, response.headers
    if 300 <= status < 400:
        await response.aclose()
        raise asked.refuse(redirected(status, headers.get("location", ""), asked.who))
    if status >= 400:
        return await _failed(response)
    encoding = headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("", "identity"):
        await response.aclose()
        raise asked.refuse(
            MalformedResponse(
                f"{asked.who} sent an answer that is compressed ({encoding[:20]!r}), which was not "
                "asked for; a proxy may stand in between",
                status=200,
            )
        )
    streams = "event-stream" in headers.get("content-type", "")
    most = STREAM_BYTES if streams else ANSWER_BYTES
    base: Any = sys.modules[type(response).__module__.partition(".")[0]].AsyncByteStream
    bounded = type("BoundedStream", (_Bounded, base), {})
    response.stream = bounded(response.stream, most, asked)
    return response


async def _read(response: Any) -> Any:
    """*response*, whose JSON was read once: a library may take minutes to say what is wrong."""
    asked, kind = _question.get(), response.headers.get("content-type", "").lower()
    if response.status_code >= 400 or asked is None or not _JSON.search(kind):
        return response
    try:
        body = await response.aread()
        if not isinstance(read_json(body), dict | list):
            raise ValueError
    except ValueError:
        raise asked.refuse(
            not_json(body, asked.who, content_type=kind, secrets=asked.secrets)
        ) from None
    headers = [each for each in response.headers.items() if each[0] not in _OF_BODY]
    return type(response)(
        response.status_code, headers=headers, content=body, request=response.request
    )


_JSON = re.compile(r"json|html|^$|text/plain")
_OF_BODY = ("content-length", "content-encoding", "transfer-encoding")


async def _failed(response: Any) -> Any:
    """An error whose body is cut after ``ERROR_BYTES``."""
    plain = response.headers.get("content-encoding", "identity") in ("", "identity")
    body = bytearray()
    try:
        async for piece in response.stream if plain else _nothing():
            body += piece
            if len(body) >= ERROR_BYTES:
                break
    finally:
        await response.aclose()
    headers = [(name, value) for name, value in response.headers.items() if name not in _OF_BODY]
    return type(response)(
        response.status_code,
        headers=headers,
        content=bytes(body[:ERROR_BYTES]),
        request=response.request,
    )


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

    def _count(self, piece: bytes) -> None:
        self._size += len(piece)
        end = piece.rfind(b"\n") + 1
        self._line = len(piece) - end + (0 if end else self._line)
        if self._size > self._most or self._line > ANSWER_BYTES:
            most = ANSWER_BYTES if self._line > ANSWER_BYTES else self._most
            raise self._asked.refuse(too_long(self._asked.who, most))

    async def aclose(self) -> None:
        await self._inner.aclose()
