"""What a process keeps from one run to the next is dropped when its source changes."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Protocol

import pytest

from appl import config
from appl.backend import CountsTokens, PrefixCaching, offers
from appl.errors import ConfigError
from appl.session.backend_setup import memoized
from appl.session.entry import Entry, git_commit, program_digests
from appl.session.ownership import recording_owner
from appl.tracing import Masker


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".git").mkdir()
    return tmp_path


def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let some time pass, after which files count as settled."""
    now = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: now() + 10**10)


def test_the_same_settings_come_back_until_a_file_changes(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "appl.toml").write_text("temperature = 0.5")
    settled(monkeypatch)
    first = config.load()
    assert first.temperature == 0.5 and config.load() is first
    (folder / "appl.toml").write_text("temperature = 0.7")
    assert config.load().temperature == 0.7
    (folder / "appl.toml").unlink()
    assert config.load().temperature is None


def test_a_settings_file_that_appears_nearer_is_found(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "appl.toml").write_text("temperature = 0.5")
    below = folder / "below"
    below.mkdir()
    os.utime(below, ns=(0, 0))  # long ago: its names are looked at once
    monkeypatch.chdir(below)
    settled(monkeypatch)
    assert config.load().temperature == 0.5
    (below / "appl.toml").write_text("temperature = 0.1")
    assert config.load().temperature == 0.1


@pytest.mark.parametrize(
    "change",
    [
        lambda patch: patch.setenv("APPL_TEMPERATURE", "0.3"),
        lambda patch: config.init(temperature=0.3),
    ],
    ids=["environment", "init"],
)
def test_settings_follow_the_environment_and_init(
    folder: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[pytest.MonkeyPatch], None]
) -> None:
    assert config.load().temperature is None
    change(monkeypatch)
    try:
        assert config.load().temperature == 0.3
    finally:
        config.init(temperature=None)


def test_settings_whose_approval_is_taken_back_are_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "appl.toml").write_text('otel = "https://elsewhere.example/"')
    monkeypatch.setenv("APPL_TRUST", str(folder))
    settled(monkeypatch)
    assert config.load().otel
    monkeypatch.delenv("APPL_TRUST")
    with pytest.raises(ConfigError, match="approval"):
        config.load()


def test_a_run_is_signed_with_the_key_that_lies_there_now(
    folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
    recording_owner()
    first = recording_owner()
    assert first is not None and recording_owner() is first
    first.ends.with_name("signing.key").unlink()
    second = recording_owner()
    assert second is not None and second.key != first.key
    first.ends.parent.chmod(0o777)
    assert recording_owner() is None


def test_a_module_that_is_loaded_later_is_among_the_programs(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = Entry("api", str(folder / "main.py"))
    (folder / "main.py").write_text("a = 1")
    (folder / "beside.py").write_text("b = 1")
    before = program_digests(entry)
    module = ModuleType("beside_of_this_test")
    module.__file__ = str(folder / "beside.py")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    after = program_digests(entry)
    assert [*before] == [str(folder / "main.py")]
    assert [*after] == [str(folder / "beside.py"), str(folder / "main.py")]
    (folder / "main.py").write_text("a = 2")
    assert program_digests(entry)[str(folder / "main.py")] != before[str(folder / "main.py")]


def test_the_commit_is_read_again_when_it_changes(folder: Path) -> None:
    heads, tree = folder / ".git/refs/heads", folder / "tree"
    linked = folder / ".git/worktrees/tree"
    for made in (heads, tree, linked):
        made.mkdir(parents=True)
    (folder / ".git/HEAD").write_text("ref: refs/heads/main\n")
    (heads / "main").write_text("a" * 40 + "\n")
    (tree / ".git").write_text("gitdir: ../.git/worktrees/tree\n")
    (linked / "HEAD").write_text("ref: refs/heads/side\n")
    (linked / "commondir").write_text("../..\n")
    (folder / ".git/packed-refs").write_text("c" * 40 + " refs/heads/side\n")
    for file in (folder / ".git/HEAD", heads / "main", linked / "HEAD"):
        os.utime(file, (0, 0))  # long ago
    for _ in range(2):
        assert (git_commit(str(folder)), git_commit(str(tree))) == ("a" * 40, "c" * 40)
    (heads / "main").write_text("b" * 40 + "\n")
    (linked / "HEAD").write_text("d" * 40 + "\n")
    assert (git_commit(str(folder)), git_commit(str(tree))) == ("b" * 40, "d" * 40)


def test_a_secret_that_comes_into_the_environment_is_masked_in_the_next_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert Masker().text("is hunter2hunter2 known?", []) == "is hunter2hunter2 known?"
    monkeypatch.setenv("SOME_API_KEY", "hunter2hunter2")
    assert Masker().text("is hunter2hunter2 known?", []) == "is [secret SOME_API_KEY] known?"
    monkeypatch.delenv("SOME_API_KEY")
    assert "hunter2" in Masker().text("is hunter2hunter2 known?", [])


def test_results_are_kept_for_the_same_objects_only() -> None:
    made: list[object] = []

    @memoized
    def make(value: list[int], name: str) -> int:
        made.append(value)
        return len(made)

    one, equal = [1], [1]
    assert [make(one, "a"), make(one, "a"), make(equal, "a"), make(one, "b")] == [1, 1, 2, 3]
    for number in range(100):
        make([number], "a")
    assert make(one, "a") == 104


class _Half:
    cache_tokens = None

    def prompt_tokens(self, request: object) -> list[int]:
        return []


class _Passing:
    def __init__(self, inner: object) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)


class _Counts(Protocol):
    def count_tokens(self, text: str) -> int: ...


class _Whole(_Half, _Counts):
    async def warm(self, request: object, tokens: int) -> None:
        """Do nothing."""

    def count_tokens(self, text: str) -> int:
        return 0


def test_a_value_offers_a_protocol_if_it_has_all_its_members() -> None:
    half, whole = _Half(), _Whole()
    assert not offers(half, PrefixCaching) and not offers(half, CountsTokens)
    assert offers(whole, PrefixCaching) and offers(_Passing(whole), CountsTokens)
    without = _Whole()
    without.warm = None  # type: ignore[assignment,method-assign]
    assert not offers(without, PrefixCaching)
