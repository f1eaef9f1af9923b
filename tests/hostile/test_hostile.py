"""No file makes a reader of traces wrong, or fail with an error that is not ours, or take memory."""

from __future__ import annotations

import contextlib
import gc
import json
import os
import pickle
import random
import resource
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from appl.errors import NotATrace, TraceCorrupt, TraceError
from appl.tracing import Recorder, Replayer, Trace
from appl.tracing.format import block
from appl.tracing.keeping import row_of

from .bombs import bombs
from .damage import DAMAGE, FORGERY, drawn
from .judging import COMMANDS, MEMORY, READERS, Tail, command, judged, merged, parts, peak
from .samples import GOLDEN, samples

FILES, LONG_FILES = 500, 20_000
PACKAGE = "tests.hostile"
ROOT = Path(__file__).parents[2]


def child(*words: str) -> subprocess.Popen[str]:
    """A process of its own, with memory of its own."""
    path = os.pathsep.join([str(ROOT), str(ROOT / "backends")])
    environment = {**os.environ, "PYTHONPATH": path}
    return subprocess.Popen(
        [sys.executable, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        cwd=ROOT, env=environment,
    )  # fmt: skip


@pytest.mark.parametrize("files", [FILES, pytest.param(LONG_FILES, marks=pytest.mark.long)])
def test_damaged_and_forged_files(files: int) -> None:
    running = [
        child("-m", PACKAGE, "--worker", str(part.start), str(part.stop))
        for part in parts(range(files), 2)
    ]
    said = [each.communicate(timeout=600) for each in running]
    verdict = merged(out for out, _ in said)
    print(verdict)
    assert verdict.files == files
    assert (verdict.wrong, verdict.untyped, verdict.escapes) == ([], [], [])
    assert verdict.peak < MEMORY
    assert set(verdict.ways) == {way.__name__ for way in (*DAMAGE, *FORGERY)}
    assert set(verdict.readings) == {"open", *READERS, *COMMANDS}
    assert verdict.opened > files // 10 and verdict.refused > files // 10


def test_a_file_is_the_same_each_time_it_is_drawn(tmp_path: Path) -> None:
    assert [drawn(seed)[2] for seed in range(50)] == [drawn(seed)[2] for seed in range(50)]
    assert judged(range(5), tmp_path).files == 5


# -- bombs: small files that want much


EVERY = 108


def read_bombs(folder: Path, part: int, way: str = "") -> None:
    """Open every second file of *folder* and read it in this *way*, or in each ``EVERY``-th way in
    turn; print what was not right.

    For a process of its own, which may have little memory.
    """
    resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
    wrong: list[str] = []
    ways = [*READERS, *COMMANDS]
    for number, path in enumerate(sorted(folder.glob("*.trace"))[part::2]):
        some = ["open", *(each for i, each in enumerate(ways) if (i + number) % EVERY == 0)]
        for chosen in [way] if way else some:
            gc.collect()  # an error's traceback holds what was read, until its cycle is found
            before = peak()
            said = _read(path, chosen)
            if said or peak() > max(before, MEMORY):
                wrong.append(f"{path.stem}: {chosen} takes {peak() >> 20} MB {said}")
    print(json.dumps({"wrong": wrong, "peak": peak()}))


def _read(path: Path, way: str) -> str:
    """What is wrong with reading *path* in this *way*."""
    if way in COMMANDS:
        words = ["/p.0/gen.1" if word == "CALL" else word for word in COMMANDS[way](str(path))]
        code, said = command(words, Tail())
        bad = code not in (0, 1, 2, 4) or "Traceback" in said or "MemoryError" in said
        return f"and gives {code}: {said[-200:]}" if bad else ""
    try:
        (READERS.get(way, Trace.open))(path)
    except TraceError:
        return ""
    except Exception as error:
        return f"and raises {error!r:.200}"
    return ""


@pytest.fixture(scope="module")
def every_bomb(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with all bombs, for who leaves them as they are."""
    folder = tmp_path_factory.mktemp("bombs")
    for name, data in bombs().items():
        (folder / f"{name}.trace").write_bytes(data)
    return folder


def bombed(folder: Path, way: str, timeout: int) -> tuple[list[str], int]:
    """What was wrong with reading all bombs, and the most memory that it took."""
    code = f"import pathlib; from {PACKAGE}.test_hostile import read_bombs; read_bombs(pathlib.Path({str(folder)!r}), "
    running = [child("-c", f"{code}{part}, {way!r})") for part in (0, 1)]
    said = [each.communicate(timeout=timeout) for each in running]
    found = [json.loads(out.splitlines()[-1]) for out, _ in said]
    return [line for each in found for line in each["wrong"]], max(each["peak"] for each in found)


def test_bombs_take_little_memory(every_bomb: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(every_bomb, tmp_path / "bombs")  # some readers write
    wrong, most = bombed(folder, "", timeout=600)
    assert wrong == []
    assert most < MEMORY


@pytest.mark.long
@pytest.mark.parametrize("way", ["open", *READERS, *COMMANDS])
def test_bombs_take_little_memory_whoever_reads_them(
    way: str, every_bomb: Path, tmp_path: Path
) -> None:
    folder = shutil.copytree(every_bomb, tmp_path / "bombs")
    wrong, most = bombed(folder, way, timeout=240)
    assert wrong == []
    assert most < MEMORY


# -- what is no file, or no trace


def _link(path: Path) -> None:
    path.symlink_to("nowhere")


def _loop(path: Path) -> None:
    path.symlink_to(path)


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))


def _oversized(path: Path) -> None:
    path.write_bytes(samples()[0].data)
    os.truncate(path, 20 << 30)


class _Dangerous:
    def __reduce__(self) -> tuple[Callable[..., object], tuple[str]]:
        return os.mkdir, ("pickled",)


NO_TRACES: dict[str, Callable[[Path], object]] = {
    "nothing": lambda path: None,
    "a folder": lambda path: path.mkdir(),
    "a pipe": os.mkfifo,
    "a socket": _socket,
    "a link to nothing": _link,
    "a link to itself": _loop,
    "a link to a device": lambda path: path.symlink_to("/dev/zero"),
    "a link to a process": lambda path: path.symlink_to("/proc/self/mem"),
    "a pickle": lambda path: path.write_bytes(pickle.dumps(_Dangerous())),
    "a zip": lambda path: path.write_bytes(b"PK\x03\x04" + bytes(100)),
    "text": lambda path: path.write_text('{"kind": 1}\n' * 5),
    "a gigantic file": _oversized,
    "noise": lambda path: path.write_bytes(random.Random(1).randbytes(100_000)),
}


@pytest.mark.parametrize("what", NO_TRACES)
def test_what_is_no_trace_is_refused_at_once(what: str, tmp_path: Path) -> None:
    path = tmp_path / "a.trace"
    with contextlib.chdir(tmp_path):  # the path of a socket has to be short
        NO_TRACES[what](Path(path.name))
    for reader in (Trace.open, Replayer):
        with pytest.raises((NotATrace, TraceCorrupt)):
            reader(path)
    assert row_of(path).error
    for name, words in COMMANDS.items():
        code, said = command(words(str(path)))
        assert code in (2, 4) and "Traceback" not in said, (name, said)
    assert not (tmp_path / "pickled").exists()


def test_a_link_to_a_trace_is_read_and_never_written_through(tmp_path: Path) -> None:
    path, target = tmp_path / "a.trace", tmp_path / "target"
    target.write_bytes((GOLDEN / "crashed.trace").read_bytes())
    path.symlink_to(target)
    before = target.read_bytes()
    assert Trace.open(path).calls
    with pytest.raises(TraceError, match="symbolic link"):
        Recorder(path, {}, append=True)
    assert target.read_bytes() == before


def test_two_traces_that_were_put_together_are_told_from_one(tmp_path: Path) -> None:
    """Their blocks have right checksums and the right numbers, one after the other."""
    first, second = samples()[0], samples()[2]
    path = tmp_path / "a.trace"
    for at in range(1, min(len(first.bounds), len(second.bounds)) - 1):
        path.write_bytes(first.data[: first.bounds[at]] + second.data[second.bounds[at] :])
        with pytest.raises(TraceCorrupt, match=f"block {at} .* is damaged"):
            Trace.open(path)
    assert block.HEAD.size == 21
