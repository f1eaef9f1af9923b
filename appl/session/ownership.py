"""The key with which the runs of this user are signed, and the list of how they ended.

Invariant: both lie in the user's state folder, outside of every project.
"""

from __future__ import annotations

import contextlib
import secrets
from pathlib import Path

from appl.config.state import create_private, read_private, state_folder
from appl.errors import ConfigError, UntrustedTrace
from appl.tracing.format.signing import Owner
from appl.tracing.keeping.trust import doubt

_KEY, _ENDS = "signing.key", "runs.ended"
_SIZE = 32


def owner() -> Owner | None:
    """The owner of the runs of this user; ``None`` before the first. Raises ``ConfigError``."""
    return _owner(read_private(_KEY))


def new_owner() -> Owner:
    """The same, with a key that is made at first use. Raises ``ConfigError``."""
    found = _owner(create_private(_KEY, secrets.token_bytes(_SIZE)))
    assert found is not None
    return found


def recording_owner() -> Owner | None:
    """The same for a recorder, which records without a signature where no key can be kept."""
    with contextlib.suppress(ConfigError):
        return new_owner()
    return None


def require_own(path: Path, trust: bool, remedy: str) -> None:
    """Refuse to use the run at *path* unless it is the user's own, or *trust* says so.

    *remedy* says what to write for it. Raises ``UntrustedTrace``, ``ConfigError``.
    """
    reason = None if trust else doubt(path, owner())
    if reason is not None:
        raise UntrustedTrace(
            f"{path} is not one of your own runs: {reason}; if you know where it is from, {remedy}"
        )


def is_own(path: Path) -> bool:
    """Whether the run at *path* is the user's own."""
    with contextlib.suppress(ConfigError):
        return doubt(path, owner()) is None
    return False


def _owner(secret: bytes | None) -> Owner | None:
    folder = state_folder()
    if secret is not None and len(secret) != _SIZE:
        raise ConfigError(
            f"{folder / _KEY} is not a key of {_SIZE} bytes; remove it, and a new one is made "
            "(the runs so far then need --trust)"
        )
    return None if secret is None else Owner(secret, folder / _ENDS)
