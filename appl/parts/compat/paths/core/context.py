"""The import path ``appl.core.context`` of programs for APPL 0.2."""

from __future__ import annotations

from appl.parts.compat.types import *  # noqa: F403
