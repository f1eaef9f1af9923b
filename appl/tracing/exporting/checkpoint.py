"""A note of the spans that a collector has taken, so that an export resumes where it stopped.

Invariant: the note holds digests alone. It is one append-only file for each run and address; a torn
end is dropped, and then its span is sent once more.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from hashlib import blake2b
from pathlib import Path

from appl.tracing.exporting.otlp import MARK
from appl.tracing.format.store import make_folder
from appl.tracing.keeping.side_files import EXPORTS, note_of_export

_MOST_BYTES = 64 << 20


class Checkpoint:
    """Marks of the spans that arrived; kept below *home*, or nowhere when it is ``None``.

    ``kept`` says whether a later export will find them.
    """

    def __init__(self, home: Path | None, trace_id: bytes, url: str) -> None:
        address = blake2b(url.encode(), digest_size=8).hexdigest()
        name = note_of_export(trace_id, address)
        self._file = home / EXPORTS / name if home is not None else None
        self.kept = home is not None
        self._marks = self._read()

    def __contains__(self, mark: bytes) -> bool:
        return mark in self._marks

    def __len__(self) -> int:
        return len(self._marks)

    def add(self, marks: Iterable[bytes]) -> None:
        """Note *marks*; if the folder cannot be written to, the export goes on without a note."""
        fresh = list(marks)
        self._marks.update(fresh)
        if self._file is None or not self.kept:
            return
        try:
            self._append(self._file, b"".join(fresh))
        except OSError:
            self.kept = False

    def clear(self) -> None:
        """Forget all of them: the next export starts at the beginning."""
        self._marks.clear()
        if self._file is not None:
            with contextlib.suppress(OSError):
                self._file.unlink()

    def _read(self) -> set[bytes]:
        if self._file is None:
            return set()
        try:
            with os.fdopen(
                os.open(self._file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb"
            ) as file:
                data = file.read(_MOST_BYTES)
        except OSError:
            return set()
        return {data[at : at + MARK] for at in range(0, len(data) - MARK + 1, MARK)}

    @staticmethod
    def _append(path: Path, data: bytes) -> None:
        make_folder(path.parent)
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(path, flags, 0o600), "r+b") as file:
            end = file.seek(0, os.SEEK_END)
            # A crash may have torn the last mark: it is overwritten, as marks are read by position.
            file.seek(end - end % MARK)
            file.write(data)
