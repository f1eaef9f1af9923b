"""Another path of ``appl.compat.types``, the one that programs for APPL 0.2 import."""

from appl.compat.types import *  # noqa: F403
