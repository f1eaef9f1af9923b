"""The version of the installed package."""

from __future__ import annotations

from functools import cache

from appl.late import late_import


@cache
def version() -> str:
    """The installed version of appl, ``source`` for a checkout that is not installed."""
    metadata = late_import("importlib.metadata")
    try:
        return str(metadata.version("appl"))
    except metadata.PackageNotFoundError:
        return "source"
