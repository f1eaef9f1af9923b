"""How many threads BLAS uses for the engine's products, without touching anyone else's setting.

Invariant: the process's setting is what it was whenever no engine step is running. With matrices
this small a second thread gains little, and where another process or thread keeps a core busy,
OpenBLAS's spinning barrier makes every product wait for that core.
"""

from __future__ import annotations

import contextlib
import ctypes
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
    it does nothing (set that library's environment variable instead).
    """

    def __init__(self, count: int | None) -> None:
        self.count = count
        found = None if count is None else _openblas()
        self._get, self._set = found or (None, None)
        self._before = 0

    def __enter__(self) -> None:
        if self._get is not None and self._set is not None:
            self._before = self._get()
            self._set(self.count)

    def __exit__(self, *exc: object) -> None:
        if self._set is not None:
            self._set(self._before)


def _openblas() -> tuple[Callable[[], int], Callable[[int | None], None]] | None:
    """The two functions of the OpenBLAS that is already loaded for NumPy."""
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
