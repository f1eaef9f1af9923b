"""Another path of ``appl.compat.compositor``, the one that programs for APPL 0.2 import."""

from appl.compat.compositor import *  # noqa: F403
