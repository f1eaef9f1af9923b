"""The import path ``appl.core.io`` of programs for APPL 0.2."""

from __future__ import annotations

from appl.parts.compat.files import *  # noqa: F403
