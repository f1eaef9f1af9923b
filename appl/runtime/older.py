"""Older spellings: accepted, with one warning each that says what to write today.

Invariant: an older spelling does what the newer one does, or it is no spelling but a difference.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Mapping
from typing import Any

from appl.errors import UnknownOption, nearest

_PACKAGE = __name__.partition(".")[0]
_told: set[str] = set()


def told_once(old: str, new: str) -> None:
    """Warn, once in a process, that *old* is written *new* today."""
    if old in _told:
        return
    _told.add(old)
    warnings.warn(
        f"{old} is an older spelling: write {new}", DeprecationWarning, stacklevel=_users_level()
    )


def _users_level() -> int:
    """How far up the stack the code of the user begins, as ``warnings.warn`` counts."""
    level, frame = 1, sys._getframe(2)
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] == _PACKAGE:
        level += 1
        if frame.f_back is None:
            break
        frame = frame.f_back
    return level + 1


def renamed(where: str, given: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """*given* under the names of today; one that was never known raises ``UnknownOption``."""
    found: dict[str, Any] = {}
    for old, value in given.items():
        if old not in names:
            raise UnknownOption(f"{where} has no option {old!r}{nearest(old, names)}")
        told_once(f"{where}({old}=…)", f"{names[old]}=")
        found[names[old]] = value
    return found


# -- options of gen

_WORDS = {"server": "model", "_ctx": "messages"}
_REPLACED = {
    "mock_response": "script the answers of a test with appl.testing.Scripted",
    "messages_process_func": "give the messages that are meant as messages=",
    "postprocess_args": "give the messages and options that are meant to gen() itself",
    "tool_format": "tools are always given to the backend with their schema",
    "instructor_patch_mode": "response_format= needs no patch",
    "max_retries": "an answer that does not fit response_format= is asked again",
    "validation_context": "validate in the type given as response_format=",
    "lazy_eval": "every call starts at once",
    "llm_executor_type": "calls need no executor",
    "api_key": 'write [backends.NAME] api_key = {env = "VARIABLE"} into appl.toml',
    "base_url": "write [backends.NAME] base_url into appl.toml",
}


def of_gen(extra: dict[str, Any]) -> dict[str, Any]:
    """What *extra* says in older words, or of the prompt; it is taken out of it."""
    found: dict[str, Any] = {}
    for old, new in _WORDS.items():
        if old in extra:
            value = extra.pop(old)
            if value is not None:
                found[new] = value
            if old != "_ctx":
                told_once(f"gen({old}=…)", f"gen({new}=…)")
    return found


def replaced(option: str) -> str:
    """``; today …`` for an option of APPL's ``gen`` that has gone, or an empty string."""
    found = _REPLACED.get(option)
    return f"; {found}" if found else ""
