"""The viewer's server: pages and their data, on loopback, for everybody who has the address.

It serves one run, or two to compare; or a list of runs, each of which has a page below ``run/``.

Invariant: no answer goes out without the token, to another host name, or to a page from elsewhere;
the only method is GET, and no path is that of a file. A server that takes answers to a run's
questions takes them by POST from its own page alone: the browser names it as the origin.
"""

from __future__ import annotations

import contextlib
import hmac
import json
import secrets
import threading
from collections.abc import Iterator
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, unquote, urlsplit

from appl.tracing.viewer.page import page, policy
from appl.tracing.viewer.run_list import Answer, RunList
from appl.tracing.viewer.view import Views

LOOPBACK = "127.0.0.1"
_HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
_OTHERS = ("HEAD", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT")
_PATIENCE_S = 30.0
_ANSWER_BYTES = 100_000


class ViewerServer:
    """Serves *shown* from when it is made until ``close``; ``url`` is the address with the token.

    *port* 0 takes a free one. *answer* is called for what a person answers in the page of *shown*;
    a list of runs knows by itself who takes answers. Raises ``OSError`` when the port cannot be
    had.
    """

    def __init__(
        self, shown: Views | RunList, *, port: int = 0, answer: Answer | None = None
    ) -> None:
        self.token = secrets.token_urlsafe(24)
        self._http = _Http((LOOPBACK, port), _Handler)
        self._http.shown, self._http.token, self._http.answer = shown, self.token, answer
        if answer is not None and isinstance(shown, Views):
            shown.runs["a"].answers = True
        self.port: int = self._http.server_address[1]
        self._http.hosts = {f"{name}:{self.port}" for name in (LOOPBACK, "localhost")}
        self.url = f"http://{LOOPBACK}:{self.port}/{self.token}/"
        # This thread accepts connections; each request is answered on a thread of its own, which
        # may end later than ``close``. The views hold the locks that this needs.
        self._thread = threading.Thread(
            target=self._http.serve_forever, args=(0.1,), name="appl-view", daemon=True
        )
        self._thread.start()

    def wait(self) -> None:
        """Wait until it is closed."""
        self._thread.join()

    def close(self) -> None:
        """Stop serving."""
        # ``shutdown`` returns when the accepting loop has ended; only then may its socket go.
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def __enter__(self) -> ViewerServer:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class _Http(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    shown: Views | RunList
    token: str
    hosts: set[str]
    answer: Answer | None

    def handle_error(self, request: object, client_address: object) -> None:
        """Log nothing: a browser may go away at any time."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "appl", ""
    timeout = _PATIENCE_S
    server: _Http

    def do_GET(self) -> None:
        request_parts = self._asked_for()
        if request_parts is None:
            return
        slash, name, query = request_parts
        run, rest = self._run_of(name)
        if run is None:
            self._get(self.server.shown, slash, rest, query)
            return
        with self._opened(run) as views:
            if views is not None:
                self._get(views[0], "/", rest, query)

    def _get(self, shown: Views | RunList, slash: str, name: str, query: str) -> None:
        """Answer with the page of *shown*, or with a document of it."""
        if slash and not name:
            is_list = isinstance(shown, RunList)
            self._send(200, "text/html; charset=utf-8", page(is_list=is_list).encode())
        elif name.startswith("data/"):
            self._data(shown, name.removeprefix("data/"), query)
        else:
            self._refuse(404, "there is no such page")

    def _run_of(self, name: str) -> tuple[str | None, str]:
        """The run of a list that *name* is below, and what follows; ``None`` for no run."""
        if isinstance(self.server.shown, RunList) and name.startswith("run/"):
            run, slash, rest = name.removeprefix("run/").partition("/")
            if slash:
                return unquote(run), rest
        return None, name

    @contextlib.contextmanager
    def _opened(self, run: str) -> Iterator[tuple[Views, Answer | None] | None]:
        """The views of a run of the list; refused if ``None``."""
        assert isinstance(self.server.shown, RunList)
        with contextlib.ExitStack() as stack:
            try:
                found = stack.enter_context(self.server.shown.opened(run))
            except KeyError:
                self._refuse(404, "there is no such run, or it cannot be read")
                yield None
                return
            yield found

    def do_POST(self) -> None:
        if self.server.answer is None and not isinstance(self.server.shown, RunList):
            self._refused_method()
            return
        request_parts = self._asked_for()
        if request_parts is None:
            return
        run, name = self._run_of(request_parts[1])
        origins = [[f"http://{host}"] for host in self.server.hosts]
        if self.headers.get_all("Origin", []) not in origins or not self._is_from_here():
            self._refuse(403, "answers are taken from the viewer's own page only")
        elif name != "answer":
            self._refuse(404, "there is no such page")
        elif run is None:
            self._take_answer(self.server.answer)
        else:
            with self._opened(run) as views:
                if views is not None:
                    self._take_answer(views[1])

    def _asked_for(self) -> tuple[str, str, str] | None:
        """The slash, name and query after the token in the address; refused if ``None``."""
        try:
            target = urlsplit(self.path)
        except ValueError:
            self._refuse(400, "this is no address")
            return None
        _, _, rest = target.path.partition("/")
        token, slash, name = rest.partition("/")
        if self.headers.get_all("Host", []) not in [[host] for host in self.server.hosts]:
            self._refuse(421, "this server answers to its loopback address only")
        elif not hmac.compare_digest(token.encode(), self.server.token.encode()):
            self._refuse(403, "the address lacks the token that `appl trace view` printed")
        else:
            return slash, name, target.query
        return None

    def _is_from_here(self) -> bool:
        return self.headers.get("Sec-Fetch-Site", "same-origin") in ("same-origin", "none")

    def _take_answer(self, answer: Answer | None) -> None:
        if answer is None:
            self._refused_method()
            return
        length = self.headers.get("Content-Length", "")
        kind = self.headers.get_content_type()
        if kind != "application/json" or not (length.isascii() and length.isdigit()):
            self._refuse(415, "an answer is JSON, with its length")
            return
        if len(length) > 6 or int(length) > _ANSWER_BYTES:
            self._refuse(413, "an answer has at most 100,000 bytes")
            return
        try:
            body = json.loads(self.rfile.read(int(length)))
        except (ValueError, RecursionError):
            body = None
        if not (
            isinstance(body, dict)
            and isinstance(address := body.get("address"), str)
            and isinstance(text := body.get("answer"), str)
        ):
            self._refuse(400, "an answer has an address and a text")
            return
        try:
            reply = answer(address, text)
        except ValueError as error:
            self._refuse(409, str(error))
            return
        self._send(200, "application/json", json.dumps({"said": reply}).encode())

    def _data(self, shown: Views | RunList, name: str, query: str) -> None:
        if not self._is_from_here():
            self._refuse(403, "data goes to the viewer's own page only")
            return
        try:
            parameters = dict(parse_qsl(query, keep_blank_values=True))
            document = shown.json(name, parameters)
        except KeyError:
            self._refuse(404, "there is no such document")
            return
        except Exception as error:  # of a trace that nobody has foreseen; the page shows it
            self._refuse(500, f"this document cannot be made: {type(error).__name__}")
            return
        self._send(200, "application/json", document)

    def _refused_method(self) -> None:
        self._refuse(405, "only GET is answered", {"Allow": "GET"})

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Answer with an error as plain text, which does not repeat the request."""
        if code == HTTPStatus.NOT_IMPLEMENTED:  # a method that nobody knows
            self._refused_method()
        else:
            self._refuse(
                code if code < 500 else HTTPStatus.BAD_REQUEST, "this request is not understood"
            )

    def _refuse(self, code: int, reason: str, more: dict[str, str] | None = None) -> None:
        self._send(code, "text/plain; charset=utf-8", f"{reason}\n".encode(), more)

    def _send(self, code: int, kind: str, body: bytes, more: dict[str, str] | None = None) -> None:
        self.send_response(code)
        headers = {
            "Content-Type": kind,
            "Content-Length": str(len(body)),
            "Connection": "close",  # so that nothing is answered after close()
            "Content-Security-Policy": policy("'self'"),
            **_HEADERS,
            **(more or {}),
        }
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing: the address of a request holds the token."""


for _method in _OTHERS:
    setattr(_Handler, f"do_{_method}", _Handler._refused_method)
