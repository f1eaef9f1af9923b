"""The turns of a project's conversations, kept from run to run as counts by kind.

Invariant: it is read when a conversation has to wait for room in a server's cache, and written at
the end of such a run; other runs know nothing of it. It holds names of functions, and no texts.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from appl.config.state import read_table, write_private
from appl.errors import ConfigError

if TYPE_CHECKING:
    from appl.runtime.scheduling.turn_forecast import KindHistory

_KINDS = 200
"""The number of kinds that a project remembers, the latest ones."""


@dataclass(slots=True)
class StoredTurns:
    """The turns that are stored in the file *name* of the user's state."""

    name: str
    _kinds: Mapping[str, KindHistory] = field(default_factory=dict, repr=False, compare=False)

    def load(self) -> Mapping[str, Mapping[str, Any]]:
        """The stored records by kind; none if there are none that can be read."""
        with suppress(ConfigError):
            return read_table(self.name)
        return {}

    def keep(self, kinds: Mapping[str, KindHistory]) -> None:
        """Have *kinds* stored at the end of the run."""
        self._kinds = kinds

    def store(self) -> None:
        """Store what is to be kept, besides the kinds of other programs."""
        kinds, self._kinds = dict(self._kinds), {}
        if not kinds:
            return
        stored = {name: record for name, record in self.load().items() if name not in kinds}
        stored |= {name: history.record() for name, history in kinds.items()}
        with suppress(ConfigError):
            write_private(self.name, json.dumps(dict([*stored.items()][-_KINDS:])).encode())
