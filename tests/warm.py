"""A Python that has imported the package already: each program given to it runs in a fork of it.

``warm_python(folder)`` starts one and gives the folder of three programs, ``python``, ``appl`` and
``pytest``. They are used as those of an environment are: with arguments, a working folder, an
environment, streams, signals and an exit code of their own; a terminal that they get is theirs, and
Ctrl-C on it reaches their process group. What a process loads at its start is
there already; whatever else it does, to the end of the interpreter, happens in a process of its own.

A killed one is gone soon, but not at once: what a kill leaves behind is shown by a real process.
"""

from __future__ import annotations

import contextlib
import fcntl
import gc
import importlib
import io
import marshal
import os
import pkgutil
import runpy
import select
import signal
import socket
import subprocess
import sys
import termios
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType

PYTEST = ["-W", "ignore:Module already imported:pytest.PytestAssertRewriteWarning"]
"""The package is loaded before pytest, which would rewrite its plugin, can see it."""
PROGRAMS = {"python": [], "appl": ["-m", "appl"], "pytest": ["-m", "pytest", *PYTEST]}
LOADED = (
    "appl.cli", "appl.compiler", "appl.config", "appl.parts.control", "appl.prompt", "appl.runtime",
    "appl.session", "appl.tracing", "appl_backends.embedded", "_pytest",
)  # fmt: skip
"""Packages that are loaded whole."""
LEFT = ("appl.cli.perturbed_child", "appl_backends.embedded.server", "appl.tracing.viewer")
Request = tuple[list[str], str, dict[bytes, bytes]]
"""The words behind ``python``, the working folder and the environment."""
CLIENT = """\
#!{python} -IS
import marshal, os, signal, sys
from _socket import AF_UNIX, SCM_RIGHTS, SOL_SOCKET, socket

def number():
    return int.from_bytes(there.recv(4), "big", signed=True)

passed_on = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
signal.pthread_sigmask(signal.SIG_BLOCK, passed_on)  # they wait until it is known to whom
there = socket(AF_UNIX)
there.connect({path!r})
fds = b"".join(each.to_bytes(4, sys.byteorder) for each in range(3))
request = marshal.dumps(({words!r} + sys.argv[1:], os.getcwd(), dict(os.environb)))
there.sendmsg([len(request).to_bytes(4, "big")], [(SOL_SOCKET, SCM_RIGHTS, fds)])
there.sendall(request)
pid = number()

def pass_on(given, _):
    try:
        os.kill(pid, given)
    except ProcessLookupError:
        pass  # it has ended, and its code is on the way

for each in passed_on:
    signal.signal(each, pass_on)
signal.pthread_sigmask(signal.SIG_UNBLOCK, passed_on)
code = number()
if code < 0:
    if code != -signal.SIGKILL:
        signal.signal(-code, signal.SIG_DFL)
    os.kill(os.getpid(), -code)
sys.exit(code)
"""


@contextlib.contextmanager
def warm_python(
    folder: Path,
    python: str = sys.executable,
    programs: Mapping[str, list[str]] = PROGRAMS,
    environment: Mapping[str, str] | None = None,
) -> Iterator[Path]:
    """The folder of the *programs*, as long as the block lasts; *folder* has a short name."""
    path = str(folder / "socket")
    for name, words in programs.items():
        file = folder / name
        file.write_text(CLIENT.format(python=sys.executable, path=path, words=words))
        file.chmod(0o755)
    server = subprocess.Popen(
        [python, __file__, path], start_new_session=True, stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, env=environment,
    )  # fmt: skip
    assert server.stdin is not None and server.stdout is not None
    try:
        assert server.stdout.read(1) == b"."  # it listens
        yield folder
    finally:
        server.stdin.close()
        server.stdout.close()
        server.wait()


def _load(name: str) -> None:
    """Load the package *name* whole, but for what is left for those who use it."""
    package = importlib.import_module(name)
    for found in pkgutil.iter_modules(getattr(package, "__path__", ())):
        each = f"{name}.{found.name}"
        if found.name != "__main__" and each not in LEFT:
            with contextlib.suppress(ImportError):  # for a library that is not installed
                _load(each)


def _serve(path: str) -> Callable[[], None]:
    """Fork for each program that is asked for; only in the child this returns, with the program."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen(128)
    os.write(1, b".")
    running: dict[int, tuple[int, socket.socket]] = {}  # by the descriptor of the process
    asking: dict[int, int] = {}  # the process that each connection waits for
    poll = select.poll()
    for each in (0, listener.fileno()):
        poll.register(each, select.POLLIN)
    while True:
        for ready, _ in poll.poll():
            if ready == 0:  # the tests are over
                for pid in asking.values():
                    os.killpg(pid, signal.SIGKILL)
                os._exit(0)
            elif ready == listener.fileno():
                connection, _ = listener.accept()
                asked = _received(connection)
                if asked is None:
                    connection.close()
                    continue
                request, streams = asked
                pid = os.fork()
                if pid == 0:
                    for other in (listener, connection, *(each for _, each in running.values())):
                        other.detach()  # or one would close its number again, when it is collected
                    return _begun(request, streams)
                for each in streams:
                    os.close(each)
                _send(connection, pid)
                process = os.pidfd_open(pid)
                running[process], asking[connection.fileno()] = (pid, connection), pid
                poll.register(process, select.POLLIN)
                poll.register(connection, select.POLLHUP)
            elif ready in running:
                pid, connection = running.pop(ready)
                _, status = os.waitpid(pid, 0)
                poll.unregister(ready)
                poll.unregister(connection)
                os.close(ready)
                del asking[connection.fileno()]
                with contextlib.suppress(OSError):  # the one that asked was killed
                    _send(connection, os.waitstatus_to_exitcode(status))
                connection.close()
            elif ready in asking:  # who asked is gone
                poll.modify(ready, 0)
                os.killpg(asking[ready], signal.SIGKILL)


def _send(connection: socket.socket, number: int) -> None:
    connection.sendall(number.to_bytes(4, "big", signed=True))


def _received(connection: socket.socket) -> tuple[Request, list[int]] | None:
    """What is asked for and its three streams, or nothing if who asks is gone."""
    size, streams, _, _ = socket.recv_fds(connection, 4, 3)
    if not size:
        return None
    with connection.makefile("rb") as file:
        return marshal.loads(file.read(int.from_bytes(size, "big"))), list(streams)


def _begun(request: Request, streams: list[int]) -> Callable[[], None]:
    """Be the process that was asked for, and return its program."""
    words, folder, environment = request
    os.setsid()
    for number, each in enumerate(streams):
        os.dup2(each, number)
    os.closerange(3, 1024)
    with contextlib.suppress(OSError):  # no terminal, or that of a shell, which passes signals on
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    os.chdir(folder)
    before = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    os.environb.clear()
    os.environb.update(environment)
    raw = io.BufferedReader(io.FileIO(0, closefd=False))
    sys.stdin = sys.__stdin__ = io.TextIOWrapper(raw, "utf-8")
    for number, name, errors in ((1, "stdout", "strict"), (2, "stderr", "backslashreplace")):
        line = number == 2 or os.isatty(number)
        out = io.BufferedWriter(io.FileIO(number, "w", closefd=False))
        stream = io.TextIOWrapper(out, "utf-8", errors, line_buffering=line)
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    sys.orig_argv = [sys.executable, *words]
    first = {"-c": "", "-m": folder}.get(words[0], str(Path(words[0]).absolute().parent))
    given = [each for each in os.environ.get("PYTHONPATH", "").split(os.pathsep) if each]
    sys.path[:] = [first, *given, *(each for each in sys.path[1:] if each not in before)]
    importlib.invalidate_caches()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    main = sys.modules["__main__"] = ModuleType("__main__")
    if words[0] == "-m":
        sys.argv = words[1:]
        return lambda: runpy._run_module_as_main(words[1])  # type: ignore[attr-defined]
    if words[0] == "-c":
        sys.argv = ["-c", *words[2:]]
        code = compile(words[1], "<string>", "exec")
    else:
        sys.argv = words
        main.__file__ = words[0]
        code = compile(Path(words[0]).read_bytes(), words[0], "exec")
    main.__dict__["__builtins__"] = __builtins__
    return lambda: exec(code, main.__dict__)


if __name__ == "__main__":
    os.set_inheritable(1, False)
    for package in LOADED:
        _load(package)
    gc.collect()
    gc.freeze()
    _serve(sys.argv[1])()
