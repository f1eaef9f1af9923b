"""Processes see each other by files in the user's state, which end with them however they end."""

from __future__ import annotations

import asyncio
import fcntl
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import inf
from pathlib import Path

import pytest

from appl.session.cache_leases import StoredLease, StoredLeases

SERVER = "gpu.example:30000/secret-path"
HOLDS = f"""
import asyncio, os, sys
from appl.session.cache_leases import StoredLeases

lease = StoredLeases().lease({SERVER!r})
asyncio.run(lease.exchange(7.0))
"""
WAITS = 'print("held", flush=True)\nsys.stdin.read()\n'
FORKS = """
if os.fork() == 0:
    print("held", flush=True)  # by the child, which has forgotten the lease by now
    sys.stdin.read()
    os._exit(0)
sys.stdin.read()
"""
NO_ROOM = "import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))\n"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the leases of a user who has no state yet."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state" / "appl" / "leases"


@contextmanager
def process(code: str) -> Iterator[subprocess.Popen[str]]:
    """Another process, which has done *code* up to its first line and waits for its input."""
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", code], stdin=pipe, stdout=pipe, text=True) as made:
        assert made.stdout is not None and made.stdin is not None
        try:
            assert made.stdout.readline() == "held\n"
            yield made
        finally:
            made.kill()


def exchanged(lease: StoredLease, wanted: float = 1) -> Sequence[float]:
    return asyncio.run(lease.exchange(wanted))


def here(server: str = SERVER) -> StoredLease:
    return StoredLeases().lease(server)


def until_alone(lease: StoredLease) -> None:
    async def looks() -> None:
        async with asyncio.timeout(20):
            while await lease.exchange(1):
                pass

    asyncio.run(looks())


def test_each_says_what_it_wants_and_sees_what_the_others_of_its_server_want() -> None:
    mine, its, elsewhere = here(), here(), here("gpu.example:30001")
    assert exchanged(mine, 5000) == []
    assert exchanged(its, inf) == [5000]
    assert exchanged(mine, 200) == [inf]
    assert exchanged(its, 0) == [200]
    assert exchanged(elsewhere, 3) == []


def test_who_gives_its_lease_back_is_seen_no_more(folder: Path) -> None:
    mine, its = here(), here()
    exchanged(mine)
    exchanged(its)
    its.give_back()
    until_alone(mine)
    assert exchanged(its) == [] and len([*folder.iterdir()]) == 1


def test_another_process_is_seen_until_it_is_killed(folder: Path) -> None:
    mine = here()
    with process(HOLDS + WAITS) as other:
        assert exchanged(mine) == [7]
        other.send_signal(signal.SIGKILL)
        other.wait()
        assert exchanged(mine) == []
    assert len([*folder.iterdir()]) == 1


def test_a_forked_child_does_not_hold_the_lease_of_its_parent(folder: Path) -> None:
    mine = here()
    with process(HOLDS + FORKS) as other:
        assert exchanged(mine) == [7]
        other.send_signal(signal.SIGKILL)
        other.wait()
        assert exchanged(mine) == []  # though the child waits at the pipe still
    assert len([*folder.iterdir()]) == 1


def test_a_file_that_is_removed_by_somebody_is_made_again(folder: Path) -> None:
    mine, its = here(), here()
    exchanged(mine)
    for file in folder.iterdir():
        file.unlink()
    exchanged(mine, 40)
    assert exchanged(its) == [40]


def test_what_was_left_behind_is_removed_whichever_server_was_asked(folder: Path) -> None:
    exchanged(lease := here())
    exchanged(dropped := here("gpu.example:30001"))
    (folder / "left").touch()
    assert len([*folder.iterdir()]) == 3
    del dropped
    assert exchanged(lease) == []
    assert len([*folder.iterdir()]) == 1


def test_one_that_has_not_written_yet_wants_all(folder: Path) -> None:
    mine = here()
    exchanged(mine)
    (own,) = folder.iterdir()
    with own.with_name(own.name[:32] + "other").open("w") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        assert exchanged(mine) == [inf]


def test_nothing_in_a_file_or_its_name_tells_the_server(folder: Path) -> None:
    exchanged(lease := here(), 12345)
    (file,) = folder.iterdir()
    assert file.read_text().strip() == "12345" and "secret" not in file.name
    assert file.stat().st_mode & 0o777 == 0o600 and folder.stat().st_mode & 0o777 == 0o700
    lease.give_back()


def test_without_a_place_for_files_a_process_is_alone_and_says_so_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    for _ in range(2):
        lease = here()
        assert exchanged(lease) == exchanged(lease) == []
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "leases cannot be made: Not a directory; other" in said


def test_on_a_full_disk_a_process_is_alone_and_leaves_no_file(folder: Path) -> None:
    code = NO_ROOM + HOLDS + "print(os.listdir(sys.argv[1]))"
    done = subprocess.run(
        [sys.executable, "-c", code, str(folder)], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"
    assert done.stderr == (
        "appl: leases in the state folder cannot be written: File too large; "
        "other processes that ask the same server are not reckoned with\n"
    )


def test_many_that_begin_together_all_see_each_other() -> None:
    async def scenario() -> None:
        leases = [here() for _ in range(20)]
        await asyncio.gather(*(each.exchange(1) for each in leases))
        for each in leases:
            assert len(await each.exchange(1)) == 19

    asyncio.run(scenario())
