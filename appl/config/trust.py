"""The user's approval of a project's settings, kept outside of every project.

A file is approved by its path and its digest: a changed file, or a copy elsewhere, needs approval
again. The file in the home folder, and files below the folders in ``APPL_TRUST``, need none.

Invariant: what lacks a needed approval is never used. A server of APPL's layout that lacks one is
an error where its backend would be made, so that a program that does not ask it runs; anything else
is an error before anything is done with its file.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from appl.config.classes import RestrictedSetting, needs
from appl.config.files import SettingsFile
from appl.config.layout import of_today
from appl.config.places import line_of
from appl.config.state import private_names, read_private, read_table, remove_private, write_private
from appl.config.values import SECRET_PARTS
from appl.errors import ConfigError
from appl.prompt.secret import MASK, is_likely

VARIABLE = "APPL_TRUST"
_FOLDER = "trust"
_SHOWN, _LONGEST = 10, 400


@dataclass(frozen=True, slots=True)
class ApprovalRequest:
    """A setting that needs approval, as users see it: without secrets and control characters."""

    place: str
    key: str
    value: str
    why: str
    keys: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.place}: {self.key} = {self.value}  ({self.why})"


def unapproved(file: SettingsFile) -> Mapping[str, str]:
    """The servers of *file*, in APPL's layout, that lack a needed approval.

    Each with what to tell who asks it: APPL's files list servers that a program may never name.
    Raises ``ConfigError`` if another setting lacks one.
    """
    findings = requests(file)
    if not findings or trusted_by(file) is not None:
        return {}
    by_server: dict[str, list[ApprovalRequest]] = {}
    own = file.table.get("backends")
    for request in findings:
        kind, name, *_ = (*request.keys, "")
        if kind != "backends" or (isinstance(own, Mapping) and name in own):
            raise ConfigError(_needed(file, findings))
        by_server.setdefault(name, []).append(request)
    return {name: _needed(file, needs) for name, needs in by_server.items()}


def _needed(file: SettingsFile, findings: list[ApprovalRequest]) -> str:
    """The settings in *file* that need approval, and the way to give it."""
    lines = [str(finding) for finding in findings[:_SHOWN]]
    if len(findings) > _SHOWN:
        lines.append(f"and {len(findings) - _SHOWN} more")
    folder = shlex.quote(_safe(str(file.path.parent)))
    return (
        f"{_safe(str(file.path))} holds settings that need your approval:\n    "
        + "\n    ".join(lines)
        + f"\n  if you know who wrote them, type `appl trust {folder}` (in CI, set {VARIABLE} to "
        "the folder); else remove them"
    )


def requests(file: SettingsFile) -> list[ApprovalRequest]:
    """The settings in *file* that need approval."""
    settings, _ = of_today(file.table, str(file.path))
    return [_request(file, setting) for setting in needs(settings, file.path.parent)]


def trusted_by(file: SettingsFile) -> str | None:
    """The reason why *file* is trusted: ``home``, ``APPL_TRUST``, ``approval`` or ``None``."""
    if file.path.parent == _home():
        return "home"
    words = [word for word in os.environ.get(VARIABLE, "").split(os.pathsep) if word]
    folders = [Path(word).expanduser() for word in words]
    for folder in folders:
        if not folder.is_absolute():
            raise ConfigError(
                f"{VARIABLE} lists folders by their whole paths, separated by {os.pathsep!r}; got "
                f"{str(folder)!r}"
            )
    if any(file.path.is_relative_to(folder.resolve()) for folder in folders):
        return VARIABLE
    return "approval" if read_private(_name(file)) is not None else None


def approve(file: SettingsFile) -> None:
    """Store the user's approval of *file* as it was read."""
    entry = {"file": str(file.path), "digest": file.digest}
    write_private(_name(file), json.dumps(entry).encode())


def approvals() -> list[Mapping[str, Any]]:
    """All approvals, each with its ``file`` and its ``digest``."""
    return [entry for _, entry in _entries()]


def forget(folder: Path) -> list[str]:
    """Take back all approvals of files in *folder*; return those files."""
    real = folder.resolve()
    approvals = [(name, entry["file"]) for name, entry in _entries()]
    gone = [(name, file) for name, file in approvals if Path(file).parent == real]
    return sorted({file for name, file in gone if remove_private(name)})


def _entries() -> Iterator[tuple[str, Mapping[str, Any]]]:
    for name in private_names(_FOLDER):
        entry = read_table(name)
        if isinstance(entry.get("file"), str) and isinstance(entry.get("digest"), str):
            yield name, entry


def _name(file: SettingsFile) -> str:
    """The name of the stored approval of *file* as it was read."""
    identity = f"{file.path}\0{file.digest}".encode("utf-8", "surrogateescape")
    return f"{_FOLDER}/{hashlib.sha256(identity).hexdigest()}"


def _home() -> Path | None:
    try:
        return Path.home().resolve()
    except (OSError, RuntimeError):
        return None


# -- what users are shown


def _request(file: SettingsFile, need: RestrictedSetting) -> ApprovalRequest:
    before = ("tool", "appl") if file.path.name == "pyproject.toml" else ()
    suffix = file.path.suffix
    line = max(line_of(file.text, suffix, *before, *keys) for keys in _written(file, need.keys))
    place = _safe(str(file.path)) + (f":{line}" if line else "")
    return ApprovalRequest(place, _safe(".".join(need.keys)), _value(need), need.why, need.keys)


def _written(file: SettingsFile, keys: tuple[str, ...]) -> list[tuple[str, ...]]:
    """The spellings of *keys* in the file: a backend may stand in APPL's ``servers``."""
    servers = file.table.get("servers")
    if keys[0] != "backends" or not isinstance(servers, Mapping):
        return [keys]
    own = keys[1].removesuffix("-server")
    at = [n for n in servers if str(n).replace("/", "-").replace(":", "-") in (keys[1], own)]
    return [keys, *(("servers", str(n), *keys[2:]) for n in at)]


def _value(need: RestrictedSetting) -> str:
    """The value without secrets, in ASCII, so that no letter looks like another one."""
    shown = ascii(_masked(need.keys[-1], need.value))
    cut = f"{shown[:_LONGEST]}… ({len(shown)} characters)"
    return shown if len(shown) <= _LONGEST else cut


def _masked(key: str, value: object) -> object:
    if isinstance(value, Mapping) and set(value) == {"env"}:
        return dict(value)
    if isinstance(value, Mapping):
        secret = key in ("headers", "extra_headers")
        return {key: MASK if secret else _masked(str(key), part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_masked(key, part) for part in value]
    if isinstance(value, str):
        from appl.prompt.key_masking import without_keys  # only a question for approval shows it

        shown = without_keys(SECRET_PARTS.sub(MASK, value), lambda kind: MASK)
        return MASK if is_likely(key) else shown
    return value


def _safe(text: str) -> str:
    """*text* without characters that act on a terminal."""
    return text if text.isprintable() else ascii(text)[1:-1]
