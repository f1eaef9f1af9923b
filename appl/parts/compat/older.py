"""Older spellings: accepted, with one warning each that says what to write today.

Invariant: an older spelling does the same as the newer one; otherwise it is no spelling but a
difference.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Collection, Mapping

from appl.errors import UnknownOption, nearest

_PACKAGE = __name__.partition(".")[0]
_told: set[str] = set()


def told_once(old: str, new: str) -> None:
    """Warn, once in a process, that *old* is written *new* today."""
    if old in _told:
        return
    _told.add(old)
    level, frame = 1, sys._getframe(1)  # up to where the user's code begins
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] == _PACKAGE:
        level += 1
        if frame.f_back is None:
            break
        frame = frame.f_back
    words = f"{old} is an older spelling: write {new}"
    warnings.warn(words, DeprecationWarning, stacklevel=level + 1)


def renamed(
    where: str,
    options: Mapping[str, object],
    names: Mapping[str, str],
    parameters: Collection[str] = (),
) -> dict[str, object]:
    """*options* under the names of today. Raises ``UnknownOption`` for a name that never existed.

    *parameters* are the options of today; the error suggests the nearest.
    """
    renamed_options: dict[str, object] = {}
    for old, value in options.items():
        if old not in names:
            hint = nearest(old, (*parameters, *names))
            listed = f" (known: {', '.join(parameters)})" if parameters else ""
            raise UnknownOption(f"{where} has no option {old!r}{hint}{listed}")
        told_once(f"{where}({old}=…)", f"{names[old]}=")
        renamed_options[names[old]] = value
    return renamed_options
