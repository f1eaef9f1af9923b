"""Recorded batches: calls that a provider answers together, and how far that had got.

Invariant: what is said of a batch later holds; no text of the program is in it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

Item = tuple[str, int, int]
"""One question of a batch: the address of its call, its first sample, and how many."""


@dataclass(slots=True)
class RecordedBatch:
    """A batch of *calls*, by its own ``key``.

    ``state`` is that of ``BatchChanged``. ``facts`` may have the ``backend``, the ``kind`` of the
    questions, ``id`` (the provider's name of it), ``files`` (of which none is left once it is
    ``removed``), ``wall`` (when it was sent, in seconds since 1970), ``counts``, and ``parts``: the
    first sample and the number of samples of each call, where they are not 0 and 1.
    """

    key: str
    state: str = ""
    at: int = 0
    facts: dict[str, Any] = field(default_factory=dict)
    calls: tuple[str, ...] = ()
    incarnation: int = 0

    @property
    def id(self) -> str | None:
        """The provider's name of the batch, if that is known."""
        name = self.facts.get("id")
        return name if isinstance(name, str) else None

    @property
    def is_away(self) -> bool:
        """True if the provider has it, or may have it, and its answers were not read yet."""
        return self.state in ("sending", "sent")

    def items(self) -> Iterator[Item]:
        """The questions, in the order of the ids at the provider."""
        parts = self.facts.get("parts") or [0, 1] * len(self.calls)
        return zip(self.calls, parts[::2], parts[1::2], strict=True)

    def as_data(self) -> dict[str, Any]:
        """The batch as JSON-ready data."""
        return {
            "key": self.key,
            "state": self.state,
            "calls": list(self.calls),
            "facts": self.facts,
        }
