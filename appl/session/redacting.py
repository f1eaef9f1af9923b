"""The function, named in the settings, that changes messages before they are stored.

Invariant: a name that leads to no function is an error before anything is asked, never ignored.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, cast

from appl.errors import ConfigError

if TYPE_CHECKING:
    from appl.tracing.recording.privacy import Redact


def function_named(written: str) -> Redact:
    """The function that *written* (``module:function``) names. Raises ``ConfigError``."""
    module, _, name = written.partition(":")
    if not module or not name:
        raise ConfigError(f"redact must be 'module:function', got {written!r}")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)
    try:
        target: object = importlib.import_module(module)
        for part in name.split("."):
            target = getattr(target, part)
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"redact = {written!r} cannot be used: {error}") from None
    if not callable(target):
        raise ConfigError(f"redact = {written!r} names {target!r:.60}, which cannot be called")
    return cast("Redact", target)
