"""An environment with the built wheel, and someone in an empty folder who works with it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from .place import SCRIPTS, Newcomer, installed


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return installed(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="session")
def loaded(programs: Path) -> Iterator[Path]:
    """The folder of the same programs, each of which runs in a fork that has loaded the wheel."""
    # This folder is on the path of tests, not of those who import this file.
    from warm import PYTEST, warm_python

    words = {name: [str(programs / name)] for name in ("appl", *SCRIPTS)}
    words["pytest"] += PYTEST
    with tempfile.TemporaryDirectory(prefix="appl-") as folder:
        python = str(programs / "python")
        with warm_python(Path(folder), python, {"python": [], **words}, {}) as found:
            yield found


@pytest.fixture
def starter(tmp_path: Path, programs: Path) -> Newcomer:
    """Someone whose commands are processes of their own from the beginning."""
    (tmp_path / "empty").mkdir()
    return Newcomer(tmp_path / "empty", programs)


@pytest.fixture
def newcomer(tmp_path: Path, loaded: Path) -> Newcomer:
    (tmp_path / "empty").mkdir()
    return Newcomer(tmp_path / "empty", loaded)
