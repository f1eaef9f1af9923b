"""OpenAI's batches: a file of requests is uploaded, and answered within a day for half the price.

https://developers.openai.com/api/docs/guides/batch and the reference of batches and files, read on
2026-11-27: one model and one interface for each file, 50,000 requests and 200 MB at most, 24 hours,
items that were not answered by then are named in the file of errors as ``batch_expired``.

Invariant: our key is in the metadata of the batch and in the name of its file, so that both are
found again.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from appl.backend import Request, Response
from appl.backend.check import read_json
from appl.backend.http import error_of_payload, errors_of_http
from appl.errors import BackendBusy, BackendError, BackendRefused, MalformedResponse
from appl.parts.batching.provider import BatchItem, BatchStatus, Found, Intent, Outcome, Unanswered
from appl_backends.batch_lines import MOST_BYTES, at_batch_price, lines_of
from appl_backends.openai.answer import ChatReader
from appl_backends.openai.connection import ServerConnection

MARK = "appl_batch"
"""The name of our key in the metadata of a batch."""
_KEPT_S = 30 * 24 * 3600
"""Seconds after which the provider itself removes a file: the longest that it allows."""
_ENDS = ("completed", "failed", "expired", "cancelled")
_SKEW_S = 3600.0
_PAGES = 100
_SERVICE = ("", "auto", "default")
_JSON = "application/json"

Prepared = tuple[str, str, list[bytes], ChatReader]
"""The path and model of a request, the pieces of its body, and the reader of the answer."""


class OpenAIBatches:
    """A ``BatchProvider`` behind *connection*, which is called *who*.

    *prepare* writes a request, or says that it cannot be in a batch. *price* gives an answer of a
    model its cost.
    """

    most_items, most_bytes = 50_000, 200_000_000

    def __init__(
        self,
        connection: ServerConnection,
        who: str,
        secrets: tuple[str, ...],
        prepare: Callable[[Request], Awaitable[Prepared | None]],
        price: Callable[[Response, str], Response],
    ) -> None:
        self._connection, self._who, self._secrets = connection, who, secrets
        self._prepare, self._price = prepare, price

    async def item(self, request: Request) -> BatchItem | None:
        """*request* as a line of a file, without its id; one model for each kind."""
        if any(
            name == "service_tier" and it not in _SERVICE for name, it in request.sampling.extra
        ):
            return None
        found = await self._prepare(request)
        if found is None:
            return None
        path, model, body, reader = found
        source = reader.source or reader.who

        def price(response: Response) -> Response:
            return self._price(response, model)

        def read(data: Any) -> Response:
            return at_batch_price(request, source, price, reader.response(data))

        return BatchItem(f"/v1{path} {model}", b"".join(body), read)

    async def upload(self, intent: Intent, items: Mapping[str, BatchItem]) -> str | None:
        """Upload the file of requests, which is named after the key."""
        url = intent.kind.partition(" ")[0]
        lines = [
            b'{"custom_id":%b,"method":"POST","url":%b,"body":%b}\n'
            % (json.dumps(name).encode(), json.dumps(url).encode(), item.body)
            for name, item in items.items()
        ]
        boundary = f"appl-{intent.key}"
        fields = {
            "purpose": "batch",
            "expires_after[anchor]": "created_at",
            "expires_after[seconds]": str(_KEPT_S),
        }
        head = [
            f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'
            for name, value in fields.items()
        ]
        head.append(
            f'--{boundary}\r\nContent-Disposition: form-data; name="file"; '
            f'filename="{_file_name(intent)}"\r\nContent-Type: application/jsonl\r\n\r\n'
        )
        body = ["".join(head).encode(), *lines, f"\r\n--{boundary}--\r\n".encode()]
        kind = f"multipart/form-data; boundary={boundary}"
        return self._text(await self._ask("POST", "/files", body, kind), "id")

    async def send(self, intent: Intent, items: Mapping[str, BatchItem]) -> BatchStatus:
        """Begin the batch of the uploaded file."""
        data = {
            "input_file_id": intent.file,
            "endpoint": intent.kind.partition(" ")[0],
            "completion_window": "24h",
            "metadata": {MARK: intent.key},
            "output_expires_after": {"anchor": "created_at", "seconds": _KEPT_S},
        }
        return self._status(await self._ask("POST", "/batches", json.dumps(data).encode()))

    async def look(self, id: str) -> BatchStatus:
        """The present state of the batch *id*."""
        return self._status(await self._ask("GET", f"/batches/{quote(id, safe='')}"))

    async def find(self, intent: Intent) -> Found:
        """The batch with the key in its metadata, or of the file that was uploaded for it."""
        after = ""
        for _ in range(_PAGES):
            page = await self._ask("GET", f"/batches?limit=100{after}")
            listed = self._listed(page)
            for each in listed:
                metadata = each.get("metadata")
                key = metadata.get(MARK) if isinstance(metadata, dict) else None
                own_file = intent.file is not None and each.get("input_file_id") == intent.file
                if key == intent.key or own_file:
                    return Found(self._status(each))
            created = [at for each in listed if isinstance(at := each.get("created_at"), int)]
            if not page.get("has_more") or min(created, default=0) < intent.wall - _SKEW_S:
                break
            after = f"&after={quote(self._text(listed[-1], 'id'), safe='')}"
        return Found(None)

    async def results(self, status: BatchStatus) -> AsyncIterator[tuple[str, Outcome]]:
        """The outcomes in the files of answers and of errors."""
        for name in status.outputs:
            path = f"/files/{quote(name, safe='')}/content"
            body = await self._connection.ask("GET", path, self._who, read=bytes, most=MOST_BYTES)
            for line in lines_of(body or b""):
                if isinstance(line, dict) and isinstance(line.get("custom_id"), str):
                    yield line["custom_id"], self._outcome(line)

    async def cancel(self, id: str) -> None:
        """Have it answer no more."""
        await self._ask("POST", f"/batches/{quote(id, safe='')}/cancel", b"{}")

    async def remove(self, intent: Intent, files: Sequence[str]) -> None:
        """Remove *files*, and the one that has the name of the key if none is known."""
        for name in files or await self._uploaded(intent):
            try:
                await self._ask("DELETE", f"/files/{quote(name, safe='')}")
            except BackendRefused as error:
                if error.status != 404:  # it is gone already
                    raise

    async def _uploaded(self, intent: Intent) -> list[str]:
        page = await self._ask("GET", "/files?purpose=batch&limit=10000")
        wanted = _file_name(intent)
        return [self._text(it, "id") for it in self._listed(page) if it.get("filename") == wanted]

    async def _ask(
        self, method: str, path: str, body: bytes | list[bytes] = b"", kind: str = _JSON
    ) -> dict[str, Any]:
        found = await self._connection.ask(method, path, self._who, body, kind, read_json)
        if not isinstance(found, dict):
            raise MalformedResponse(f"{self._who} answered {path} with no object", status=200)
        return found

    def _status(self, data: dict[str, Any]) -> BatchStatus:
        word = self._text(data, "status")
        counts = data.get("request_counts") or {}
        done = _count(counts.get("completed")) + _count(counts.get("failed"))
        files = [data.get(name) for name in ("input_file_id", "output_file_id", "error_file_id")]
        named = tuple(name for name in files if isinstance(name, str))
        missing: dict[str, Unanswered] = {"expired": "expired", "cancelled": "cancelled"}
        return BatchStatus(
            self._text(data, "id"),
            word,
            word in _ENDS,
            done,
            _count(counts.get("total")),
            named,
            tuple(name for name in files[1:] if isinstance(name, str)),
            missing.get(word),
            self._failure(data) if word == "failed" else None,
        )

    def _failure(self, data: dict[str, Any]) -> BackendError:
        """Why the provider refused the whole batch when it looked into the file."""
        errors = data.get("errors")
        listed = self._listed(errors) if isinstance(errors, dict) else []
        first = listed[0] if listed else {}
        text = f"{self._who} refused the batch {data.get('id')}: "
        payload = {"error": first}
        said = error_of_payload(payload, text.rstrip(": "), secrets=self._secrets)
        busy = "limit" in str(first.get("code"))  # of the tokens that may wait in batches
        return BackendBusy(str(said)) if busy else BackendRefused(str(said))

    def _outcome(self, line: dict[str, Any]) -> Outcome:
        error, answer = line.get("error"), line.get("response")
        if isinstance(error, dict):
            code = error.get("code")
            if code == "batch_expired":
                return "expired"
            if code == "batch_cancelled":
                return "cancelled"
            return error_of_payload(error, self._who, secrets=self._secrets)
        if not isinstance(answer, dict):
            return MalformedResponse(f"{self._who}: an item of a batch has no answer", status=200)
        status, body = answer.get("status_code"), answer.get("body")
        if status == 200:
            return json.dumps(body).encode()
        status = status if isinstance(status, int) and 400 <= status < 600 else 500
        return errors_of_http(status, {}, body, self._who, secrets=self._secrets)

    def _listed(self, page: dict[str, Any]) -> list[dict[str, Any]]:
        data = page.get("data")
        return [each for each in data if isinstance(each, dict)] if isinstance(data, list) else []

    def _text(self, data: dict[str, Any], name: str) -> str:
        found = data.get(name)
        if not isinstance(found, str) or not found:
            raise MalformedResponse(f"{self._who}: a batch or file has no {name}", status=200)
        return found


def _file_name(intent: Intent) -> str:
    return f"appl-{intent.key}.jsonl"


def _count(value: object) -> int:
    return value if isinstance(value, int) else 0
