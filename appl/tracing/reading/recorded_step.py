"""The part that recorded calls and recorded calls of tools have in common."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass
from typing import Literal


@dataclass(slots=True)
class RecordedStep:
    """A recorded call, or a recorded call of a tool.

    Times are microseconds since the recording process began. ``outcome`` is ``None`` for one that
    was in flight when the record ends. ``position`` numbers the starts, ``delivered`` the
    deliveries. ``masked`` names the secrets that were taken out of its records, ``lost`` those of
    its outcome, which then cannot be given again.
    """

    address: str
    file: str | None = None
    line: int | None = None
    position: int = -1
    started: int | None = None
    outcome: Literal["answered", "failed", "cancelled"] | None = None
    error: BaseException | None = None
    ended: int | None = None
    end_position: int = -1
    delivered: int | None = None
    delivered_at: int | None = None
    masked: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    incarnation: int = 0

    @property
    def where(self) -> str:
        """The source line, of a tool that of its function, as ``file:line``; or an empty string."""
        return f"{self.file}:{self.line}" if self.file else ""


def within(address: str, tools: Set[str]) -> bool:
    """True if *address* lies inside the call of one of *tools*, given by address."""
    while tools and address:
        address = address.rpartition("/")[0]
        if address in tools:
            return True
    return False
