"""Another path of ``appl.compat.const``, the one that programs for APPL 0.2 import."""

from appl.compat.const import *  # noqa: F403
