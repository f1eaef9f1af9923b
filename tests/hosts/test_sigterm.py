"""A web server that SIGTERM ends: the run of its process is recorded as ended."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from appl.tracing.reading.trace import Trace

APP = """
import asyncio
from fastapi import FastAPI
from appl import gen, ppl

app = FastAPI()

@ppl
def ask(q):
    f"{q}"
    return gen()

@app.get("/")
async def answer(q: str) -> dict[str, str]:
    return {"answer": str(await ask(q))}
"""
SERVE = """
import socket, uvicorn
bound = socket.create_server(("127.0.0.1", 0))
print(bound.getsockname()[1], flush=True)
server = uvicorn.Server(uvicorn.Config("app:app", log_level="error"))
server.run(sockets=[bound])
"""


@pytest.mark.parametrize("requests", [1, 3])
def test_a_server_that_sigterm_ends_has_not_crashed(
    requests: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "app.py").write_text(APP)
    (tmp_path / "serve.py").write_text(SERVE)
    monkeypatch.setenv("APPL_BACKEND", "appl.testing:Echo")
    with subprocess.Popen(
        [sys.executable, "serve.py"], cwd=tmp_path, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        try:
            url = f"http://127.0.0.1:{int(server.stdout.readline())}/"
            for number in range(requests):
                answer = httpx.get(url, params={"q": str(number)}, timeout=60.0)
                assert len(answer.json()["answer"]) == 6
            server.send_signal(signal.SIGTERM)
            server.wait(60)
        finally:
            server.kill()
    (path,) = (tmp_path / ".appl" / "runs").glob("*.trace")
    trace = Trace.open(path)
    assert (server.returncode, trace.state) == (-signal.SIGTERM, "finished")
    assert len(trace.calls) == requests
