"""The user's private state folder, which lies outside of every project.

Invariant: a folder inside of a project, or one that others may write to, is never read or written.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from appl.errors import ConfigError


def state_folder() -> Path:
    """The folder of the user's state, which may not exist yet.

    Raises ``ConfigError`` if it lies inside of a project or others may write to it.
    """
    folder = Path(_base(), "appl") / ("state" if sys.platform == "win32" else "")
    with contextlib.suppress(OSError, RuntimeError):
        real, home, here = folder.resolve(), Path.home().resolve(), Path.cwd()
        held = (above for above in (here, *here.parents) if os.path.lexists(above / ".git"))
        project = next(held, here)  # the repository or, without one, the working directory
        if real.is_relative_to(project) and not home.is_relative_to(project):
            raise ConfigError(
                f"your state folder {real} lies inside of the project {project}, which could "
                "fill it; let XDG_STATE_HOME name a folder outside of every project"
            )
    if sys.platform == "win32" or not folder.exists():
        return folder
    status = folder.stat()
    if status.st_uid != os.geteuid():
        raise ConfigError(
            f"your state folder {folder} belongs to another user; "
            "let XDG_STATE_HOME name a folder of your own"
        )
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise ConfigError(
            f"others may write to your state folder {folder}; write chmod 700 '{folder}'"
        )
    return folder


def read_private(name: str) -> bytes | None:
    """The bytes of the file *name* below the state folder; ``None`` if there is none."""
    with _reported(f"{name} in the state folder cannot be read"):
        try:
            return (state_folder() / name).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None


def read_table(name: str) -> dict[str, Any]:
    """The table in the file *name* of the user's state, or an empty one. Raises ``ConfigError``."""
    try:
        table = json.loads(read_private(name) or b"{}")
    except (ValueError, RecursionError):
        return {}
    return table if isinstance(table, dict) else {}


def private_identity(name: str) -> tuple[object, ...] | None:
    """The state of the folder and of its file *name*; ``None`` if one of them is missing.

    While it stays the same, so do the content of the file and the result of all checks.
    """
    try:
        folder = f"{_base()}/appl"
        states = os.stat(folder), os.stat(f"{folder}/{name}")
        identities = [(s.st_ino, s.st_mode, s.st_uid, s.st_ctime_ns) for s in states]
        return folder, os.environ.get("HOME"), os.getcwd(), *identities
    except (OSError, ConfigError):
        return None


def create_private(name: str, data: bytes) -> bytes:
    """Write the file *name* below the state folder unless it exists; return its content."""
    content = read_private(name)
    if content is None:
        write_private(name, data, replaces=False)
        content = read_private(name)
    return data if content is None else content


def write_private(name: str, data: bytes, *, replaces: bool = True) -> None:
    """Write the file *name* below the state folder, in one step and for this user only.

    Unless it *replaces* one, a file that another process has put there meanwhile stays.
    """
    file = state_folder() / name
    with _reported(f"{file} cannot be written"):
        _private_folder(file.parent)
        handle, temporary = tempfile.mkstemp(dir=file.parent, prefix=".new-")
        try:
            with os.fdopen(handle, "wb") as opened:
                opened.write(data)
                opened.flush()
                os.fsync(opened.fileno())
            if replaces:
                Path(temporary).replace(file)
            else:
                with contextlib.suppress(FileExistsError):
                    file.hardlink_to(temporary)
                Path(temporary).unlink()
        except BaseException:
            with contextlib.suppress(OSError):
                Path(temporary).unlink()
            raise


def remove_private(name: str) -> bool:
    """Remove the file *name* below the state folder; false if there was none."""
    file = state_folder() / name
    with _reported(f"{file} cannot be removed"):
        try:
            file.unlink()
        except FileNotFoundError:
            return False
        return True


def private_names(folder: str) -> list[str]:
    """The names of the files in *folder* below the state folder, sorted."""
    with _reported(f"{folder} in the state folder cannot be read"):
        try:
            names = [file.name for file in (state_folder() / folder).iterdir()]
        except FileNotFoundError:
            return []
    return sorted(f"{folder}/{name}" for name in names if not name.startswith("."))


def _base() -> str:
    """The folder of all programs' state. A relative variable counts as unset, as XDG specifies."""
    windows = sys.platform == "win32"
    variable = "LOCALAPPDATA" if windows else "XDG_STATE_HOME"
    named = os.environ.get(variable, "")
    if os.path.isabs(named):
        return named
    home = os.path.expanduser("~")
    if home == "~":
        raise ConfigError(f"there is no home folder for your state; set {variable}")
    return home + ("/AppData/Local" if windows else "/.local/state")


def _private_folder(folder: Path) -> None:
    """Make *folder* and its parents, each for this user only."""
    if not folder.is_dir():
        _private_folder(folder.parent)
        with contextlib.suppress(FileExistsError):
            folder.mkdir(mode=0o700)


@contextlib.contextmanager
def _reported(problem: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ConfigError(f"{problem}: {error.strerror or error}") from None
