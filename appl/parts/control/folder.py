"""The folder of the sockets of live runs, which belongs to one user.

It is ``$APPL_CTL_DIR`` if that is set, otherwise ``$XDG_RUNTIME_DIR/appl`` or ``/tmp/appl-UID``. A
socket is named ``PID-NUMBER.sock``.

Invariant: a folder is used only if it is a real folder (no link), belongs to this user and nobody
else may enter it. A socket is removed only by the process that made it, or if nobody listens there.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
import stat
import sys
from collections.abc import Iterator
from functools import lru_cache
from itertools import count
from pathlib import Path

from appl.errors import ControlError

LONGEST_PATH = 103 if sys.platform == "darwin" else 107
"""Bytes that the path of a socket may have, without the terminating zero."""

_NAME = re.compile(r"([0-9]{1,10})-[0-9]{1,10}\.sock")
_MOST_LOOKED_AT = 1000
_numbers = count(1)


def candidates() -> list[Path]:
    """The folders that may hold runs of this user, the preferred one first."""
    only, runtime_dir = os.environ.get("APPL_CTL_DIR"), os.environ.get("XDG_RUNTIME_DIR", "")
    return list(
        _candidates(str(Path(only).absolute()) if only else None, runtime_dir, os.geteuid())
    )


@lru_cache(maxsize=4)
def _candidates(only: str | None, runtime_dir: str, user: int) -> tuple[Path, ...]:
    if only:
        return (Path(only),)
    folders = [Path(runtime_dir) / "appl"] if Path(runtime_dir).is_absolute() else []
    return tuple(
        dict.fromkeys([*folders, Path(f"/run/user/{user}/appl"), Path(f"/tmp/appl-{user}")])
    )


def own_folder() -> Path:
    """The folder for sockets of this process, made if necessary. Raises ``ControlError``."""
    problems = []
    for path in candidates():
        try:
            _check(path)
            if len(os.fsencode(f"{path}/4194304-1000000.sock")) > LONGEST_PATH:
                raise ControlError(f"{path} is too long for a socket", "no-folder")
        except (OSError, ControlError) as error:
            problems.append(str(error))
        else:
            return path
    raise ControlError(f"there is no folder for the socket: {'; '.join(problems)}", "no-folder")


def _check(path: Path) -> None:
    """Refuse *path* if it is not a private folder of this user; make it if it is missing."""
    try:
        status = path.lstat()
    except FileNotFoundError:
        with contextlib.suppress(FileExistsError):
            path.mkdir(mode=0o700)  # not its parents: who has none has no such folder
        status = path.lstat()
    if not stat.S_ISDIR(status.st_mode):
        raise ControlError(f"{path} is not a folder", "not-yours")
    if status.st_uid != os.geteuid():
        raise ControlError(f"{path} belongs to somebody else", "not-yours")
    if stat.S_IMODE(status.st_mode) & 0o077:
        path.chmod(0o700)


def is_safe(path: Path) -> bool:
    """True if *path* is a folder (no link) of this user that nobody else may enter."""
    try:
        status = path.lstat()
    except OSError:
        return False
    private = not stat.S_IMODE(status.st_mode) & 0o077
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid() and private


def new_name() -> str:
    """A new name for a socket of this process."""
    return f"{os.getpid()}-{next(_numbers)}.sock"


def pid_of(path: Path) -> int | None:
    """The id of the process that owns the socket *path*; ``None`` if the name is not a run's."""
    match = _NAME.fullmatch(path.name)
    return int(match[1]) if match else None


def sockets() -> Iterator[Path]:
    """The paths that look like sockets of this user's runs."""
    for folder in candidates():
        if not is_safe(folder):
            continue
        with contextlib.suppress(OSError):
            for path in sorted(folder.iterdir())[:_MOST_LOOKED_AT]:
                if pid_of(path) is not None and is_socket(path):
                    yield path


def is_socket(path: Path) -> bool:
    """True if *path* is a socket of this user, and not a link to one."""
    try:
        status = path.lstat()
    except OSError:
        return False
    return stat.S_ISSOCK(status.st_mode) and status.st_uid == os.geteuid()


def sweep() -> None:
    """Remove the sockets of processes that no longer exist and that nobody listens at."""
    for path in sockets():
        pid = pid_of(path)
        if pid is None:
            continue
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            if is_deserted(path):
                with contextlib.suppress(OSError):
                    path.unlink()
        except OSError:  # it lives, and is not ours
            continue


def is_deserted(path: Path) -> bool:
    """True if nobody listens at *path*. A run's socket gets its name only once it listens."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            return True
        except OSError:
            return False
    return False
