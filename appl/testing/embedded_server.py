"""A real server of the embedded model in a process of its own, for tests of HTTP clients.

Invariant: the process ends with the block that started it, and also if the program that started it
is killed.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Generator
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["Served", "serving"]
_PATIENCE = 10.0


@dataclass(frozen=True, slots=True)
class Served:
    """A running server: its URL, its keys, and its process.

    ``api_key`` and ``admin_key`` are ``None`` if the server needs no key.
    """

    url: str
    api_key: str | None
    admin_key: str | None
    process: subprocess.Popen[str] = field(repr=False)

    @property
    def headers(self) -> dict[str, str]:
        """The headers of an ordinary request."""
        return {"Authorization": f"Bearer {self.api_key}"} if self.api_key else {}

    @property
    def admin_headers(self) -> dict[str, str]:
        """The headers of an administrator's request."""
        return {"Authorization": f"Bearer {self.admin_key}"} if self.admin_key else {}

    def stop(self) -> int:
        """Ask the server to end, as SIGTERM does, wait for its end, and return its exit code."""
        self.process.terminate()
        try:
            return self.process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()

    def kill(self) -> None:
        """End the server at once, as a crash would."""
        self.process.kill()
        self.process.wait()


@contextlib.contextmanager
def serving(*arguments: str, log: str | Path | None = None) -> Generator[Served, None, None]:
    """Run ``appl serve`` with *arguments* on a free port of this machine during the block.

    *log* is a file for the server's standard error (default: this program's). Raises
    ``RuntimeError`` if the server does not start::

        with serving() as server:
            requests.post(f"{server.url}/generate", headers=server.headers, json={"text": "Hi"})
    """
    command = [sys.executable, "-m", "appl", "serve", "--json", "--until-eof", *arguments]
    with contextlib.ExitStack() as stack:
        errors = stack.enter_context(Path(log).open("a")) if log is not None else None
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True
        )
        assert process.stdin is not None and process.stdout is not None, "both are pipes"
        stack.enter_context(process.stdin)
        stack.enter_context(process.stdout)
        line = process.stdout.readline()
        if not line:
            raise RuntimeError(f"the server did not start (exit code {process.wait()}): {command}")
        ready = json.loads(line)
        server = Served(ready["url"], ready["api_key"], ready["admin_key"], process)
        try:
            yield server
        finally:
            if process.poll() is None:
                server.stop()
