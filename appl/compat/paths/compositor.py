"""The import path ``appl.compositor`` of programs for APPL 0.2; see ``appl.compat``."""

from appl.compat.compositor import *  # noqa: F403
