"""The import path ``appl.types`` of programs for APPL 0.2; see ``appl.parts.compat``."""

from appl.parts.compat.types import *  # noqa: F403
