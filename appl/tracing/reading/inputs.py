"""The inputs of a run besides answers: its program, its arguments, its settings.

Invariant: only facts that can change what a run does count as differences, not the place or the way
in which it was recorded.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Literal

from appl.tracing.reading.documents import jsonable

_UNRELATED = frozenset(
    {"home", "trace", "durability", "on_trace_error", "stream", "concurrency", "model", "backend"}
)
"""Settings that change nothing in what is asked, and two that the header holds as they took
effect."""


@dataclass(frozen=True, slots=True)
class Head:
    """Something that the headers of two runs do not agree about."""

    kind: Literal["program", "settings"]
    name: str
    a: str | None
    b: str | None

    @property
    def how(self) -> Literal["changed", "added", "removed"]:
        """The kind of difference: ``changed``, ``added`` or ``removed`` in the second run."""
        return "added" if self.a is None else "removed" if self.b is None else "changed"

    @property
    def decides(self) -> bool:
        """True if it may make the program do something else by itself."""
        return self.kind == "program"

    def sets(self, name: str) -> bool:
        """True if it explains that the setting *name* of a call differs."""
        own = self.name.removeprefix("setting ")
        if name == "model":
            return self.kind == "settings" and own.partition(".")[0] in (
                "model",
                "models",
                "backend",
            )
        return self.kind == "settings" and (own == name or own.endswith("." + name))


def differences(a: Mapping[str, object], b: Mapping[str, object]) -> Iterator[Head]:
    """The differences between the headers *a* and *b*: program first."""
    a, b = jsonable(a), jsonable(b)
    yield from _heads("program", _programs(a), _programs(b))
    yield from _heads("program", _entry(a), _entry(b))
    settings = _settings(a), _settings(b)
    if a.get("seed") is not None and a.get("seed") == b.get("seed"):
        for each in settings:  # a rerun is given the seed that the run before it had drawn
            each.pop("setting seed", None)
    yield from _heads("settings", *settings)


def _heads(
    kind: Literal["program", "settings"], a: dict[str, str], b: dict[str, str]
) -> Iterator[Head]:
    for name in {**a, **b}:
        if a.get(name) != b.get(name):
            yield Head(kind, name, a.get(name), b.get(name))


def _programs(header: Mapping[str, object]) -> dict[str, str]:
    """The digests of the program's files, by their paths below the folder where it was run."""
    entry, digests = header.get("entry"), header.get("programs")
    base = entry.get("directory") if isinstance(entry, dict) else None
    if not isinstance(digests, dict):
        return {}
    return {f"file {_below(str(path), base)}": str(digest) for path, digest in digests.items()}


def _below(path: str, base: object) -> str:
    if isinstance(base, str) and PurePath(path).is_relative_to(base):
        return str(PurePath(path).relative_to(base))
    return path


def _entry(header: Mapping[str, object]) -> dict[str, str]:
    entry = header.get("entry")
    if not isinstance(entry, dict):
        return {"program": str(header.get("program"))}
    words: list[str] = []  # without the run's own options, whose effect is among the settings
    skip = False
    for word in map(str, entry.get("argv") or ()):
        if skip:
            skip = False
        elif word in _OPTIONS:
            skip = True
        elif word.partition("=")[0] not in _OPTIONS and word not in _SWITCHES:
            words.append(word)
    facts = {"arguments": json.dumps(words)} if words else {}
    if entry.get("file"):
        file = _below(str(entry["file"]), entry.get("directory"))
        facts["program"] = f"{file}:{entry.get('function') or ''}"
    return facts


_OPTIONS = frozenset(
    "--backend --model --concurrency --seed --temperature --max-tokens --top-p --stop --home "
    "--trace".split()
)
_SWITCHES = frozenset({"--json", "--no-trace", "--stream", "--quiet"})


def _settings(header: Mapping[str, object]) -> dict[str, str]:
    settings = header.get("settings")
    options_by_name = {
        f"setting {name}": json.dumps(jsonable(value), sort_keys=True, default=str)
        for name, value in (settings.items() if isinstance(settings, dict) else ())
        if name not in _UNRELATED
    }
    for name in ("backend", "model"):
        if header.get(name) is not None:
            options_by_name[name] = str(header[name])
    versions = header.get("versions")
    if isinstance(versions, dict):
        options_by_name |= {f"version of {name}": str(value) for name, value in versions.items()}
    return options_by_name
