"""The viewer's server: who is answered, and with what."""

from __future__ import annotations

import http.client
import json
import re
import socket
from pathlib import Path
from typing import Any

import pytest
from browser import Serve
from made import small_trace

from appl.tracing.viewer import ViewerServer


def ask(
    server: ViewerServer, path: str, method: str = "GET", **headers: str
) -> tuple[int, str, http.client.HTTPMessage]:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    try:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, headers=named)
        answer = connection.getresponse()
        return answer.status, answer.read().decode(), answer.headers
    finally:
        connection.close()


def data(server: ViewerServer, name: str) -> Any:
    status, body, _ = ask(server, f"/{server.token}/data/{name}")
    assert status == 200, body
    return json.loads(body)


def test_the_page_and_its_data_are_served(path: Path, serve: Serve) -> None:
    server = serve(small_trace(path))
    status, body, headers = ask(server, f"/{server.token}/")
    assert status == 200
    assert body.startswith("<!doctype html>")
    assert headers["Content-Type"] == "text/html; charset=utf-8"
    assert data(server, "runs") == ["a"]
    assert data(server, "a/run")["name"] == "some"
    assert data(server, "a/rows?since=0")["size"] == 3
    assert data(server, "a/call?row=1")["address"] == "/small.0/gen.1"


def test_it_listens_on_loopback_alone_and_a_new_token_each_time(path: Path, serve: Serve) -> None:
    one, other = serve(small_trace(path)), serve(path)
    with pytest.raises(OSError), socket.create_connection(("127.0.0.2", one.port), timeout=5):
        pass
    assert one.token != other.token
    assert len(one.token) >= 32
    assert one.url == f"http://127.0.0.1:{one.port}/{one.token}/"


@pytest.mark.parametrize(
    "made_of",
    ["", "/", "/x/", "/{short}/", "/{token}x/", "/data/a/run", "/%2e/{token}/"],
)
def test_without_the_token_nothing_is_told(path: Path, serve: Serve, made_of: str) -> None:
    server = serve(small_trace(path))
    target = made_of.format(token=server.token, short=server.token[:-1]) or "/"
    status, body, _ = ask(server, target)
    assert status == 403
    assert "small" not in body


@pytest.mark.parametrize(
    "host",
    [
        "evil.invalid",
        "evil.invalid:{port}",
        "127.0.0.1",
        "127.0.0.1:1",
        "localhost.evil:{port}",
        "",
    ],
)
def test_another_host_name_is_refused(path: Path, serve: Serve, host: str) -> None:
    server = serve(small_trace(path))
    for target in (f"/{server.token}/", f"/{server.token}/data/a/run"):
        status, body, _ = ask(server, target, Host=host.format(port=server.port))
        assert status == 421
        assert "small" not in body


def test_localhost_is_a_name_of_loopback(path: Path, serve: Serve) -> None:
    server = serve(small_trace(path))
    assert ask(server, f"/{server.token}/", Host=f"localhost:{server.port}")[0] == 200


@pytest.mark.parametrize(
    "method", ["HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT"]
)
def test_only_get_is_answered(path: Path, serve: Serve, method: str) -> None:
    server = serve(small_trace(path))
    status, _, headers = ask(server, f"/{server.token}/", method)
    assert (status, headers["Allow"]) == (405, "GET")
    assert not any(name.lower().startswith("access-control") for name in headers)


@pytest.mark.parametrize(
    "name",
    ["nothing", "data/", "data/c/run", "data/a", "data/a/../a/run", "../../etc/passwd", "..%2f..%2fetc",
     "data/a/../../../etc/passwd", "viewer.js", "data/b/run", "data/diff", "data/a/call?row=99",
     "data/a/call?row=-1x", "data/a/search", "data/a/_run"],
)  # fmt: skip
def test_no_path_is_that_of_a_file(path: Path, serve: Serve, name: str) -> None:
    server = serve(small_trace(path))
    status, body, _ = ask(server, f"/{server.token}/{name}")
    assert status == 404
    assert "root:" not in body


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_pages_from_elsewhere_get_no_data(path: Path, serve: Serve, site: str) -> None:
    server = serve(small_trace(path))
    status, _, headers = ask(server, f"/{server.token}/data/a/run", Sec_Fetch_Site=site)
    assert status == 403
    assert headers["Cross-Origin-Resource-Policy"] == "same-origin"


def test_every_answer_forbids_scripts_frames_referrers_and_caches(path: Path, serve: Serve) -> None:
    server = serve(small_trace(path))
    for target in ("/", f"/{server.token}/", f"/{server.token}/data/a/run", f"/{server.token}/x"):
        _, _, headers = ask(server, target)
        rules = headers["Content-Security-Policy"]
        assert rules.startswith("default-src 'none'; script-src 'sha256-")
        assert "unsafe" not in rules
        assert "frame-ancestors 'none'" in rules
        assert "require-trusted-types-for 'script'" in rules
        assert re.findall(r"connect-src ([^;]*)", rules) == ["'self'"]
        assert headers["Referrer-Policy"] == "no-referrer"
        assert headers["Cache-Control"] == "no-store"
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert "Access-Control-Allow-Origin" not in headers


@pytest.mark.parametrize(
    "sent",
    [b"GARBAGE\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"BREW / HTTP/1.1\r\nHost: x\r\n\r\n",
     b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\n\r\n", b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 200 + b"\r\n",
     b"GET / HTTP/1.1\r\nHost: 127.0.0.1:1\r\nHost: 127.0.0.1:2\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n",
     b"GET //[ HTTP/1.1\r\nHost: x\r\n\r\n"],
)  # fmt: skip
def test_what_is_no_request_is_refused_in_plain_text(path: Path, serve: Serve, sent: bytes) -> None:
    server = serve(small_trace(path))
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as connection:
        connection.sendall(sent)
        connection.shutdown(socket.SHUT_WR)
        received = b""
        while piece := connection.recv(65536):
            received += piece
    assert b"<" not in received.partition(b"\r\n\r\n")[2]
    assert b" 200 " not in received.split(b"\r\n")[0]
    assert ask(server, f"/{server.token}/")[0] == 200


class Broken:
    def json(self, name: str, asked: object) -> bytes:
        raise TypeError("a text of the trace")


def test_a_document_that_cannot_be_made_is_told_without_its_texts() -> None:
    with ViewerServer(Broken()) as server:  # type: ignore[arg-type]
        status, body, _ = ask(server, f"/{server.token}/data/a/run")
        assert (status, body) == (500, "this document cannot be made: TypeError\n")


def test_two_runs_are_served_side_by_side(path: Path, tmp_path: Path, serve: Serve) -> None:
    server = serve(small_trace(path), small_trace(tmp_path / "b.trace", calls=4))
    assert data(server, "runs") == ["a", "b"]
    assert data(server, "b/rows?since=0")["size"] == 4
    assert sorted(data(server, "diff")["a"]) == [-1, 0, 1, 2]
