"""A web server that SIGTERM ends: the run of its process is recorded as ended."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from appl.tracing import Trace

APP = """
import asyncio, pathlib
from fastapi import FastAPI
from appl import gen, ppl
from appl.testing import Echo

app = FastAPI()

class Held(Echo):
    \"\"\"Says that it is asked `hold`, and answers once the file `go` is there.\"\"\"

    async def complete(self, request, emit=None):
        if [*request.messages][-1].content == "hold":
            print("asked", flush=True)
            while not pathlib.Path("go").exists():
                await asyncio.sleep(0.001)
        return await super().complete(request, emit)

@ppl
def ask(q):
    f"{q}"
    return gen()

@app.get("/async")
async def later(q: str) -> dict[str, str]:
    return {"answer": str(await ask(q))}

@app.get("/sync")
def answer(q: str) -> dict[str, str]:
    return {"answer": str(ask(q))}

@app.get("/twice")
def twice(q: str) -> dict[str, str]:
    str(ask(q))
    return {"answer": str(ask("again"))}
"""
SERVE = """
import socket, uvicorn
bound = socket.create_server(("127.0.0.1", 0))
print(bound.getsockname()[1], flush=True)
server = uvicorn.Server(uvicorn.Config("app:app", log_level="error"))
server.run(sockets=[bound])
"""


@contextmanager
def served(folder: Path, warm: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A server in *folder*, and its address."""
    (folder / "app.py").write_text(APP)
    (folder / "serve.py").write_text(SERVE)
    with subprocess.Popen(
        [warm / "python", "serve.py"], cwd=folder, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        try:
            yield server, f"http://127.0.0.1:{int(server.stdout.readline())}"
        finally:
            server.kill()


def ended(server: subprocess.Popen[str], folder: Path) -> Trace:
    """The only trace of *server*, which has died of SIGTERM."""
    assert server.wait(60) == -signal.SIGTERM
    (path,) = (folder / ".appl" / "runs").glob("*.trace")
    trace = Trace.open(path)
    assert trace.state == "finished"
    return trace


@pytest.fixture(autouse=True)
def _backend(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("APPL_BACKEND", "app:Held")


@pytest.mark.parametrize("requests", [1, 3])
@pytest.mark.parametrize("path", ["/async", "/sync"])
def test_a_server_that_sigterm_ends_has_not_crashed(
    path: str, requests: int, tmp_path: Path, warm: Path
) -> None:
    with served(tmp_path, warm) as (server, address):
        for number in range(requests):
            answer = httpx.get(f"{address}{path}", params={"q": str(number)}, timeout=60.0)
            assert len(answer.json()["answer"]) == 6
        server.send_signal(signal.SIGTERM)
        assert len(ended(server, tmp_path).calls) == requests


@pytest.mark.parametrize(("path", "calls"), [("/async", 1), ("/sync", 1), ("/twice", 2)])
def test_a_request_that_waits_for_an_answer_is_ended_first(
    path: str, calls: int, tmp_path: Path, warm: Path
) -> None:
    with served(tmp_path, warm) as (server, address), ThreadPoolExecutor() as threads:
        request = threads.submit(httpx.get, f"{address}{path}", params={"q": "hold"}, timeout=60.0)
        assert server.stdout is not None and server.stdout.readline() == "asked\n"
        server.send_signal(signal.SIGTERM)
        (tmp_path / "go").touch()
        assert len(request.result().json()["answer"]) == 6
        trace = ended(server, tmp_path)
    assert len(trace.calls) == calls and all(call.response is not None for call in trace.calls)
