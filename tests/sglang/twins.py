"""A server before a real one, which changes what that says of itself and keeps what it was asked."""

from __future__ import annotations

import json
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from appl.testing.embedded_server import Served

Answer = Callable[[dict[str, Any], dict[str, Any]], dict[str, Any]]
"""What is made of an answer to a body."""


@dataclass
class Twin:
    """A server at *url*; ``asked`` are the paths and bodies that reached it, in their order.

    ``facts`` are added to what the real one says at ``/server_info``, ``replies`` stand for whole
    paths, and ``changes`` is applied to each answer of ``/generate``. It answers nothing at the
    path ``holds`` until ``released`` is set, and ``/generate`` fails with ``failing``, a status,
    where that is not 0. With ``renames`` before them, names of requests are its own at the real
    server, which another twin may share.
    """

    url: str = ""
    facts: dict[str, Any] = field(default_factory=dict)
    replies: dict[str, Any] = field(default_factory=dict)
    changes: Answer | None = None
    asked: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    failing: int = 0
    renames: str = ""
    holds: str = "/generate"
    released: threading.Event = field(default_factory=threading.Event)
    arrived: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))

    def bodies(self, path: str) -> list[dict[str, Any]]:
        return [body for each, body in self.asked if each == path]


@contextmanager
def twin(served: Served, **fields: Any) -> Iterator[Twin]:
    """A twin of *served* with such *fields*, for the length of the block."""
    here = Twin(**fields)
    here.released.set()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._answer(b"")

        def do_POST(self) -> None:
            self._answer(self.rfile.read(int(self.headers.get("Content-Length") or 0)))

        def _answer(self, data: bytes) -> None:
            body = json.loads(data) if data.startswith(b"{") else {}
            here.asked.append((self.path, body))
            status, kind, found = 200, "application/json", b""
            if self.path == here.holds:
                here.arrived.release()
                here.released.wait(30)
            if self.path == "/generate" and here.failing:
                status, found = here.failing, b'{"error":{"message":"it cannot"}}'
            elif self.path in here.replies:
                found = json.dumps(here.replies[self.path]).encode()
            else:
                if here.renames and "rid" in body:
                    data = json.dumps({**body, "rid": here.renames + body["rid"]}).encode()
                status, kind, found = self._real(data)
            if self.path == "/server_info" and status == 200:
                found = json.dumps({**json.loads(found), **here.facts}).encode()
            if self.path == "/generate" and here.changes is not None and status == 200:
                found = changed(here.changes, body, found)
            with suppress(OSError):  # whoever asked may have gone
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(found)))
                self.end_headers()
                self.wfile.write(found)

        def _real(self, data: bytes) -> tuple[int, str, bytes]:
            headers = {"Authorization": self.headers.get("Authorization", "")}
            where = f"{served.url}{self.path}"
            question = urllib.request.Request(
                where, data=data if self.command == "POST" else None, headers=headers
            )
            try:
                with urllib.request.urlopen(question, timeout=60) as answer:
                    return answer.status, answer.headers["Content-Type"], answer.read()
            except urllib.error.HTTPError as error:
                return error.code, "application/json", error.read()

        def log_message(self, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    here.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield here
    finally:
        here.released.set()
        server.shutdown()
        server.server_close()
        thread.join()


def changed(change: Answer, body: Mapping[str, Any], found: bytes) -> bytes:
    """*found*, whole or streamed, with *change* made of each answer in it."""
    if not found.startswith(b"data:"):
        read = json.loads(found)
        made = [change(dict(body), each) for each in read] if isinstance(read, list) else None
        return json.dumps(made if made is not None else change(dict(body), read)).encode()
    events = []
    for line in found.split(b"\n\n"):
        if line.startswith(b"data: {"):
            line = b"data: " + json.dumps(change(dict(body), json.loads(line[6:]))).encode()
        events.append(line)
    return b"\n\n".join(events)
