"""The import path ``appl.types`` of programs for APPL 0.2; see ``appl.compat``."""

from appl.compat.types import *  # noqa: F403
