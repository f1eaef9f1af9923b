"""Anthropic's batches: many messages in one request, answered within a day for half the price.

https://platform.claude.com/docs/en/build-with-claude/batch-processing and the reference of message
batches, read on 2026-11-27: 100,000 requests and 256 MB at most, 24 hours, ids of items of 64
letters, digits, ``_`` and ``-``. A batch has no metadata: one whose sending was not answered is
known by its time and its number of items, and for certain when it has ended, by the ids.

Invariant: the id of every item begins with our key.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any
from urllib.parse import quote

from appl.backend import Request, Response
from appl.backend.check import read_json
from appl.backend.http import errors_of_http
from appl.errors import MalformedResponse
from appl.parts.batching.provider import BatchItem, BatchStatus, Found, Intent, Outcome
from appl_backends.anthropic.answer import BlocksReader
from appl_backends.anthropic.body import Body
from appl_backends.anthropic.messages import BLOCKS
from appl_backends.batch_lines import MOST_BYTES, at_batch_price, lines_of
from appl_backends.http.client import HttpClient

PATH = "/v1/messages/batches"
_SKEW_S = 3600.0
_PAGES = 100
_STATUS = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}
"""https://platform.claude.com/docs/en/api/errors"""
_SERVICE = ("", "auto", "default", "standard_only")


class AnthropicBatches:
    """A :class:`~appl.parts.batching.provider.BatchProvider` of *who*.

    *question* gives the client and the head of a request, *prepare* writes a request, or says that
    it cannot be in a batch, and *price* gives an answer of a model its cost.
    """

    most_items, most_bytes = 100_000, 256_000_000

    def __init__(
        self,
        question: Callable[[str, str, str], tuple[HttpClient, bytes]],
        who: str,
        secrets: tuple[str, ...],
        prepare: Callable[[Request], tuple[Body, BlocksReader] | None],
        price: Callable[[Response, str], Response],
    ) -> None:
        self._question, self._who, self._secrets = question, who, secrets
        self._prepare, self._price = prepare, price

    async def item(self, request: Request) -> BatchItem | None:
        """*request* as an item; all models may be in one batch."""
        if any(
            name == "service_tier" and it not in _SERVICE for name, it in request.sampling.extra
        ):
            return None
        found = self._prepare(request)
        if found is None:
            return None
        body, reader = found

        def price(response: Response) -> Response:
            return self._price(response, request.model)

        def read(data: Any) -> Response:
            response = at_batch_price(request, reader.who, price, reader.response(data))
            if body.sheds and BLOCKS not in response.shed:
                response = dataclasses.replace(response, shed=(*response.shed, BLOCKS))
            return response

        return BatchItem("messages", b"".join(body.pieces), read)

    async def upload(self, intent: Intent, items: Mapping[str, BatchItem]) -> str | None:
        """Nothing is uploaded."""
        return None

    async def send(self, intent: Intent, items: Mapping[str, BatchItem]) -> BatchStatus:
        """Send all items."""
        pieces = [b'{"requests":[']
        for name, item in items.items():
            comma = b"," if len(pieces) > 1 else b""
            pieces.append(b'%b{"custom_id":%b,"params":' % (comma, json.dumps(name).encode()))
            pieces += (item.body, b"}")
        return self._status(await self._ask("POST", PATH, [*pieces, b"]}"]))

    async def look(self, id: str) -> BatchStatus:
        """The present state of the batch *id*."""
        return self._status(await self._ask("GET", self._path(id)))

    async def find(self, intent: Intent) -> Found:
        """The batch whose ids begin with the key; those that go on may be it."""
        after, candidates = "", 0
        for _ in range(_PAGES):
            page = await self._ask("GET", f"{PATH}?limit=1000{after}")
            listed = [each for each in page.get("data") or () if isinstance(each, dict)]
            created = [_moment(each.get("created_at")) for each in listed]
            for each, at in zip(listed, created, strict=True):
                status = self._status(each)
                if at < intent.wall - _SKEW_S or status.id in intent.others:
                    continue
                if status.total != intent.count or each.get("archived_at"):
                    continue
                if not status.ended:
                    candidates += 1
                elif await self._is_ours(status, intent):
                    return Found(status)
            if not page.get("has_more") or min(created, default=0.0) < intent.wall - _SKEW_S:
                break
            after = f"&after_id={quote(self._text(listed[-1], 'id'), safe='')}"
        return Found(None, candidates)

    async def results(self, status: BatchStatus) -> AsyncIterator[tuple[str, Outcome]]:
        """The outcomes of its items."""
        for line in await self._lines(status):
            if isinstance(line, dict) and isinstance(line.get("custom_id"), str):
                yield line["custom_id"], self._outcome(line.get("result"))

    async def cancel(self, id: str) -> None:
        """Have it answer no more."""
        await self._ask("POST", f"{self._path(id)}/cancel")

    async def remove(self, intent: Intent, files: Sequence[str]) -> None:
        """There are no files: the provider keeps the outcomes for 29 days."""

    async def _is_ours(self, status: BatchStatus, intent: Intent) -> bool:
        first = next(iter(await self._lines(status)), None)
        name = first.get("custom_id") if isinstance(first, dict) else None
        return isinstance(name, str) and name.startswith(f"{intent.key}-")

    async def _lines(self, status: BatchStatus) -> Iterable[Any]:
        http, head = self._question("GET", f"{self._path(status.id)}/results", self._who)
        return lines_of(await http.exchange(head, b"", self._who, bytes, MOST_BYTES) or b"")

    async def _ask(self, method: str, path: str, body: bytes | list[bytes] = b"") -> dict[str, Any]:
        http, head = self._question(method, path, self._who)
        found = await http.exchange(head, body, self._who, read_json)
        if not isinstance(found, dict):
            raise MalformedResponse(f"{self._who} answered {path} with no object", status=200)
        return found

    def _path(self, id: str) -> str:
        return f"{PATH}/{quote(id, safe='')}"

    def _status(self, data: dict[str, Any]) -> BatchStatus:
        counts = data.get("request_counts") or {}
        by_state = {name: it for name, it in counts.items() if isinstance(it, int)}
        total = sum(by_state.values())
        word = self._text(data, "processing_status")
        done = total - by_state.get("processing", 0)
        return BatchStatus(self._text(data, "id"), word, word == "ended", done, total)

    def _outcome(self, result: Any) -> Outcome:
        kind = result.get("type") if isinstance(result, dict) else None
        if kind == "succeeded":
            return json.dumps(result.get("message")).encode()
        if kind == "expired":
            return "expired"
        if kind == "canceled":
            return "cancelled"
        error = result.get("error") if isinstance(result, dict) else None
        inner = error.get("error") if isinstance(error, dict) else None
        name = inner.get("type") if isinstance(inner, dict) else None
        status = _STATUS.get(name, 500) if isinstance(name, str) else 500
        return errors_of_http(status, {}, error, self._who, secrets=self._secrets)

    def _text(self, data: dict[str, Any], name: str) -> str:
        found = data.get(name)
        if not isinstance(found, str) or not found:
            raise MalformedResponse(f"{self._who}: a batch has no {name}", status=200)
        return found


def _moment(text: object) -> float:
    """The time of an RFC 3339 *text*, in seconds since 1970; 0 if it is none."""
    try:
        return datetime.fromisoformat(str(text)).timestamp()
    except ValueError:
        return 0.0
