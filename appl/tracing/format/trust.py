"""Tells the user's own traces from others: all blocks are signed with the user's key.

Invariant: a trace's place says nothing. A trace of somebody else is read and compared, and nothing
is started or asked because of it.
"""

from __future__ import annotations

from pathlib import Path

from appl.tracing.format import block, block_file
from appl.tracing.format.signing import Owner
from appl.tracing.format.store import regular_file


def doubt(path: Path, owner: Owner | None) -> str | None:
    """The reason why the trace at *path* is not a run of *owner*; ``None`` when it is one.

    Raises ``NotATrace``.
    """
    if path.is_symlink():
        return "it is a link to another file"
    signatures = _signatures(path, owner)
    if not signatures:
        return "it is not signed"
    first, last = signatures[0], signatures[-1]
    if owner is None or first is None or last is None:
        return "it is not signed with your key, or it was changed"
    ends = owner.ends_of(first)
    if ends and ends.isdisjoint(signatures):
        return "its end was cut off"
    return None


def end_here(path: Path, owner: Owner | None) -> None:
    """Note where the run at *path* ends, a part of one of *owner*'s runs, so that it is trusted."""
    signatures = _signatures(path, owner)
    if owner is not None and signatures and signatures[0] and signatures[-1]:
        owner.note_end(signatures[0], signatures[-1])


def _signatures(path: Path, owner: Owner | None) -> list[bytes | None]:
    """The signatures of the blocks of *path*, up to ``None`` for a wrong one; empty if unsigned."""
    with regular_file(path) as file:
        if file.read(1) == b"{":  # a tape
            return []
        first = next(block.blocks(file), None)
        if first is None or not first[1] & block.SIGNED:
            return []
        return [None] if owner is None else list(block_file.signatures(file, owner.key))
