"""The import path ``appl.func`` of programs for APPL 0.2; see ``appl.compat``."""

from appl.compat.func import *  # noqa: F403
