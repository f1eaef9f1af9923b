"""The settings file of a folder.

Invariant: a process reads a file again when it, or another one that could be found before it, has
changed.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

FILES = ("appl.toml", "pyproject.toml", "appl.yaml", "appl.yml", "appl.json")
_GIT = ".git"
_SETTLED_NS = 2_000_000_000  # a file that was changed just now may change again within one tick
_State = tuple[int, int, int]


class SettingsFile(NamedTuple):
    """A settings file: its path, its *table* of settings, its *text* and their *digest*.

    The digest covers the whole file, but of ``pyproject.toml`` only ``[tool.appl]``.
    """

    path: Path
    table: Mapping[str, object]
    text: str
    digest: str


def find_file(directory: Path | None = None) -> SettingsFile | None:
    """The nearest settings file, from *directory* up to the repository or the home folder.

    By default, *directory* is the working directory. Outside of both, only *directory* itself is
    searched: folders further up may be anybody's.
    """
    start = os.getcwd() if directory is None else os.path.realpath(directory)
    home = os.path.expanduser("~")
    settled_ns = time.time_ns() - _SETTLED_NS
    states = tuple(_states(start, home, settled_ns))
    changed = any(state is not None and state[0] > settled_ns for _, state in states)
    return (_find.__wrapped__ if changed else _find)(start, home, states)


def _states(folder: str, home: str, settled_ns: int) -> Iterator[tuple[str, _State | None]]:
    """The states of all files that decide which settings file is found, in order."""
    while True:
        names = _names(folder, settled_ns)
        for name in names:
            if name != _GIT:  # which every commit changes
                yield f"{folder}/{name}", _state(f"{folder}/{name}")
        above = os.path.dirname(folder)
        if _GIT in names or folder == home or above == folder:
            yield folder, None
            return
        folder = above


def _names(folder: str, settled_ns: int) -> tuple[str, ...]:
    """The names of *folder* that decide it. A folder from before *settled_ns* is looked at once."""
    try:
        status = os.stat(folder)
    except OSError:
        return ()
    state = status.st_mtime_ns, status.st_mode, status.st_ino
    return (_names_in.__wrapped__ if state[0] > settled_ns else _names_in)(folder, state)


@lru_cache(maxsize=64)
def _names_in(folder: str, state: _State) -> tuple[str, ...]:
    """The names in *folder* while its *state* stays the same: a new name would change it."""
    return tuple([name for name in (*FILES, _GIT) if os.path.lexists(f"{folder}/{name}")])


def _state(path: str) -> _State | None:
    """The state of the file at *path*, which differs after a change; ``None`` without a file."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return None
    return status.st_ctime_ns, status.st_size, status.st_ino


@lru_cache(maxsize=16)
def _find(directory: str, home: str, states: object) -> SettingsFile | None:
    """The nearest settings file while the *states* of the files stay the same."""
    start, top = Path(directory), Path(home)
    folders = [start, *start.parents]
    tops = (i for i, each in enumerate(folders) if (each / ".git").exists() or each == top)
    for folder in folders[: next(tops, 0) + 1]:
        for name in FILES:
            if not os.path.lexists(folder / name):
                continue
            from appl.config.parsing import read_file  # many folders have no settings

            settings = read_file(folder / name)
            if settings is not None:
                return settings
    return None
