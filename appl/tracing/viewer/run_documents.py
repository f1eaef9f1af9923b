"""Documents of a whole run, which take long to make.

Invariant: a document shows the run at one moment, which is not before the request; the run is
locked only while the data is taken from it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager

Make = Callable[[], object]


class Whole:
    """One such document: made by one thread at a time, and kept until there are more records.

    The run and its number of *records* do not change while *lock* is held. *take* is called under
    the lock and returns the function that makes the document, which is called without it.
    """

    def __init__(
        self,
        lock: AbstractContextManager[object],
        records: Callable[[], int],
        take: Callable[[], Make],
    ) -> None:
        self._lock, self._records, self._take = lock, records, take
        self._making = threading.Lock()
        self._of = -1
        self._made: object = None

    def document(self) -> object:
        """The document; a request that comes while it is made waits for it."""
        # ``_making`` is taken first and held throughout: a second request waits for the document
        # instead of making it again. The run's lock is held only while its data is taken.
        with self._making:
            with self._lock:
                records = self._records()
                make = self._take() if records != self._of else None
            if make is not None:
                self._made, self._of = make(), records
            return self._made
