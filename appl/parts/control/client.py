"""The client's end: finds live runs and sends them requests.

Invariant: a client connects only to sockets of this user, and only if this user's process replies.
A run that does not reply in time is reported as silent.
"""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from appl.errors import ControlError, nearest
from appl.parts.control import folder, protocol
from appl.parts.control.peer import is_mine

PATIENCE_S = 5.0
_LATEST = 1e12  # seconds since the epoch that can be the beginning of a run
_HINT = "`appl ctl` lists them"


@dataclass(frozen=True, slots=True)
class LiveRun:
    """A live run: its socket, and its description or the error that it gave."""

    path: Path
    about: dict[str, Any]
    error: str = ""

    @property
    def name(self) -> str:
        """The run's name, or that of its socket if it does not reply."""
        return str(self.about.get("run") or self.path.stem)


def ask(path: Path, do: str, *, patience_s: float = PATIENCE_S, **fields: object) -> object:
    """Send a request to the run at *path* and return the reply. Raises ``ControlError``."""
    if not folder.is_safe(path.parent) or not folder.is_socket(path):
        raise ControlError(f"{path} is no socket of yours", "not-yours")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        sock.settimeout(patience_s)
        try:
            _connect(sock, path, time.monotonic() + patience_s)
            if not is_mine(sock):
                raise ControlError(f"somebody else answers at {path}", "not-yours")
            sock.sendall(protocol.request(do, **fields))
            return protocol.read_reply(_line(sock))
        except TimeoutError:
            raise ControlError(
                f"the run does not answer within {patience_s:g} s: it may be stopped", "silent"
            ) from None
        except ConnectionRefusedError:
            raise ControlError("the run is gone", "no-run") from None
        except OSError as error:
            raise ControlError(f"the run cannot be reached: {error}", "no-run") from None


def _connect(sock: socket.socket, path: Path, end: float) -> None:
    """Connect, waiting while the queue of connections is full."""
    while True:
        try:
            return sock.connect(str(path))
        # The run's queue of connections is full: it accepts them when its loop gets to it.
        except BlockingIOError:
            if time.monotonic() > end:
                raise TimeoutError from None
            time.sleep(0.01)


def _line(sock: socket.socket) -> bytes:
    data_read = bytearray()
    while not data_read.endswith(b"\n"):
        data = sock.recv(65_536)
        if not data:
            raise ControlError("the run went away before it had answered", "no-run")
        data_read += data
        if len(data_read) > protocol.LONGEST_REPLY:
            raise ControlError("the run answers without an end", "protocol")
    return bytes(data_read)


def live_runs(patience_s: float = 1.0) -> list[LiveRun]:
    """All live runs of this user, oldest first. Sockets of killed runs are removed."""
    runs = []
    for path in folder.sockets():
        try:
            runs.append(LiveRun(path, _described(ask(path, "run", patience_s=patience_s))))
        except ControlError as error:
            if folder.is_socket(path) and folder.is_deserted(path):
                with contextlib.suppress(OSError):
                    path.unlink()
            elif error.kind != "no-run":
                runs.append(LiveRun(path, {"pid": folder.pid_of(path)}, str(error)))
    return sorted(runs, key=lambda live: (float(live.about.get("began") or 0.0), live.path))


def _described(about: object) -> dict[str, object]:
    if isinstance(about, dict):
        began = about.get("began")
        if isinstance(began, int | float) and abs(began) < _LATEST:
            return about
    raise ControlError("what answers there is no run", "protocol")


def find(name: str | None = None) -> LiveRun:
    """The run with *name*; without one, the only live run.

    *name* may be the beginning of the run's name, the part of it after the time stamp, its process
    id or its trace. Raises ``ControlError``.
    """
    runs = live_runs()
    if not runs:
        raise ControlError(
            "no run is live; one that is recorded can be reached from its first call on", "no-run"
        )
    matches = runs if name is None else _matching(name, runs)
    if len(matches) == 1:
        return matches[0]
    names = [live.name for live in matches or runs]
    if matches:
        some = ", ".join(names[:6]) + (", …" if len(names) > 6 else "")
        problem = (
            "several runs are live" if name is None else f"{name!r} means {len(names)} live runs"
        )
        raise ControlError(f"{problem}: {some}; say which one, by --run RUN", "ambiguous")
    words = [word for live in names for word in (live.partition("-")[2], live)]
    raise ControlError(f"no live run is {name!r}{nearest(str(name), words)}; {_HINT}", "no-run")


def _matching(name: str, runs: Iterable[LiveRun]) -> list[LiveRun]:
    runs = list(runs)
    exact = [live for live in runs if name in (live.name, live.path.stem, live.about.get("trace"))]
    if exact:
        return exact
    if name == "last":
        return runs[-1:]
    if name.isdigit():
        return [live for live in runs if str(live.about.get("pid")) == name]
    begun = [live for live in runs if live.name.startswith(name)]
    return begun or [live for live in runs if live.name.partition("-")[2].startswith(name)]
