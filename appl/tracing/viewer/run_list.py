"""All runs of a folder of traces, as a browser lists them, and the views of those that it opens.

Invariant: the list is that of ``appl trace ls``, from the same index; a run is found by its name
among the listed ones, so that no name is a path. Texts for the search are read in the background,
newest runs first, and kept in memory alone.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from appl.base.collecting import no_collection
from appl.errors import ApplError
from appl.tracing.keeping import index
from appl.tracing.keeping.row import RunRow
from appl.tracing.recording.secret import Masker
from appl.tracing.viewer.page_data import as_json, exact
from appl.tracing.viewer.run_texts import NOTHING, RunTexts, texts_of
from appl.tracing.viewer.view import View, Views

Answer = Callable[[str, str], str]
"""Adds an answer, a text, to the question at an address, and says so; ``ValueError`` if not."""
Stamp = tuple[int, int, int]

_FRESH_S = 1.0
_OPEN = 8
_READ = 3_000


@dataclass(slots=True)
class _OpenRun:
    """A run that is shown, and how many requests need it now."""

    view: View
    views: Views
    answer: Answer | None
    users: int = 0


class RunList:
    """The runs of the folder *home*.

    *answers* makes what takes a person's answers to a run's questions; without it none are taken.
    """

    def __init__(self, home: Path, *, answers: Callable[[Path], Answer] | None = None) -> None:
        self.home, self._answers = home, answers
        self._masker = Masker()
        self._lock = threading.Lock()  # of the open runs; held for a moment
        self._open: OrderedDict[Path, _OpenRun] = OrderedDict()
        self._listing = threading.Lock()  # held while the folder is looked through
        self._rows: list[RunRow] = []
        self._looked = -_FRESH_S
        self._texts: dict[Path, tuple[Stamp, RunTexts]] = {}
        self._version = 0
        self._closed = threading.Event()
        self._reads = False

    def close(self) -> None:
        """Let go of all runs."""
        self._closed.set()
        with self._lock:
            opened, self._open = self._open, OrderedDict()
        for each in opened.values():
            each.view.close()

    # -- the list

    def json(self, name: str, asked: Mapping[str, str]) -> bytes:
        """The document ``list`` or ``found`` as JSON without secrets. Raises ``KeyError``."""
        if name == "list":
            made = as_json(self._list(asked.get("version", "")), self._masker)
            self._read_on()  # when the list is made: the first one does not wait for texts
            return made
        if name == "found":
            return as_json(self._found(asked["text"]), self._masker)
        raise KeyError(name)

    def rows(self) -> list[RunRow]:
        """The rows of all runs, newest first, as they were a second ago at most."""
        with self._listing:
            if time.monotonic() - self._looked >= _FRESH_S:
                with no_collection():
                    rows = index.rows(self.home)
                if rows != self._rows:
                    self._rows, self._version = rows, self._version + 1
                self._looked = time.monotonic()
            return self._rows

    def _list(self, known: str) -> dict[str, object]:
        """All runs; nothing but the version if that is *known*."""
        rows = self.rows()
        texts = self._texts.copy()
        version = f"{self._version}.{len(texts)}"
        if version == known:
            return {"version": version}
        return {
            "version": version,
            "home": str(self.home),
            "runs": [_entry(row, texts.get(row.path, (None, NOTHING))[1]) for row in rows],
            "read": len(texts),
            "of": min(len(rows), _READ),
        }

    def _found(self, text: str) -> list[str]:
        """The names of the runs whose prompts or answers hold *text*, as far as they were read."""
        wanted = text.casefold()
        return [path.stem for path, (_, found) in self._texts.copy().items() if found.has(wanted)]

    # -- texts, on a thread of their own

    def _read_on(self) -> None:
        """Have the texts of new runs read, unless a thread is at it."""
        with self._lock:
            if self._reads or self._closed.is_set():
                return
            self._reads = True
        threading.Thread(target=self._read, name="appl-texts", daemon=True).start()

    def _read(self) -> None:
        try:
            rows = self._rows[:_READ]
            listed = {row.path for row in rows}
            for gone in [path for path in self._texts.copy() if path not in listed]:
                self._texts.pop(gone, None)
            for row in rows:
                if self._closed.is_set():
                    return
                stamp = _stamp(row.path)
                if stamp is not None and self._texts.get(row.path, (None,))[0] != stamp:
                    # One step: requests copy the map on their own threads meanwhile.
                    self._texts[row.path] = stamp, texts_of(row.path, stamp[0])
        finally:
            with self._lock:
                self._reads = False

    # -- a run of the list

    @contextlib.contextmanager
    def opened(self, name: str) -> Iterator[tuple[Views, Answer | None]]:
        """The views of the run *name*. Raises ``KeyError`` if there is none that can be read."""
        found = self._opened(name)
        try:
            yield found.views, found.answer
        finally:
            with self._lock:
                found.users -= 1

    def _opened(self, name: str) -> _OpenRun:
        path = next((row.path for row in self.rows() if row.name == name), None)
        if path is None:
            raise KeyError(name)
        with self._lock:
            found = self._open.get(path)
            if found is not None:
                self._open.move_to_end(path)
                found.users += 1
                return found
        try:
            view = View(path)
        except (ApplError, OSError) as error:
            raise KeyError(str(error)) from error
        made = _OpenRun(view, Views(view), self._answers(path) if self._answers else None, 1)
        view.answers = made.answer is not None
        with self._lock:
            found = self._open.setdefault(path, made)
            if found is not made:  # another request was first
                found.users += 1
            idle = [path for path, each in self._open.items() if not each.users]
            closed = [self._open.pop(path) for path in idle[: max(len(self._open) - _OPEN, 0)]]
        for each in [*closed, *([made] if found is not made else [])]:
            each.view.close()
        return found


def _stamp(path: Path) -> Stamp | None:
    """Size, time and inode, which change when a file does."""
    try:
        facts = path.stat()
    except OSError:
        return None
    return facts.st_size, facts.st_mtime_ns, facts.st_ino


def _entry(row: RunRow, texts: RunTexts) -> object:
    """A run as JSON-ready data."""
    return exact(
        {
            "name": row.name,
            "program": row.program,
            "state": row.state,
            "began": row.began,
            "seconds": row.seconds,
            "calls": row.calls,
            "failed": row.failed,
            "failures": row.failures.words(row.state == "finished"),
            "tokens": row.tokens,
            "cost": row.cost,
            "unpriced": row.unpriced,
            "models": row.models,
            "error": row.error,
            "question": texts.question,
            "answer": texts.answer,
            "evaluations": texts.evaluations,
        }
    )
