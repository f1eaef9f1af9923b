"""A real server of functions in a process of its own, before a server of a model that counts."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from appl.testing.faults import Ask, Fault
from appl.tracing import Trace
from tests.wire.servers import FaultServer

PROGRAM = Path(__file__).with_name("program.py")
PATIENCE = 60.0
HELD = Fault("held", share=0.0, ends="hang")


class Model:
    """A server of a model, which holds some questions, and fails at others."""

    def __init__(self) -> None:
        self.holds: Callable[[str], bool] = lambda question: False
        self.fails: Callable[[str], Fault | None] = lambda question: None
        self.server = FaultServer(self._script)

    def _script(self, ask: Ask) -> Fault | None:
        return HELD if self.holds(ask.question) else self.fails(ask.question)

    def until(self, count: int, begins: str) -> None:
        """Wait until *count* questions that begin so have come."""
        wait_until(lambda: self.count(begins) >= count)

    def count(self, begins: str) -> int:
        return sum(ask.question.startswith(begins) for ask in list(self.server.asks))

    @property
    def paid(self) -> dict[str, int]:
        """How often each question was answered in full."""
        return dict(self.server.answered)


def wait_until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < end, "it did not come"
        threading.Event().wait(0.01)


@dataclass
class Home:
    """A folder in which servers of functions run, one after the other."""

    folder: Path
    model: Model
    processes: list[subprocess.Popen[str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Have the model asked at an address of its own: so nothing of OpenAI's is loaded."""
        url = self.model.server.openai_url
        text = f'[backends.openai]\nbase_url = "{url}"\napi_key = {{env = "MODEL_KEY"}}\n'
        (self.folder / "appl.toml").write_text(text)

    def start(self, *words: str, target: str = str(PROGRAM)) -> Served:
        command = [sys.executable, "-m", "appl", "serve", target, "--json", *words]
        process = subprocess.Popen(
            command,
            cwd=self.folder,
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=(self.folder / "stderr").open("a"),
            text=True,
        )
        self.processes.append(process)
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, (self.folder / "stderr").read_text()
        return Served(json.loads(line), process, self)

    def environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("APPL_")}
        return {
            **kept,
            "HOME": str(self.folder),
            "MODEL_KEY": "sk-of-a-test",
            "XDG_STATE_HOME": str(self.folder / "state"),
            "APPL_MODEL": "openai/fault",
            "APPL_TRUST": str(self.folder),
            "APPL_CONCURRENCY": "1000",
            "APPL_CTL": "off",
        }

    def answered(self) -> int:
        """The answers that are on disk: each 5 ms after it came."""
        paths = (self.folder / ".appl" / "runs").glob("*.trace")
        calls = [call for path in paths for call in Trace.open(path).calls]
        return sum(call.outcome == "answered" for call in calls)

    def log(self) -> str:
        return (self.folder / "stderr").read_text()

    def runs(self) -> list[str]:
        return sorted(path.stem for path in (self.folder / ".appl" / "runs").glob("*.trace"))


@dataclass
class Served:
    """A server that is ready, and a client of it."""

    ready: dict[str, Any]
    process: subprocess.Popen[str]
    home: Home

    @property
    def url(self) -> str:
        return str(self.ready["url"])

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.ready['api_key']}"}

    @property
    def admin(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.ready['admin_key']}"}

    def request(self, method: str, path: str, **more: Any) -> httpx.Response:
        headers = {**self.headers, **more.pop("headers", {})}
        return httpx.request(method, self.url + path, headers=headers, timeout=PATIENCE, **more)

    def call(self, function: str, /, _headers: Any = None, **arguments: Any) -> httpx.Response:
        return self.request(
            "POST", f"/functions/{function}", json=arguments, headers=_headers or {}
        )

    def begin(self, function: str, /, **arguments: Any) -> str:
        """The name of a run that was begun, and not waited for."""
        found = self.call(function, _headers={"Prefer": "respond-async"}, **arguments)
        assert found.status_code == 202, found.text
        return str(found.json()["run"])

    def run(self, name: str, wait: float = PATIENCE) -> dict[str, Any]:
        found = self.request("GET", f"/runs/{name}", params={"wait": wait})
        assert found.status_code in (200, 202), found.text
        return dict(found.json())

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(PATIENCE)


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    model = Model()
    with contextlib.ExitStack() as stack:
        stack.enter_context(model.server)
        made = Home(tmp_path, model)
        yield made
        for process in made.processes:
            if process.poll() is None:
                process.kill()
            process.wait()
            assert process.stdout is not None
            process.stdout.close()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One server for tests that only ask."""
    model = Model()
    with model.server:
        made = Home(tmp_path_factory.mktemp("served"), model)
        server = made.start(*(f"{PROGRAM}:{name}" for name in ("plain", "halves", "too_few")))
        yield server
        server.stop()
        assert server.process.stdout is not None
        server.process.stdout.close()
