"""An environment with the built wheel, and someone in an empty folder who works with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from .place import Newcomer, installed


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return installed(tmp_path_factory.mktemp("wheel"))


@pytest.fixture
def newcomer(tmp_path: Path, programs: Path) -> Newcomer:
    (tmp_path / "empty").mkdir()
    return Newcomer(tmp_path / "empty", programs)
