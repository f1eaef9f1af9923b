"""Sockets of the tests lie in a folder of their own, with a short name."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from .live import environment


@pytest.fixture(autouse=True)
def home() -> Iterator[Path]:
    """A folder; the sockets are in its ``appl``."""
    made = tempfile.mkdtemp(prefix="ctl", dir="/tmp")
    with environment(APPL_CTL_DIR=f"{made}/appl", XDG_RUNTIME_DIR=made):
        yield Path(made)
    shutil.rmtree(made)
