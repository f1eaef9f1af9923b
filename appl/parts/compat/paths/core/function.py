"""The import path ``appl.core.function`` of programs for APPL 0.2."""

from __future__ import annotations

from appl.parts.compat.func import *  # noqa: F403
