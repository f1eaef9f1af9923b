"""Sets the threads of BLAS for the engine's products, without touching anyone else's setting.

Invariant: the process's setting is what it was whenever no engine step is running. With matrices
this small a second thread gains little, and where another process or thread keeps a core busy,
OpenBLAS's spinning barrier makes every product wait for that core: ten times slower, measured.
"""

from __future__ import annotations

import contextlib
import ctypes
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

_NAMES = (
    "scipy_openblas_{}_num_threads64_",
    "openblas_{}_num_threads64_",
    "openblas_{}_num_threads",
)


class BlasThreads:
    """``with limit:`` runs NumPy's products on at most *count* threads.

    It knows the OpenBLAS that NumPy's wheels bring along; with any other library, or with ``None``,
    it does nothing (set that library's environment variable instead). Limits that overlap in time
    count as one: the first sets, the last restores.
    """

    _lock = threading.Lock()
    _inside = 0
    _before = 0

    def __init__(self, count: int | None) -> None:
        self._count = count or 0
        self._library = openblas() if count else None

    def __enter__(self) -> None:
        if self._library is not None:
            get, put = self._library
            # The setting belongs to the process, and several engines may step at the same time. The
            # lock keeps the second from taking the first one's count for the user's.
            with BlasThreads._lock:
                if BlasThreads._inside == 0:
                    BlasThreads._before = get()
                BlasThreads._inside += 1
                put(self._count)

    def __exit__(self, *exc: object) -> None:
        if self._library is not None:
            with BlasThreads._lock:
                BlasThreads._inside -= 1
                if BlasThreads._inside == 0:
                    self._library[1](BlasThreads._before)


Library = tuple[Callable[[], int], Callable[[int], None]]


def openblas() -> Library | None:
    """The two functions of the OpenBLAS that is already loaded for NumPy: get and set."""
    for path in _bundled():
        with contextlib.suppress(OSError):
            library = ctypes.CDLL(str(path))
            for name in _NAMES:
                if hasattr(library, name.format("set")):
                    return library[name.format("get")], library[name.format("set")]
    return None


def _bundled() -> Iterator[Path]:
    package = Path(np.__file__).parent
    yield from sorted((package.parent / "numpy.libs").glob("*openblas*"))
    yield from sorted((package / ".dylibs").glob("*openblas*"))
