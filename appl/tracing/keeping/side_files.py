"""Files that a run leaves beside its trace: the key of a private one, and notes of its exports.

Invariant: both are removed with the trace, whoever removes it. Nothing else is removed.
"""

from __future__ import annotations

from pathlib import Path

from appl.prompt import digest_of
from appl.tracing.format import keys, table
from appl.tracing.keeping import removal

EXPORTS = "exports"
"""The folder of the notes, below the home of the runs."""


def identity(program: object, *began: object) -> bytes:
    """The run's id of 16 bytes, made from its *program* and the time and place of its begin."""
    return digest_of("appl-otel-trace", str(program), *map(str, began))


def note_of_export(run: bytes, address: str) -> str:
    """The name of the note about the spans of *run* that the collector at *address* has."""
    return f"{run.hex()}-{address}.sent"


def remove(path: Path, home: Path) -> None:
    """Remove the trace at *path* and its files below *home*.

    Raises ``NotATrace``, ``TraceLocked``.
    """
    notes, key = _notes(path, home), keys.identity(path) or ""
    removal.remove(path)
    keys.forget(home, key)
    for note in notes:
        note.unlink(missing_ok=True)


def _notes(path: Path, home: Path) -> list[Path]:
    every = [*(home / EXPORTS).glob("*.sent")]
    if not every:
        return []
    began: list[object] = [path.stem]  # the identity of the run, as far as it can be read
    header = keys.first_record(path) or {}
    for first in keys.first_records(path, table.ProcessRecord)[:1]:
        began = [first.wall_ns, first.monotonic_ns, first.host, first.pid]
    run = identity(header.get("program"), *began).hex()
    return [note for note in every if note.name.startswith(f"{run}-")]
