"""Voices: who says a text, and in which format.

Invariant: a voice is immutable, and shared by all that is said in it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from appl.prompt.levels import UNFORMATTED, Level

if TYPE_CHECKING:
    from appl.prompt.message import RoleName


class Voice(NamedTuple):
    """A role, the name of the speaker where there is one, and the innermost open format.

    ``depth`` is the number of open roles: text that a function says at its caller's depth is said
    by whoever says its records.
    """

    role: RoleName
    name: str | None = None
    level: Level | None = None
    depth: int = 0


USER = Voice("user")
VOICES: dict[RoleName, Voice] = {
    "system": Voice("system"),
    "user": USER,
    "assistant": Voice("assistant"),
    "tool": Voice("tool"),
}
"""The voices without a name and without a format."""


class Moved:
    """Maps voices inside *old* to voices inside *new*: their roles and levels there.

    A level inside *old* is one level inside *new*, the same for all that was said in it.
    """

    __slots__ = ("_levels", "_new", "_old")

    def __init__(self, old: Voice, new: Voice) -> None:
        self._old, self._new = old, new
        self._levels: dict[Level | None, Level | None] = {UNFORMATTED: UNFORMATTED}
        for level in old.level.path() if old.level is not None else ():
            self._levels[level] = new.level

    def __call__(self, voice: Voice) -> Voice:
        """The voice that stands for *voice*."""
        old, new = self._old, self._new
        if voice is old:
            return new
        if voice.level is UNFORMATTED:
            return voice
        level = self._level(voice.level)
        if voice.depth == old.depth:
            return Voice(new.role, new.name, level, new.depth)
        return Voice(voice.role, voice.name, level, new.depth + voice.depth - old.depth)

    def _level(self, level: Level | None) -> Level | None:
        copies, inner = self._levels, []
        while level is not None and level not in copies:
            inner.append(level)
            level = level.outer
        moved = self._new.level if level is None else copies[level]
        for nested in reversed(inner):
            moved = copies[nested] = Level(moved, nested.format)
        return moved
