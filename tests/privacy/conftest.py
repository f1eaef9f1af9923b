"""A folder with programs, and what a trace holds as bytes."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from appl.tracing.format import block
from tests.cli.conftest import Project, project as _project

sys.path.insert(0, str(Path(__file__).parents[1] / "tracing"))

__all__ = ["Project", "project"]

project = _project


def raw(path: Path) -> bytes:
    """All that the trace at *path* says, decompressed."""
    with path.open("rb") as file:
        return b"".join(block.scan(file, block.Scan()))


def holds(path: Path, text: str) -> bool:
    """Whether *text* is anywhere in the trace, plain or as JSON."""
    found = raw(path)
    forms = {text, json.dumps(text)[1:-1]}
    return any(form.encode("utf-8", "surrogatepass") in found for form in forms)


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Path]:
    """An empty folder, which is the working directory: its ``.appl`` holds the keys."""
    with contextlib.chdir(tmp_path):
        yield tmp_path
