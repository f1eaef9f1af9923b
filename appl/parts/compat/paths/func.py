"""The import path ``appl.func`` of programs for APPL 0.2; see ``appl.parts.compat``."""

from appl.parts.compat.func import *  # noqa: F403
