"""Another path of ``appl.compat.func``, the one that programs for APPL 0.2 import."""

from appl.compat.func import *  # noqa: F403
