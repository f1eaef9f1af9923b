"""The version of the installed package."""

from __future__ import annotations

import importlib


def version() -> str:
    """The installed version of appl, ``source`` for a checkout that is not installed."""
    metadata = importlib.import_module("importlib.metadata")
    try:
        return str(metadata.version("appl"))
    except metadata.PackageNotFoundError:
        return "source"
