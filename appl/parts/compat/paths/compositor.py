"""The import path ``appl.compositor`` of programs for APPL 0.2; see ``appl.parts.compat``."""

from appl.parts.compat.compositor import *  # noqa: F403
