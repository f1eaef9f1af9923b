"""The import path ``appl.core.modifiers`` of programs for APPL 0.2."""

from __future__ import annotations

from appl.parts.compat.compositor import *  # noqa: F403
