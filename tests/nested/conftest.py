"""A folder with a command line in it, and the file in which paid answers are counted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Project, project as project

from .paying import BACKEND, PAID, paid

Bill = Callable[[], int]


@pytest.fixture
def bill(project: Project, monkeypatch: pytest.MonkeyPatch) -> Bill:
    """Tells how many answers were paid in the project's folder, by whatever process."""
    monkeypatch.setenv(PAID, str(project.folder / "paid"))
    monkeypatch.setenv("APPL_BACKEND", BACKEND)
    return lambda: len(paid())


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for traces, and the backend that counts, for programs in this process."""
    monkeypatch.setenv(PAID, str(tmp_path / "paid"))
    monkeypatch.setenv("APPL_BACKEND", BACKEND)
    monkeypatch.setenv("APPL_HOME", str(tmp_path / "home"))
    return tmp_path
