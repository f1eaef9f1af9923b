"""No known way leads out of the sandbox; each is looked for in what it prints, and from outside."""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from appl import CodeResult, SandboxLimits
from appl.parts.sandbox import process
from appl.parts.sandbox.running import result_of
from tests.sandbox.escapes import CONTROLS, ESCAPES

SECRET = "a-secret-that-nobody-may-read"
MARKER = "appl-sandbox-marker"
NUMBERS = {
    "x86_64": {
        "keyctl": 250,
        "add_key": 248,
        "clone": 56,
        "kernel_calls": [321, 298, 323, 175, 246, 169, 167],
    },
    "aarch64": {
        "keyctl": 219,
        "add_key": 217,
        "clone": 220,
        "kernel_calls": [280, 241, 282, 105, 104, 142, 224],
    },
}
"""Numbers of system calls: of the last, in their order, ``bpf``, ``perf_event_open``,
``userfaultfd``, ``init_module``, ``kexec_load``, ``reboot``, ``swapon``."""


class Outside:
    """What the machine has outside of the sandbox, and whether any of it was touched."""

    def __init__(self, folder: Path, stack: contextlib.ExitStack) -> None:
        self.folder = folder
        folder.joinpath("secret").write_text(SECRET)
        self.victim = stack.enter_context(
            subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
        )
        stack.callback(self.victim.kill)
        self.opened = os.open(folder / "secret", os.O_RDONLY)
        stack.callback(os.close, self.opened)
        os.set_inheritable(self.opened, True)
        self.sockets = {
            "tcp4": _socket(stack, socket.AF_INET, ("127.0.0.1", 0)),
            "tcp6": _socket(stack, socket.AF_INET6, ("::1", 0)),
            "udp": _socket(stack, socket.AF_INET, ("127.0.0.1", 0), socket.SOCK_DGRAM),
            "unix": _socket(stack, socket.AF_UNIX, str(folder / "socket")),
            "abstract": _socket(stack, socket.AF_UNIX, f"\0appl-{id(self)}"),
        }
        libc = ctypes.CDLL(None)
        segment = libc.shmget(0, 4096, 0o1777)
        stack.callback(libc.shmctl, segment, 0, None)
        self.memory = ctypes.create_string_buffer(SECRET.encode())
        self.about: dict[str, Any] = {
            "secret_file": str(folder / "secret"),
            "folder": str(folder),
            "canary": str(folder / "canary"),
            "variable": "APPL_SANDBOX_SECRET",
            "pid": os.getpid(),
            "address": ctypes.addressof(self.memory),
            "victim": self.victim.pid,
            "segment": segment,
            "shared_memory": f"/dev/shm/appl-{os.getpid()}",
            "tcp4": self.sockets["tcp4"].getsockname()[1],
            "tcp6": self.sockets["tcp6"].getsockname()[1],
            "udp": self.sockets["udp"].getsockname()[1],
            "unix": str(folder / "socket"),
            "abstract": f"appl-{id(self)}",
            "name": "example.com",
            "marker": MARKER,
            **NUMBERS[platform.machine()],
        }
        self.before = self._state()

    def _state(self) -> object:
        library = Path(os.__file__).parent
        return (
            sorted(str(path) for path in self.folder.rglob("*")),
            sorted(path.name for path in library.iterdir()),
            library.stat().st_mtime_ns,
            socket.gethostname(),
            os.getuid(),
        )

    def code(self, name: str) -> str:
        return f"W = {self.about!r}\n{ESCAPES[name]}"

    def signs(self) -> list[str]:
        """What has changed outside."""
        found = [name for name, opened in self.sockets.items() if _was_reached(opened)]
        if self._state() != self.before:
            found.append("files")
        if self.victim.poll() is not None or _state_of(self.victim.pid) == "T":
            found.append("the victim")
        return [*found, *(f"process {pid}" for pid in left_over())]


def left_over(word: str = MARKER) -> list[int]:
    """The processes whose last argument is *word*."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if path.read_bytes().endswith(word.encode() + b"\0"):
                found.append(int(path.parent.name))
    return found


def _state_of(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def _socket(
    stack: contextlib.ExitStack, family: int, address: object, kind: int = socket.SOCK_STREAM
) -> socket.socket:
    made = stack.enter_context(socket.socket(family, kind))
    made.bind(address)  # type: ignore[arg-type]
    made.setblocking(False)
    if kind == socket.SOCK_STREAM:
        made.listen()
    return made


def _was_reached(opened: socket.socket) -> bool:
    try:
        if opened.type == socket.SOCK_DGRAM:
            return bool(opened.recv(10))
        with opened.accept()[0]:
            return True
    except BlockingIOError:
        return False


@pytest.fixture(scope="module")
def outside(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Outside]:
    with contextlib.ExitStack() as stack:
        yield Outside(tmp_path_factory.mktemp("outside"), stack)


@pytest.fixture
def exposed(tmp_path: Path) -> Iterator[Outside]:
    """What those reach that run without a sandbox."""
    with contextlib.ExitStack() as stack:
        yield Outside(tmp_path, stack)


LIMITS = SandboxLimits(seconds=1.0, output_kb=64, memory_mb=256)


def confined(
    code: str, limits: SandboxLimits = LIMITS, isolation: str = "namespaces"
) -> CodeResult:
    """The result of *code*, without a record."""
    as_data = {name: getattr(limits, name) for name in SandboxLimits.__slots__}
    return result_of(process.run_code(code, "", {}, [], False, as_data, isolation))


@pytest.mark.parametrize("name", ESCAPES)
def test_a_known_way_does_not_lead_out(
    name: str, outside: Outside, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(outside.about["variable"], SECRET)
    result = confined(outside.code(name))
    assert "ESCAPED" not in result.stdout, result.stdout
    assert SECRET not in result.stdout + result.stderr
    assert outside.signs() == []
    for word in ("SyntaxError", "NameError", "KeyError", "TypeError"):
        assert word not in result.stderr, result.stderr  # of the escape itself


@pytest.mark.parametrize("name", CONTROLS)
def test_the_same_way_is_seen_where_there_is_no_sandbox(name: str, exposed: Outside) -> None:
    environment = {**os.environ, exposed.about["variable"]: SECRET}
    with tempfile.TemporaryFile() as out:
        command = [sys.executable, "-c", exposed.code(name)]
        subprocess.run(
            command, cwd=exposed.folder, env=environment, close_fds=False, stdout=out, timeout=60
        )
        out.seek(0)
        seen = b"ESCAPED" in out.read() or exposed.signs() != []
    for pid in left_over():
        os.kill(pid, 9)
    assert seen


def test_a_result_is_text_whatever_it_was_written_as(outside: Outside) -> None:
    result = confined(outside.code("an answer that is unpickled"))
    assert type(result.stdout) is str and "canary" in result.stdout
    assert not Path(outside.about["canary"]).exists()


def test_code_does_not_choose_how_it_is_said_to_have_ended(outside: Outside) -> None:
    result = confined(outside.code("a result that it writes itself"))
    assert (result.ended, result.exit_code) == ("exit", 7)


@pytest.mark.parametrize(
    "name", ["a fork bomb", "deafness to signals", "a process that holds the output open"]
)
def test_time_is_limited_for_all_processes_together(name: str, outside: Outside) -> None:
    result = confined(outside.code(name))
    assert result.ended == ("exit" if "holds" in name else "seconds")


def test_output_is_cut_at_its_limit(outside: Outside) -> None:
    result = confined(outside.code("output without an end"))
    assert result.ended == "output"
    assert max(len(result.stdout), len(result.stderr)) == LIMITS.output_kb * 1024


def test_processes_are_counted_inside(outside: Outside) -> None:
    code = """
import os, time
children = 0
while True:
    try:
        if os.fork() == 0: time.sleep(60)
        children += 1
    except OSError: break
print(children + 1)
"""
    assert int(confined(code).stdout) == LIMITS.processes


def test_nothing_is_left_of_a_sandbox_on_disk(tmp_path: Path) -> None:
    mounted = Path("/proc/mounts").read_text()
    code = "import appl; print(appl.run_code(\"open('a', 'w').write('x' * 1000)\").exit_code)"
    env = {**os.environ, "TMPDIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert done.stdout == "0\n", done.stderr
    assert (list(tmp_path.iterdir()), Path("/proc/mounts").read_text()) == ([], mounted)


CALLER = """
import sys
from appl.parts.sandbox import process
limits = dict(seconds=600, memory_mb=256, processes=8, disk_mb=8, output_kb=8, open_files=64)
code = "import os, sys; os.execv(sys.executable, [sys.executable, '-c', 'input()', %r])"
code = "import os; os.setsid(); " + code % (sys.argv[1],)
process.run_code(code.replace("'input()'", "'import time; time.sleep(600)'"), "", {}, [], False, limits, "namespaces")
"""


def test_code_ends_when_its_caller_is_killed() -> None:
    word = f"appl-killed-{os.getpid()}"
    end = time.monotonic() + 30
    with subprocess.Popen([sys.executable, "-c", CALLER, word]) as caller:
        while not (found := left_over(word)):
            assert time.monotonic() < end and caller.poll() is None
        caller.kill()
    while any(Path(f"/proc/{pid}").exists() for pid in found):
        assert time.monotonic() < end
