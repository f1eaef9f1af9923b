"""Keys of private traces: one a run, in a folder of their own, never in the trace.

Invariant: a key file is readable by its owner alone; what a key has sealed is lost with it.
"""

from __future__ import annotations

import hmac
import os
import re
import secrets
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import Any, TypeVar

from appl.errors import TraceError, TraceWriteError
from appl.tracing.format import block, codec, table
from appl.tracing.format.store import make_folder, regular_file

_R = TypeVar("_R", bound=table.Record)
FOLDER = "keys"
_SIZE = 32
_IDENTITY = re.compile(r"[0-9a-f]{16}")


class RunKey:
    """The secret of one run. ``identity`` names it, and tells nothing about it."""

    def __init__(self, secret: bytes) -> None:
        if len(secret) != _SIZE:
            raise ValueError(f"a run key has {_SIZE} bytes, found {len(secret)}")
        self._digests = self._derived(secret, b"digest")
        self.sealing = self._derived(secret, b"seal")
        self.identity = self._derived(secret, b"identity")[:8].hex()

    def __repr__(self) -> str:
        return f"RunKey({self.identity})"

    @staticmethod
    def _derived(secret: bytes, purpose: bytes) -> bytes:
        return blake2b(b"appl-run-key", key=secret, digest_size=_SIZE, person=purpose).digest()

    def digest(self, digest: bytes) -> bytes:
        """The stand-in for a content *digest* in a private trace: 16 bytes of its HMAC-SHA-256."""
        return hmac.digest(self._digests, digest, "sha256")[:16]


def make(home: Path) -> RunKey:
    """A new key, kept below *home*. Raises ``TraceWriteError``."""
    secret = secrets.token_bytes(_SIZE)
    key = RunKey(secret)
    path = _file(home, key.identity)
    try:
        make_folder(path.parent)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = os.open(path, flags, 0o600)
        with os.fdopen(fd, "wb") as file:
            file.write(secret)
            file.flush()
            os.fsync(fd)
    except OSError as error:
        raise TraceWriteError(f"cannot keep the run key {path}: {error.strerror}") from error
    return key


def find(home: Path, identity: str) -> RunKey | None:
    """The key of that name below *home*, ``None`` when it is not there."""
    if not _IDENTITY.fullmatch(identity):
        return None
    try:
        key = RunKey(_file(home, identity).read_bytes())
    except (OSError, ValueError):
        return None
    return key if key.identity == identity else None


def forget(home: Path, identity: str) -> None:
    """Remove the key of that name."""
    if _IDENTITY.fullmatch(identity):
        _file(home, identity).unlink(missing_ok=True)


def _file(home: Path, identity: str) -> Path:
    return home / FOLDER / f"{identity}.key"


def identity(path: Path) -> str | None:
    """The name of the key of the trace at *path*, ``None`` of one that is not private."""
    header = first_record(path)
    return identity_in(header) if header is not None else None


def identity_in(header: dict[str, object]) -> str | None:
    """The name of the key that *header* gives."""
    privacy = header.get("privacy")
    identity = privacy.get("key") if isinstance(privacy, dict) else None
    return identity if isinstance(identity, str) and _IDENTITY.fullmatch(identity) else None


def first_record(path: Path) -> dict[str, Any] | None:
    """The header of the trace at *path*, ``None`` where there is none that can be read."""
    with suppress(ValueError, TypeError):
        for header in first_records(path, table.HeaderRecord):
            return dict(codec.revive(header.facts, lambda _: ""))
    return None


def first_records(path: Path, kind: type[_R]) -> list[_R]:
    """The records of *kind* in the first block of the trace at *path*, as far as it can be read."""
    records = list[_R]()
    with suppress(TraceError, OSError, ValueError, TypeError, IndexError, KeyError):
        with regular_file(path) as file:
            raw = next(block.scan(file, block.Scan(), salvage=True), b"")
        records += table.chosen(codec.unpack(raw), kind)
    return records
