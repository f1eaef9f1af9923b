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
_CORE_NAMES = (
    "scipy_openblas_get_corename64_",
    "openblas_get_corename64_",
    "openblas_get_corename",
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
    for library in _bundled():
        for name in _NAMES:
            if hasattr(library, name.format("set")):
                return library[name.format("get")], library[name.format("set")]
    return None


def core_name() -> str:
    """The kind of processor that NumPy's OpenBLAS has chosen its kernels for; empty without one."""
    for library in _bundled():
        for name in _CORE_NAMES:
            if hasattr(library, name):
                function = library[name]
                function.restype = ctypes.c_char_p
                return bytes(function() or b"").decode("ascii", "replace")
    return ""


def _bundled() -> Iterator[ctypes.CDLL]:
    package = Path(np.__file__).parent
    for folder in (package.parent / "numpy.libs", package / ".dylibs"):
        for path in sorted(folder.glob("*openblas*")):
            with contextlib.suppress(OSError):
                yield ctypes.CDLL(str(path))
