"""The state folder is the user's own and lies outside of every project."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

import pytest

from appl.config.state import (
    private_names,
    read_private,
    remove_private,
    state_folder,
    write_private,
)
from appl.errors import ConfigError

posix = pytest.mark.skipif(sys.platform == "win32", reason="modes and owners are those of POSIX")


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder of state beside the working directory."""
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "state"))
    return tmp_path / "state" / "appl"


def test_what_was_written_is_read_and_removed(state: Path) -> None:
    write_private("trust/one", b"1")
    write_private("trust/one", b"2")
    assert read_private("trust/one") == b"2"
    assert private_names("trust") == ["trust/one"]
    assert remove_private("trust/one") and not remove_private("trust/one")
    assert read_private("trust/one") is None and private_names("trust") == []


def test_reading_makes_no_folder(state: Path) -> None:
    assert read_private("key") is None and private_names("trust") == []
    assert not state.exists()


@posix
def test_files_and_folders_are_for_their_owner_only(state: Path) -> None:
    old = os.umask(0)
    try:
        write_private("trust/one", b"1")
    finally:
        os.umask(old)
    modes = {path: stat.S_IMODE(path.stat().st_mode) for path in (state, *state.rglob("*"))}
    assert modes == {state: 0o700, state / "trust": 0o700, state / "trust/one": 0o600}


@posix
@pytest.mark.parametrize("mode", [0o770, 0o707, 0o777])
def test_a_folder_that_others_may_write_to_is_refused(state: Path, mode: int) -> None:
    write_private("key", b"mine")
    state.chmod(mode)
    with pytest.raises(ConfigError, match="others may write"):
        read_private("key")
    with pytest.raises(ConfigError, match="others may write"):
        write_private("key", b"mine")


def test_a_folder_inside_of_the_project_is_refused(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(Path.cwd() / "state"))
    monkeypatch.setenv("LOCALAPPDATA", str(Path.cwd() / "state"))
    with pytest.raises(ConfigError, match="inside of the project"):
        state_folder()


def test_a_link_into_the_project_is_refused(state: Path) -> None:
    (Path.cwd() / "planted").mkdir()
    state.parent.mkdir()
    state.symlink_to(Path.cwd() / "planted")
    with pytest.raises(ConfigError, match="inside of the project"):
        read_private("key")


def test_a_folder_below_the_repository_is_refused_from_its_depth(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(Path(__file__).parent))
    (state.parents[1] / ".git").mkdir()
    with pytest.raises(ConfigError, match="inside of the project"):
        state_folder()


def test_a_repository_that_holds_the_home_folder_is_allowed(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = state.parents[1]
    (home / ".git").mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("USERPROFILE", str(home))
    assert state_folder().is_relative_to(home)


@posix
def test_a_relative_variable_counts_as_unset(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "state")
    monkeypatch.setenv("HOME", str(state.parents[1]))
    assert state_folder() == state.parents[1] / ".local/state/appl"


@posix
def test_a_folder_that_cannot_be_made_is_an_error_of_configuration(state: Path) -> None:
    state.parent.write_text("no folder")
    with pytest.raises(ConfigError, match="cannot be written"):
        write_private("key", b"mine")
