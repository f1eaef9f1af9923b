"""The key that signs this user's runs, and the list of how they ended.

Invariant: both lie in the user's state folder, outside of every project.
"""

from __future__ import annotations

import contextlib
import secrets
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from appl.config.state import (
    create_private,
    private_identity,
    read_private,
    state_folder,
)
from appl.errors import ConfigError, UntrustedTrace
from appl.tracing.format.signing import Owner

if TYPE_CHECKING:
    from appl.tracing.reading.trace import Trace

_KEY, _ENDS = "signing.key", "runs.ended"
_SIZE = 32


def owner() -> Owner | None:
    """The owner of this user's runs; ``None`` before the first. Raises ``ConfigError``."""
    return _owner(read_private(_KEY))


def new_owner() -> Owner:
    """The owner of this user's runs, with a key made at first use. Raises ``ConfigError``."""
    owner = _owner(create_private(_KEY, secrets.token_bytes(_SIZE)))
    assert owner is not None
    return owner


def recording_owner() -> Owner | None:
    """The owner for a recorder, which records without a signature if no key can be kept."""
    identity = private_identity(_KEY)
    with contextlib.suppress(ConfigError):
        return new_owner() if identity is None else _owner_as_of(identity)
    return None


@lru_cache(maxsize=4)
def _owner_as_of(identity: object) -> Owner:
    """The owner, whose key is read again when its file or the folder has changed."""
    return new_owner()


def require_own(path: Path, trust: bool, remedy: str) -> None:
    """Refuse to use the run at *path* unless it is the user's own or *trust* allows it.

    *remedy* says what the user can write to allow it. Raises ``UntrustedTrace``, ``ConfigError``.
    """
    from appl.tracing.format.trust import doubt  # whoever records reads no trace

    reason = None if trust else doubt(path, owner())
    if reason is not None:
        raise UntrustedTrace(
            f"{path} is not one of your own runs: {reason}; if you know where it is from, {remedy}"
        )


def is_own(path: Path) -> bool:
    """True if the run at *path* is the user's own."""
    from appl.tracing.format.trust import doubt

    with contextlib.suppress(ConfigError):
        return doubt(path, owner()) is None
    return False


def is_foreign(trace: Trace) -> bool:
    """True if *trace* holds answers of people and is not the user's own."""
    return any(observation.kind == "answered" for observation in trace.observations) and not is_own(
        trace.path
    )


def _owner(secret: bytes | None) -> Owner | None:
    folder = state_folder()
    if secret is not None and len(secret) != _SIZE:
        raise ConfigError(
            f"{folder / _KEY} is not a key of {_SIZE} bytes; remove it, and a new one is made "
            "(the runs so far then need --trust)"
        )
    return None if secret is None else Owner(secret, folder / _ENDS)
