"""The version of the installed package."""

from __future__ import annotations

from functools import cache


@cache
def version() -> str:
    """The installed version of appl, ``source`` for a checkout that is not installed."""
    from importlib import metadata  # only to find backends of other packages, and our version

    try:
        return str(metadata.version("appl"))
    except metadata.PackageNotFoundError:
        return "source"
