"""Twins of the batches of OpenAI (chat and Responses) and Anthropic: real servers on loopback.

They are written from the references of both providers and answer with the types of the official
SDKs, against which they hold what they are asked. They know nothing of appl: what a question is
answered, fails or expires by is drawn from its text and a seed.
"""

from __future__ import annotations

import functools
import itertools
import json
import random
import re
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.parser import BytesParser
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from anthropic.types import Message
from anthropic.types.messages import MessageBatch, MessageBatchIndividualResponse
from anthropic.types.messages.batch_create_params import BatchCreateParams as MessageBatchParams
from openai.types import Batch, BatchCreateParams, FileObject
from openai.types.chat import ChatCompletion
from openai.types.responses import Response

from tests.batches.programs import KINDS, Kind, answer_to
from tests.wire.sdk_types import _problems, _validator, openai_problems, responses_problems

__all__ = ["KINDS", "Faults", "Kind", "Twin"]
WHOLE, HALF = 2, 1
"""What a token costs at once and in a batch."""
PATHS = {"chat": "/v1/chat/completions", "responses": "/v1/responses", "messages": "/v1/messages"}


@dataclass
class Faults:
    """What goes wrong, as shares of 1: of requests that send a batch, and of items.

    ``lost`` are sent and not answered, ``failed_after`` are answered with 500 though the batch is
    there, ``busy`` are turned away. Of the items ``fails`` get an error once, ``expires`` are not
    asked in time once, and ``refused`` are refused each time.
    """

    lost: float = 0.0
    failed_after: float = 0.0
    busy: float = 0.0
    fails: float = 0.0
    expires: float = 0.0
    refused: float = 0.0


@dataclass
class Item:
    """A question in a batch, and what came of it."""

    name: str
    body: dict[str, Any]
    question: str
    outcome: str = ""


@dataclass
class Made:
    """A batch: its items, and how often it will be looked at before it has ended."""

    id: str
    items: list[Item]
    created: datetime
    looks: int
    metadata: dict[str, str] = field(default_factory=dict)
    file: str = ""
    url: str = ""
    ended: bool = False
    cancelled: bool = False
    outputs: tuple[str, str] = ("", "")


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of those who hang up: they were killed."""


class Twin:
    """A server with batches; *looks* says how often one is looked at until it has ended.

    ``answered`` counts the answers to each question that were paid, ``cost`` is what they cost, and
    ``whole`` what they would cost at once. ``problems`` are faults of what it was asked.
    ``on_request`` is told of each request by its number, before it is worked on and after that;
    where it says so the request, or its answer, is lost. While it is ``held`` no batch ends.
    """

    def __init__(
        self, kind: Kind, seed: int = 0, faults: Faults | None = None, looks: int = 2
    ) -> None:
        self.kind, self.seed, self.faults, self.looks = kind, seed, faults or Faults(), looks
        self.batches: dict[str, Made] = {}
        self.files: dict[str, tuple[str, bytes]] = {}
        self.removed: list[str] = []
        self.answered: Counter[str] = Counter()
        self.at_once: Counter[str] = Counter()
        self.cost = self.whole = 0
        self.problems: list[str] = []
        self.requests: list[str] = []
        self.held = False
        self.on_request: Callable[[int, bool], bool] = lambda number, done: False
        self._ids, self._lock = itertools.count(1), threading.RLock()
        self._dice = random.Random(seed)
        self._tried: Counter[str] = Counter()
        self._server = _Server(("127.0.0.1", 0), self._handler())

    @property
    def url(self) -> str:
        """The address, as settings of a backend have it."""
        base = f"http://127.0.0.1:{self._server.server_address[1]}"
        return base if self.kind == "messages" else f"{base}/v1"

    def settings(self) -> dict[str, Any]:
        """The settings of a backend that asks it."""
        if self.kind == "messages":
            return {"type": "anthropic", "base_url": self.url, "api_key": "k-123456"}
        interface = "responses" if self.kind == "responses" else "chat"
        return {
            "type": "openai",
            "base_url": self.url,
            "api_key": "k-123456",
            "interface": interface,
        }

    def __enter__(self) -> Twin:
        serve = functools.partial(self._server.serve_forever, 0.01)
        threading.Thread(target=serve, daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    # -- what a test asks

    @property
    def sent_twice(self) -> list[str]:
        """Questions that were paid more than once."""
        return [question for question, count in self.answered.items() if count > 1]

    def release(self) -> None:
        """Have batches end that were held."""
        self.held = False

    # -- requests

    def _handler(twin) -> type[BaseHTTPRequestHandler]:
        class Handler(BaseHTTPRequestHandler):
            protocol_version, disable_nagle_algorithm = "HTTP/1.1", True

            def log_message(self, *args: object) -> None:
                pass

            def _any(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                with twin._lock:
                    number = len(twin.requests)
                    if twin.on_request(number, False):  # whoever asked is gone before it came
                        self.close_connection = True
                        return
                    status, data = twin.answer(self.command, self.path, dict(self.headers), body)
                    status = 0 if twin.on_request(number, True) else status
                if status == 0:  # the answer is lost
                    self.close_connection = True
                    return
                raw = data if isinstance(data, bytes) else json.dumps(data, default=str).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(raw)))
                self.end_headers()
                self.wfile.write(raw)

            do_GET = do_POST = do_DELETE = _any

        return Handler

    def answer(
        self, method: str, target: str, headers: dict[str, str], body: bytes
    ) -> tuple[int, Any]:
        """The answer to a request: its status, 0 for none, and its body."""
        parts = urlsplit(target)
        path, query = parts.path, parse_qs(parts.query)
        self.requests.append(f"{method} {path}")
        if path == PATHS[self.kind] and method == "POST":
            return self._once(json.loads(body))
        root = "/v1/messages/batches" if self.kind == "messages" else "/v1/batches"
        if path == "/v1/files" and method == "POST":
            return self._upload(headers, body)
        if path == "/v1/files":
            listed = [self._file(name).model_dump() for name in self.files]
            return 200, {"object": "list", "data": listed, "has_more": False}
        if path.startswith("/v1/files/"):
            return self._on_file(method, path.split("/"))
        if path == root and method == "POST":
            return self._send(json.loads(body))
        if path == root:
            return 200, self._page(query)
        if path.startswith(f"{root}/"):
            return self._on_batch(method, path.removeprefix(f"{root}/").split("/"))
        return 404, {"error": {"message": f"nothing at {path}"}}

    def _refuse(self, problems: list[str]) -> tuple[int, Any]:
        self.problems += problems
        error = {"type": "invalid_request_error", "message": "; ".join(problems)}
        return 400, {"type": "error", "error": error}

    # -- files

    def _upload(self, headers: dict[str, str], body: bytes) -> tuple[int, Any]:
        kind = next(value for name, value in headers.items() if name.lower() == "content-type")
        message = BytesParser().parsebytes(b"Content-Type: " + kind.encode() + b"\r\n\r\n" + body)
        fields = {
            part.get_param("name", header="content-disposition"): part for part in message.walk()
        }
        if fields["purpose"].get_payload().strip() != "batch":
            return self._refuse(["the purpose is not batch"])
        part = fields["file"]
        name = f"file-{next(self._ids)}"
        self.files[name] = str(part.get_filename()), part.get_payload(decode=True)
        return 200, self._file(name).model_dump()

    def _file(self, name: str) -> FileObject:
        filename, data = self.files[name]
        purpose = "batch_output" if "out" in filename else "batch"
        return FileObject(
            id=name, bytes=len(data), created_at=0, filename=filename, object="file",
            purpose=purpose, status="processed",
        )  # fmt: skip

    def _on_file(self, method: str, path: list[str]) -> tuple[int, Any]:
        name = path[3]
        if name not in self.files:
            return 404, {"error": {"message": f"no file {name}"}}
        if method == "DELETE":
            del self.files[name]
            self.removed.append(name)
            return 200, {"id": name, "object": "file", "deleted": True}
        return (
            (200, self.files[name][1])
            if path[-1] == "content"
            else (200, self._file(name).model_dump())
        )

    # -- batches

    def _send(self, data: dict[str, Any]) -> tuple[int, Any]:
        chance = self._dice.random()
        faults = self.faults
        if chance < faults.busy:
            return 429, {"error": {"type": "rate_limit_error", "message": "too many batches"}}
        made = self._messages(data) if self.kind == "messages" else self._of_file(data)
        if isinstance(made, list):
            return self._refuse(made)
        self.batches[made.id] = made
        if chance < faults.busy + faults.lost:
            return 0, None
        if chance < faults.busy + faults.lost + faults.failed_after:
            return 500, {"error": {"type": "api_error", "message": "it broke"}}
        return 200, self._shown(made)

    def _messages(self, data: dict[str, Any]) -> Made | list[str]:
        problems = _problems(_validator(MessageBatchParams), data, ())
        items = [
            Item(each["custom_id"], each["params"], said(each["params"]))
            for each in data.get("requests", ())
        ]
        problems += [
            f"custom_id {i.name}" for i in items if not re.fullmatch("[a-zA-Z0-9_-]{1,64}", i.name)
        ]
        return self._checked(items, problems) or self._made(items)

    def _of_file(self, data: dict[str, Any]) -> Made | list[str]:
        problems = _problems(_validator(BatchCreateParams), data, ())
        name = data.get("input_file_id")
        if name not in self.files:
            return [*problems, f"no file {name}"]
        lines = [json.loads(line) for line in self.files[name][1].decode().strip().split("\n")]
        check = openai_problems if self.kind == "chat" else responses_problems
        for line in lines:
            problems += check(line["body"])
            if line["method"] != "POST" or line["url"] != data["endpoint"] != PATHS[self.kind]:
                problems.append(f"a line for {line['method']} {line['url']}")
        items = [Item(line["custom_id"], line["body"], said(line["body"])) for line in lines]
        if len({line["body"]["model"] for line in lines}) != 1:
            problems.append("more than one model")
        made = self._checked(items, problems) or self._made(items)
        if isinstance(made, Made):
            made.metadata, made.file, made.url = data.get("metadata") or {}, name, data["endpoint"]
        return made

    def _checked(self, items: list[Item], problems: list[str]) -> list[str]:
        if len({item.name for item in items}) != len(items) or not items:
            problems.append("ids of items are not unique")
        if any(item.body.get("stream") for item in items):
            problems.append("an item streams")
        return problems

    def _made(self, items: list[Item]) -> Made:
        prefix = "msgbatch" if self.kind == "messages" else "batch"
        return Made(f"{prefix}_{next(self._ids)}", items, datetime.now(UTC), self.looks)

    def _page(self, query: dict[str, list[str]]) -> dict[str, Any]:
        size = int(query.get("limit", ["20"])[0])
        after = (query.get("after") or query.get("after_id") or [""])[0]
        newest = [*reversed(self.batches.values())]
        for made in newest:
            self._pass_time(made)
        ids = [made.id for made in newest]
        begin = ids.index(after) + 1 if after else 0
        page = newest[begin : begin + min(size, 3)]  # small pages, so that all are turned
        return {
            "object": "list", "data": [self._shown(made) for made in page],
            "has_more": begin + len(page) < len(newest),
        }  # fmt: skip

    def _on_batch(self, method: str, path: list[str]) -> tuple[int, Any]:
        made = self.batches.get(path[0])
        if made is None:
            return 404, {"error": {"type": "not_found_error", "message": "no such batch"}}
        if path[-1] == "cancel":
            made.cancelled = True
        elif path[-1] == "results":
            return 200, self._results(made)
        else:
            self._pass_time(made)
        return 200, self._shown(made)

    def _pass_time(self, made: Made) -> None:
        """Each look at a batch is a step of its time."""
        if not self.held or made.cancelled:
            made.looks -= 1
            if made.looks <= 0 and not made.ended:
                self._end(made)

    def _end(self, made: Made) -> None:
        made.ended = True
        for item in made.items:
            item.outcome = "cancelled" if made.cancelled else self._fate(item)
            if item.outcome == "answered":
                self.answered[item.question] += 1
                self._pay(item.question, HALF)
        if self.kind == "messages":
            return
        lines: dict[bool, list[str]] = {True: [], False: []}
        for item in made.items:
            lines[item.outcome == "answered"].append(json.dumps(self._line(item), default=str))
        for good in (True, False):
            if lines[good]:
                name = f"file-out-{next(self._ids)}"
                self.files[name] = f"{made.id}_out.jsonl", "\n".join(lines[good]).encode()
                made.outputs = (name, made.outputs[1]) if good else (made.outputs[0], name)

    def _fate(self, item: Item) -> str:
        """What becomes of *item*, by its question and how often it was tried."""
        tried = self._tried[item.question]
        self._tried[item.question] += 1
        chance = random.Random(f"{self.seed} {item.question}").random()
        faults = self.faults
        if chance < faults.refused:
            return "refused"
        if tried == 0 and chance < faults.refused + faults.fails:
            return "failed"
        if tried == 0 and chance < faults.refused + faults.fails + faults.expires:
            return "expired"
        return "answered"

    def tries(self, question: str) -> int:
        """How often *question* is asked until it is answered, if that ever happens."""
        chance = random.Random(f"{self.seed} {question}").random()
        once = self.faults.fails + self.faults.expires
        return 2 if self.faults.refused <= chance < self.faults.refused + once else 1

    def _pay(self, question: str, price: int) -> None:
        tokens = sum(tokens_of(question, answer_to(question)))
        self.cost += tokens * price
        self.whole += tokens * WHOLE

    # -- what it says

    def _once(self, body: dict[str, Any]) -> tuple[int, Any]:
        question = said(body)
        self.at_once[question] += 1
        self._pay(question, WHOLE)
        return 200, self._said(body["model"], question)

    def _said(self, model: str, question: str) -> dict[str, Any]:
        text = answer_to(question)
        prompt, answer = tokens_of(question, text)
        if self.kind == "messages":
            message = Message.model_validate({
                "id": "msg_1", "type": "message", "role": "assistant", "model": model,
                "content": [{"type": "text", "text": text}], "stop_reason": "end_turn",
                "usage": {"input_tokens": prompt, "output_tokens": answer, "service_tier": "batch"},
            })  # fmt: skip
            return message.model_dump(exclude_none=True)
        if self.kind == "chat":
            choice = {
                "index": 0,
                "finish_reason": "stop",
                "message": {"role": "assistant", "content": text},
            }
            usage = {
                "prompt_tokens": prompt,
                "completion_tokens": answer,
                "total_tokens": prompt + answer,
            }
            completion = ChatCompletion.model_validate({
                "id": "c1", "object": "chat.completion", "created": 0, "model": model,
                "choices": [choice], "usage": usage, "service_tier": "default",
            })  # fmt: skip
            return completion.model_dump(exclude_none=True)
        part = {"type": "output_text", "text": text, "annotations": []}
        item = {
            "id": "m1",
            "type": "message",
            "role": "assistant",
            "status": "completed",
            "content": [part],
        }
        usage = {
            "input_tokens": prompt, "output_tokens": answer, "total_tokens": prompt + answer,
            "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
            "output_tokens_details": {"reasoning_tokens": 0},
        }  # fmt: skip
        response = Response.model_validate({
            "id": "r1", "object": "response", "created_at": 0, "model": model, "output": [item],
            "status": "completed", "usage": usage, "parallel_tool_calls": True, "tool_choice": "auto",
            "tools": [], "service_tier": "default",
        })  # fmt: skip
        return response.model_dump(exclude_none=True)

    def _line(self, item: Item) -> dict[str, Any]:
        """A line of OpenAI's files of outcomes."""
        line: dict[str, Any] = {"id": f"batch_req_{item.name}", "custom_id": item.name}
        if item.outcome in ("expired", "cancelled"):
            message = "This request could not be executed before the completion window expired."
            return {
                **line,
                "response": None,
                "error": {"code": f"batch_{item.outcome}", "message": message},
            }
        status = {"answered": 200, "failed": 500, "refused": 400}[item.outcome]
        error = {
            "error": {
                "message": "it did not work",
                "type": "server_error" if status == 500 else "invalid_request_error",
            }
        }
        body = self._said(item.body["model"], item.question) if status == 200 else error
        return {
            **line,
            "response": {"status_code": status, "request_id": "r", "body": body},
            "error": None,
        }

    def _results(self, made: Made) -> bytes:
        """Anthropic's lines of outcomes."""
        found = []
        for item in made.items:
            result: dict[str, Any] = {
                "type": "canceled" if item.outcome == "cancelled" else item.outcome
            }
            if item.outcome == "answered":
                result = {
                    "type": "succeeded",
                    "message": self._said(item.body["model"], item.question),
                }
            elif item.outcome in ("failed", "refused"):
                kind = "api_error" if item.outcome == "failed" else "invalid_request_error"
                error = {
                    "type": "error",
                    "error": {"type": kind, "message": "no"},
                    "request_id": "r",
                }
                result = {"type": "errored", "error": error}
            line = {"custom_id": item.name, "result": result}
            MessageBatchIndividualResponse.model_validate(line)
            found.append(json.dumps(line))
        random.Random(made.id).shuffle(found)  # in no order
        return "\n".join(found).encode()

    def _shown(self, made: Made) -> dict[str, Any]:
        counts = Counter(item.outcome for item in made.items)
        if self.kind == "messages":
            shown = MessageBatch.model_validate({
                "id": made.id, "type": "message_batch", "created_at": made.created,
                "expires_at": made.created + timedelta(hours=24),
                "ended_at": made.created if made.ended else None,
                "processing_status": "ended" if made.ended else "canceling" if made.cancelled else "in_progress",
                "request_counts": {
                    "processing": counts[""], "succeeded": counts["answered"], "expired": counts["expired"],
                    "errored": counts["failed"] + counts["refused"], "canceled": counts["cancelled"],
                },
                "results_url": f"{self.url}/v1/messages/batches/{made.id}/results" if made.ended else None,
            })  # fmt: skip
            return shown.model_dump(mode="json")
        good, bad = made.outputs
        expired = made.ended and counts["expired"] > 0
        word = (
            ("cancelled" if made.cancelled else "expired" if expired else "completed")
            if made.ended
            else "in_progress"
        )
        failed = len(made.items) - counts[""] - counts["answered"]
        shown_batch = Batch.model_validate({
            "id": made.id, "object": "batch", "endpoint": made.url, "input_file_id": made.file,
            "completion_window": "24h", "created_at": int(made.created.timestamp()), "status": word,
            "metadata": made.metadata, "output_file_id": good or None, "error_file_id": bad or None,
            "request_counts": {"total": len(made.items), "completed": counts["answered"], "failed": failed},
        })  # fmt: skip
        return shown_batch.model_dump(mode="json")


def said(body: dict[str, Any]) -> str:
    """The texts of a question, whatever the interface."""
    found: list[str] = []

    def take(value: Any) -> None:
        if isinstance(value, str):
            found.append(value)
        elif isinstance(value, list):
            for each in value:
                take(each)
        elif isinstance(value, dict):
            take(value.get("content") or value.get("text"))

    take(body.get("messages") or body.get("input"))
    return "\n".join(found)


def tokens_of(question: str, answer: str) -> tuple[int, int]:
    """The tokens of both: characters will do."""
    return len(question), len(answer)
