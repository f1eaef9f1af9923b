"""The tools of MCP servers that a user was shown in a project, by digests of what they are.

Invariant: it lies in the user's state, outside of the project, so that no folder brings its own.
"""

from __future__ import annotations

import json
from hashlib import blake2b
from pathlib import Path
from typing import Any

from appl.config.state import read_private, write_private
from appl.errors import ConfigError
from appl.runtime.tools.offers import Digests

_SERVERS = 100
"""The servers of one project that are remembered: the latest."""


class ToolMemory:
    """The memory of the project whose runs lie in *home*."""

    def __init__(self, home: Path) -> None:
        project = blake2b(str(home.absolute()).encode(errors="surrogateescape"), digest_size=16)
        self._name = f"tools/{project.hexdigest()}.json"

    def swap(self, server: str, tools: Digests) -> Digests | None:
        """Remember the *tools* of *server*, and return those that were; None the first time.

        Where nothing can be kept, each time is the first.
        """
        try:
            known = self._read()
            before = known.pop(server, None)
            if before != tools:
                latest = dict([*known.items(), (server, tools)][-_SERVERS:])
                write_private(self._name, json.dumps(latest).encode())
        except ConfigError:
            return None
        return before if isinstance(before, dict) else None

    def _read(self) -> dict[str, Any]:
        try:
            known = json.loads(read_private(self._name) or b"{}")
        except ValueError:
            return {}
        return known if isinstance(known, dict) else {}
