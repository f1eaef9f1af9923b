"""A document of all that a run holds, which takes long to make.

Invariant: it is of one moment of the run, and not of an earlier one than that in which somebody
asked for it; the run is held still only while what it needs is taken from it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

Make = Callable[[], Any]


class Whole:
    """One such document: made by one thread at a time, and kept until there are more records.

    Who has *lock* sees a run of so many *records* that stands still; *take* is called with it, and
    gives what makes the document without it.
    """

    def __init__(
        self,
        lock: AbstractContextManager[Any],
        records: Callable[[], int],
        take: Callable[[], Make],
    ) -> None:
        self._lock, self._records, self._take = lock, records, take
        self._making = threading.Lock()
        self._of, self._made = -1, None

    def document(self) -> Any:
        """The document; who asks while somebody makes it waits for that one."""
        # ``_making`` is taken first and held throughout: a second request waits for the document
        # instead of making it again. The run's lock is held only while its data is taken.
        with self._making:
            with self._lock:
                records = self._records()
                make = self._take() if records != self._of else None
            if make is not None:
                self._made, self._of = make(), records
            return self._made
