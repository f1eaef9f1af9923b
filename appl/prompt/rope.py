"""Ropes: long texts that go on, kept as their pieces.

Invariant: a rope never changes; many that go on from one share it.
"""

from __future__ import annotations


class Rope:
    """The text of *base*, where there is one, with *added* at its end."""

    __slots__ = ("__weakref__", "added", "base", "ends_line", "size")

    def __init__(self, base: Rope | None, added: str) -> None:
        self.base, self.added = base, added
        self.size: int = len(added) + (base.size if base is not None else 0)
        self.ends_line: bool = added.endswith("\n") if added or base is None else base.ends_line

    def pieces(self) -> list[str]:
        """The pieces, last one first."""
        found: list[str] = []
        rope: Rope | None = self
        while rope is not None:
            found.append(rope.added)
            rope = rope.base
        return found

    def tail(self, length: int) -> str:
        """The last *length* characters, or all of them."""
        found: list[str] = []
        rope: Rope | None = self
        while rope is not None and length > 0:
            found.append(rope.added[-length:])
            length -= len(rope.added)
            rope = rope.base
        return "".join(reversed(found))

    def __str__(self) -> str:
        return "".join(reversed(self.pieces()))
