"""Options that a user has set for calls of a program that is run again: by address or pattern.

Invariant: they are part of the trace, so that a replay of it asks what was asked.
"""

from __future__ import annotations

import dataclasses
import fnmatch
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from appl.backend import Sampling
from appl.errors import InvalidOption, nearest
from appl.tracing.reading.trace import Trace

if TYPE_CHECKING:
    from appl.runtime.answers.call import Call

HEADER = "sets"
_OPTIONS = tuple(
    field.name
    for field in dataclasses.fields(Sampling)
    if field.init and field.name not in ("extra", "begun", "tools", "schema", "choices")
)


class Amendments:
    """Options by ``CALL.option``; CALL is an address or a pattern, ``model`` an option too.

    ``given`` are those that each call got. Raises ``InvalidOption``.
    """

    def __init__(self, sets: Mapping[str, Any] | None = None) -> None:
        self.sets = dict(sets or {})
        self._parts = [(*_split(key), value) for key, value in self.sets.items()]
        self.options_by_call: dict[str, dict[str, Any]] = {}

    @classmethod
    def of(cls, trace: Trace, more: Mapping[str, object] | None = None) -> Amendments:
        """Those that *trace* was recorded with, and *more*."""
        recorded = trace.header.get(HEADER)
        earlier = dict(recorded) if isinstance(recorded, Mapping) else {}
        return cls({**{str(key): value for key, value in earlier.items()}, **(more or {})})

    def apply(self, call: Call) -> None:
        """Set the options of *call*, which is about to become a request."""
        for pattern, name, value in self._parts:
            if matches(pattern, call.address):
                self.options_by_call.setdefault(call.address, {})[name] = value
                _set(call, name, value)


def matches(pattern: str, address: str) -> bool:
    """True if *address* matches *pattern*, in which ``*`` and ``?`` stand for other characters."""
    return fnmatch.fnmatchcase(address, pattern) or fnmatch.fnmatchcase(address, f"/{pattern}")


def _split(key: str) -> tuple[str, str]:
    pattern, _, name = key.rpartition(".")
    if not pattern or not name:
        raise InvalidOption(f"write CALL.option=value, as in '*.temperature=0.2'; got {key!r}")
    return pattern, name


def _set(call: Call, name: str, value: Any) -> None:
    options = (*_OPTIONS, "model", *sorted(call.profile.options))
    if name not in options:
        there = f"(there are: {', '.join(options)})"
        raise InvalidOption(f"there is no option {name!r} to set{nearest(name, options)} {there}")
    if name == "model":
        call.model = call.run.dispatch.models.resolve(value).name or ""
        return
    if name == "stop" and isinstance(value, str):
        value = (value,)
    fields: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value}
    if name not in _OPTIONS:
        fields = {"extra": tuple(sorted((dict(call.sampling.extra) | {name: value}).items()))}
    call.sampling = dataclasses.replace(call.sampling, **fields)
