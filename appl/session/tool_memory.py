"""The tools of MCP servers that a user has seen in a project, by digests of their definitions.

Invariant: it lies in the user's state, outside of the project, so that no folder brings its own.
"""

from __future__ import annotations

import json
import os
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING

from appl.config.state import read_table, write_private
from appl.errors import ConfigError

if TYPE_CHECKING:
    from appl.runtime.tools.offers import Digests

_SERVERS = 100
"""The number of servers that a project remembers, the latest ones."""


class StoredToolMemory:
    """The tools of the project whose runs lie in *home*."""

    def __init__(self, home: Path) -> None:
        self._name = name_of("tools", home)

    def swap(self, server: str, tools: Digests) -> Digests | None:
        """Store the *tools* of *server* and return the former ones; ``None`` the first time.

        If nothing can be stored, every time is the first.
        """
        try:
            servers = read_table(self._name)
            before = servers.pop(server, None)
            if before != tools:
                latest = dict([*servers.items(), (server, tools)][-_SERVERS:])
                write_private(self._name, json.dumps(latest).encode())
        except ConfigError:
            return None
        is_whole = isinstance(before, dict) and all(isinstance(v, list) for v in before.values())
        return before if is_whole else None


def name_of(what: str, home: Path) -> str:
    """The name of the file in the user's state that remembers *what* of the project of *home*."""
    return _name(what, home, "" if home.is_absolute() else os.getcwd())


@lru_cache(maxsize=4)
def _name(what: str, home: Path, directory: str) -> str:
    """The name of the file for *home*, which may be relative to the working *directory*."""
    place = str(Path(directory) / home).encode(errors="surrogateescape")
    return f"{what}/{blake2b(place, digest_size=16).hexdigest()}.json"
