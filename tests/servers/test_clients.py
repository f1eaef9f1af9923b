"""Every place that asks over HTTP is known, and keeps the one rule about redirects."""

from __future__ import annotations

import ast
import threading
from pathlib import Path
from typing import Any

import pytest

from appl_backends.sglang.server_process import Child, LaunchFailed
from tests.test_imports import ROOT, sources
from tests.wire.servers import FaultServer

LIBRARIES = frozenset(
    {"aiohttp", "http.client", "httpx", "httpx2", "openai", "litellm", "requests", "urllib.request",
     "urllib3", "websockets"}
)  # fmt: skip
CALLS = frozenset({"create_connection", "open_connection"})
FOLLOWING = frozenset({"urlopen", "urlretrieve"})
"""Calls that follow redirects whatever one does."""

KNOWN = {
    "appl/parts/engine/node_watch.py": "a bare connection, which asks nothing",
    "appl/tracing/exporting/collector.py": "an opener that stays; tests/exports",
    "backends/appl_backends/litellm.py": "guard_clients; test_providers_of_litellm.py",
    "backends/appl_backends/openai/account.py": "sends nothing: it answers the SDK itself",
    "backends/appl_backends/sglang/server_process.py": "http.client, which follows nothing; here",
    "backends/appl_backends/http/route.py": "a client of its own; test_hostile_servers.py",
}
"""Who asks, and what holds it to the rule."""

SERVING = ("backends/appl_backends/embedded/server", "appl/parts/serving", "appl/parts/web")


def asking(file: Path) -> set[str]:
    """The libraries and calls in *file* by which a server can be asked."""
    found: set[str] = set()
    text = file.read_text("utf-8")
    if not any(name in text for name in LIBRARIES | CALLS | FOLLOWING):
        return found
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found |= LIBRARIES & {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= LIBRARIES & {node.module or ""}
        elif isinstance(node, ast.Attribute | ast.Name):
            name = node.attr if isinstance(node, ast.Attribute) else node.id
            found |= (CALLS | FOLLOWING) & {name}
        elif isinstance(node, ast.Call) and "import_module" in ast.dump(node.func):
            found |= LIBRARIES & {each.value for each in ast.walk(node) if _is_text(each)}
    return found


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def test_every_place_that_asks_a_server_is_known_here() -> None:
    found = {str(file.relative_to(ROOT)): asking(file) for file in sources()}
    asks = {name for name, used in found.items() if used and not name.startswith(SERVING)}
    assert asks == set(KNOWN), "hold a new client to the rule about redirects, and name it here"
    assert not [name for name, used in found.items() if used & FOLLOWING]


class Moved(FaultServer):
    """Sends every question on to another server."""

    to = ""

    def _asked(self, link: Any, method: str, path: str, headers: Any, body: bytes) -> None:
        head = f"HTTP/1.1 307 X\r\nLocation: {self.to}\r\nContent-Length: 0\r\n\r\n"
        link.send(head.encode(), "whole")


def test_a_started_server_that_redirects_is_not_ready_and_no_key_goes_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with FaultServer() as other, Moved() as server:
        server.to = f"{other.url}/v1/models"
        monkeypatch.setenv("http_proxy", other.url)
        port = int(server.url.rpartition(":")[2])
        child = Child("server", [], port, tmp_path / "log", "k", "a", print, threading.Event())
        with pytest.raises(LaunchFailed, match="does not answer"):
            child.wait_ready(0.0)
        assert not other.connections and server.connections == 1
