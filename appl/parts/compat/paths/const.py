"""The import path ``appl.const`` of programs for APPL 0.2; see ``appl.parts.compat``."""

from appl.parts.compat.const import *  # noqa: F403
