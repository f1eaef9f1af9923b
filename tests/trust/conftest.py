"""A user who trusts nobody yet: no ``APPL_TRUST``, an empty state folder, an empty home folder."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def stranger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stranger's folder as the working directory; its path."""
    for name in ("home", "stranger"):
        (tmp_path / name).mkdir()
    monkeypatch.delenv("APPL_TRUST", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path / "stranger")
    return tmp_path / "stranger"
