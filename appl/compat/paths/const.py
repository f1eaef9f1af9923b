"""The import path ``appl.const`` of programs for APPL 0.2; see ``appl.compat``."""

from appl.compat.const import *  # noqa: F403
