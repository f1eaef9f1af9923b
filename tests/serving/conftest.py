"""One real server for the session, the same backend in this process, and a client for tests."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from appl.testing import Served, serving
from appl_backends.embedded import Embedded

PATIENCE = 60.0
HELLO = "<s><|user|>Hello<|end|><|assistant|>"
ENDLESS = {"max_new_tokens": 3500, "ignore_eos": True, "temperature": 0}


@dataclass
class Client:
    """What tests say to a server, over one connection pool."""

    server: Served
    http: httpx.Client

    def post(self, path: str, body: Any = None, *, admin: bool = False) -> httpx.Response:
        headers = self.server.admin_headers if admin else self.server.headers
        return self.http.post(path, json=body, headers=headers)

    def get(self, path: str) -> Any:
        found = self.http.get(path, headers=self.server.headers)
        assert found.status_code == 200, found.text
        return found.json()

    def generate(self, prompt: str | list[int] | list[Any], **body: Any) -> Any:
        """The answer of ``/generate``; options of sampling are given as ``sampling_params``."""
        key = "text" if isinstance(prompt, str) or isinstance(prompt[0], str) else "input_ids"
        found = self.post("/generate", {key: prompt, **body})
        assert found.status_code == 200, found.text
        return found.json()

    def chat(self, *messages: str | dict[str, Any], **body: Any) -> Any:
        said = [{"role": "user", "content": m} if isinstance(m, str) else m for m in messages]
        found = self.post("/v1/chat/completions", {"messages": said, "temperature": 0, **body})
        assert found.status_code == 200, found.text
        return found.json()

    def events(self, path: str, body: dict[str, Any]) -> list[Any]:
        """Every event of a stream; that it ended with ``[DONE]`` is checked."""
        found = self.post(path, {**body, "stream": True})
        assert found.headers["content-type"].startswith("text/event-stream"), found.text
        *lines, done, rest = found.text.split("\n\n")
        assert (done, rest) == ("data: [DONE]", "")
        return [json.loads(line.removeprefix("data: ")) for line in lines]

    @property
    def state(self) -> dict[str, int]:
        """The engine's counters."""
        found: dict[str, int] = self.get("/server_info")["internal_states"][0]
        return found

    def until(self, fits: Callable[[dict[str, int]], bool]) -> dict[str, int]:
        """The counters as soon as they fit."""
        end = time.monotonic() + PATIENCE
        while not fits(state := self.state):
            assert time.monotonic() < end, state
        return state

    def settled(self) -> dict[str, int]:
        """The counters once nothing is on its way."""
        return self.until(lambda s: not (s["open_requests"] or s["running"] or s["waiting"]))


def connect(server: Served) -> Client:
    return Client(server, httpx.Client(base_url=server.url, timeout=PATIENCE))


@pytest.fixture(scope="session")
def shared() -> Iterator[Served]:
    with serving() as server:
        yield server


@pytest.fixture(scope="session")
def keyless() -> Iterator[Served]:
    """A server that asks for no key."""
    with serving("--api-key", "none") as server:
        yield server


@pytest.fixture
def client(shared: Served) -> Iterator[Client]:
    made = connect(shared)
    with made.http:
        yield made


@pytest.fixture
async def local() -> Any:
    """The same model in this process."""
    made = Embedded()
    yield made
    await made.aclose()
