"""A server as a process: started, waited for, heard when it dies, and stopped with all it started.

Invariant: a child has a process group of its own, and nothing of it is left when it has stopped.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import BinaryIO

from appl.errors import BackendUnavailable

LINES = 40
POLL_S = 0.2
_TELL_S = 5.0
_ANSWER_S = 5.0
_GRACE_S = 15.0

Tell = Callable[[str], None]


class LaunchFailed(BackendUnavailable):
    """The server did not start, or ended by itself; the text holds the end of its log."""


@dataclass(slots=True)
class Child:
    """One process with all that it starts, in a process group of its own.

    The log is made for its owner alone, as a server writes its keys there. What *environment* sets,
    and the user does not, is set for it.
    """

    name: str
    command: list[str]
    port: int
    log: Path
    key: str
    admin_key: str
    tell: Tell
    stopping: threading.Event
    environment: Mapping[str, str] = field(default_factory=dict)
    _process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it; its output goes to the log. Raises ``LaunchFailed``."""
        with socket.socket() as probe:
            # Another server that listens there would be taken for this one as soon as it answers.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", self.port))
            except OSError as error:
                raise LaunchFailed(
                    f"{self.name} cannot listen at 127.0.0.1:{self.port} ({error.strerror}); name "
                    "another port by --port, or none"
                ) from None
        # A session of its own: signals reach the server's own processes too, and Ctrl-C in the
        # terminal does not, so that everything can be ended in order.
        with self._log_to_append() as out:
            self._process = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env={**self.environment, **os.environ, "PYTHONUNBUFFERED": "1"},
            )

    def _log_to_append(self) -> BinaryIO:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
        try:
            return os.fdopen(os.open(self.log, flags, 0o600), "ab")
        except OSError as error:
            raise LaunchFailed(f"the log {self.log} cannot be written: {error.strerror}") from None

    def ended(self) -> int | None:
        """Its exit code, when it has ended by itself."""
        return self._process.poll() if self._process is not None else None

    def wait_ready(self, timeout: float) -> None:
        """Wait until it answers, and tell how far it is. Raises ``LaunchFailed``."""
        began = told = time.monotonic()
        while not self._answers():
            if (code := self.ended()) is not None:
                raise LaunchFailed(
                    f"{self.name} ended with code {code} before it answered; its log ends:\n"
                    f"{self.tail()}"
                )
            now = time.monotonic()
            if now - began > timeout:
                raise LaunchFailed(
                    f"{self.name} does not answer after {timeout:.0f} s; its log ends:\n"
                    f"{self.tail()}"
                )
            if now - told > _TELL_S:
                told = now
                self.tell(f"waiting for {self.name}, {now - began:.0f} s: {self.tail(1):.200}")
            if self.stopping.wait(POLL_S):
                raise LaunchFailed(f"{self.name} was stopped before it answered")

    def _answers(self) -> bool:
        """True if the server answers; redirects and proxies of the environment are not followed."""
        with closing(HTTPConnection("127.0.0.1", self.port, timeout=_ANSWER_S)) as connection:
            try:
                headers = {"Authorization": f"Bearer {self.key}"}
                connection.request("GET", "/v1/models", headers=headers)
                return connection.getresponse().status == 200
            except (OSError, HTTPException):
                return False

    def tail(self, lines: int = LINES) -> str:
        """The last lines of its log, without keys."""
        try:
            text = self.log.read_bytes()[-20000:].decode("utf-8", "replace")
        except OSError:
            return ""
        secrets = f"{re.escape(self.key)}|{re.escape(self.admin_key)}"
        return re.sub(secrets, "[secret]", "\n".join(text.splitlines()[-lines:]))

    def interrupt(self) -> None:
        """Ask it, and all that it has started, to end."""
        self._signal(signal.SIGTERM)

    def stop(self) -> None:
        """Wait until it has ended; what lingers is killed."""
        process = self._process
        if process is None:
            return
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_GRACE_S)
        # The group can outlive the process that leads it: its workers would keep the GPU.
        self._signal(signal.SIGKILL)
        process.wait()
        self._process = None

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, number)


def free_port() -> int:
    """A port on the loopback interface that nobody listens on."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
