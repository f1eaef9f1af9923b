"""Signatures as a run is written: after faults, crashes and a resume, and without a key."""

from __future__ import annotations

import errno
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import appl
from appl.config.state import create_private, read_private, state_folder
from appl.errors import ConfigError, TraceWriteError
from appl.session.ownership import is_own, new_owner, owner, recording_owner
from appl.tracing import Owner, salvage
from appl.tracing.format import codec, doubt
from appl.tracing.format.block_file import signature
from appl.tracing.recording import Writer
from tests.trust import forging

SIGNED = 16
"""Bytes of a signature, as docs/trace-format.md has it; those before the first block are zero."""


@pytest.fixture
def mine(tmp_path: Path) -> Owner:
    return Owner(bytes(32), tmp_path / "ends")


def write(path: Path, mine: Owner | None, count: int = 5, *, end: bool = True) -> None:
    """Add *count* blocks to the trace at *path*."""
    writer = Writer(path, append=path.exists(), durability="process", owner=mine)
    for number in range(count):
        writer.append(codec.pack([number]))
        writer.barrier()
    writer.close()
    if end:
        writer.file.note_end()


def test_every_block_is_signed_as_it_is_written(tmp_path: Path, mine: Owner) -> None:
    path = tmp_path / "a.trace"
    writer = Writer(path, durability="process", owner=mine)
    for number in range(5):
        writer.append(codec.pack([number]))
        writer.barrier()
        assert doubt(path, mine) is None
    writer.close()
    assert len(forging.stored(path)) == 5


def test_signatures_go_on_after_a_crash_with_what_is_intact(tmp_path: Path, mine: Owner) -> None:
    path = tmp_path / "a.trace"
    write(path, mine, end=False)
    whole = path.read_bytes()
    for torn in (b"", b"\x00", os.urandom(200)):
        path.write_bytes(whole + torn)
        assert doubt(path, mine) is None
        write(path, mine)
        assert doubt(path, mine) is None and len(forging.stored(path)) == 10
        mine.ends.unlink()
    data = path.read_bytes()
    for size in range(len(forging.written(forging.stored(path)[:-1])), len(data)):
        path.write_bytes(data[:size])
        assert doubt(path, mine) is None


def test_signatures_go_on_after_a_fault_of_the_disk(tmp_path: Path, mine: Owner) -> None:
    path, faults = tmp_path / "a.trace", [3, 4]
    written = 0

    def full(point: str) -> None:
        nonlocal written
        if point == "inside-write":
            written += 1
            if written in faults:
                raise OSError(errno.ENOSPC, "No space left on device")

    writer = Writer(path, durability="process", owner=mine, fault=full)
    for number in range(3):
        writer.append(codec.pack([number]))
        if number < 2:
            writer.barrier()
        else:
            with pytest.raises(TraceWriteError):
                writer.barrier()
    faults.clear()
    writer.close()
    assert doubt(path, mine) is None and len(forging.stored(path)) == 3


def test_what_is_added_to_a_strangers_run_makes_it_no_run_of_ones_own(
    tmp_path: Path, mine: Owner
) -> None:
    path = tmp_path / "a.trace"
    for theirs in (None, Owner(forging.THEIR_KEY, tmp_path / "their-ends")):
        path.unlink(missing_ok=True)
        write(path, theirs)
        write(path, mine)
        assert doubt(path, mine) is not None
        assert len(forging.stored(path)) == 10


def test_a_copy_that_goes_on_is_ones_own_beside_the_other(tmp_path: Path, mine: Owner) -> None:
    one, two = tmp_path / "one.trace", tmp_path / "two.trace"
    write(one, mine)
    salvage(one, two)
    for path in (one, two):
        write(path, mine, 2)
        assert doubt(path, mine) is None


def test_a_torn_entry_in_the_list_of_ends_hides_no_other(tmp_path: Path, mine: Owner) -> None:
    write(tmp_path / "a.trace", mine)
    with mine.ends.open("ab") as file:
        file.write(b"torn")
    write(tmp_path / "b.trace", mine, 7)
    for name in ("a.trace", "b.trace"):
        path = tmp_path / name
        assert doubt(path, mine) is None
        path.write_bytes(next(forging.cut(path)))
        assert doubt(path, mine) == "its end was cut off"


def test_a_signature_depends_on_the_key_the_one_before_the_head_and_the_content() -> None:
    parts = (bytes(32), bytes(SIGNED), b"head", b"content")
    first = signature(*parts)
    assert len(first) == SIGNED and first == signature(*parts)
    for at in range(len(parts)):
        others = [part + b"x" if i == at else part for i, part in enumerate(parts)]
        others[1] = bytes([1]) * SIGNED if at == 1 else bytes(SIGNED)
        assert signature(*others) != first


def test_processes_that_begin_at_once_have_one_key() -> None:
    with ThreadPoolExecutor(8) as pool:
        keys = set(pool.map(lambda number: create_private("a.key", bytes([number])), range(64)))
    assert len(keys) == 1 and {read_private("a.key")} == keys


def test_the_key_is_made_at_first_use_and_for_its_user_only() -> None:
    assert owner() is None
    first = new_owner()
    assert owner() == first == new_owner()
    assert (state_folder() / "signing.key").stat().st_mode & 0o777 == 0o600
    assert repr(first.secret) not in repr(first)


@appl.ppl
def ask() -> object:
    "What?"
    return appl.gen()


def test_a_run_without_a_state_folder_is_recorded_and_not_signed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    assert recording_owner() is None
    with appl.record(tmp_path / "a.trace", backend="appl.testing:Echo"):
        str(ask())
    assert doubt(tmp_path / "a.trace", None) == "it is not signed"
    assert not is_own(tmp_path / "a.trace")


def test_what_is_no_key_is_an_error_when_a_run_is_used(tmp_path: Path) -> None:
    create_private("signing.key", b"short")
    with appl.record(tmp_path / "a.trace", backend="appl.testing:Echo"):
        str(ask())
    with pytest.raises(ConfigError, match="is not a key of 32 bytes; remove it"):
        owner()
    assert not is_own(tmp_path / "a.trace")
