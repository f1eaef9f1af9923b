"""A folder with a command line in it, and the file in which paid answers are counted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from appl.tracing import Trace
from tests.cli.conftest import Project, project as project

from .paying import BACKEND, PAID, paid

Bill = Callable[[], int]


def outermost(project: Project, module: str) -> list[str]:
    """The names of the runs of the program in *module* that are inside of no other run."""
    paths = [path for path in project.traces if f"-{module}-" in path.name]
    return [path.stem for path in paths if "outer" not in Trace.open(path).header]


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
