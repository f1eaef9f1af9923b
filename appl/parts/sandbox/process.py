"""The process of a sandbox, seen from outside: it is started, read, and ended.

Invariant: bytes of the code are only ever decoded as text; its result has the launcher's own pipe.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from appl.errors import SandboxUnavailable

WORK = "/sandbox"
"""The work folder, as the code sees it."""
LAUNCHER = Path(__file__).with_name("launcher.py")
_SETUP_S = 10.0
"""Seconds that the sandbox has to be made and to end, beside those of the code."""
_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/lib32", "/etc/ld.so.cache")
"""What Python and its libraries need of the system: files that are the same for everybody."""


def run_code(
    code: str,
    stdin: str,
    files: dict[str, str],
    readable: list[str],
    packages: bool,
    limits: dict[str, Any],
    isolation: str,
) -> dict[str, object]:
    """The result of *code* as plain data. Raises ``SandboxUnavailable``."""
    if not sys.platform.startswith("linux"):
        raise SandboxUnavailable(
            f"run_code() has a sandbox on Linux only, and this is {sys.platform}: run the program "
            "in a Linux virtual machine or container"
        )
    with tempfile.TemporaryDirectory(prefix="appl-code-") as work:
        confined = isolation == "namespaces"
        folder = WORK if confined else work
        python = sys.executable if packages else getattr(sys, "_base_executable", sys.executable)
        libraries = [sys.base_prefix, sys.base_exec_prefix]
        if packages:
            libraries += [sys.prefix, sys.exec_prefix]
        links, shown = _view([*readable, *libraries])
        request = {
            "isolation": isolation,
            "work": work,
            "command": [python, "-B", f"{folder}/main.py"],
            "environment": {
                "PATH": "/usr/local/bin:/usr/bin:/bin",
                "HOME": folder,
                "TMPDIR": folder,
                "LANG": "C.UTF-8",
                "PYTHONUTF8": "1",
                "OPENBLAS_NUM_THREADS": "1",
                "OMP_NUM_THREADS": "1",
                "MALLOC_ARENA_MAX": "1",
            },
            "stdin": stdin,
            "files": {**files, "main.py": code},
            "links": links,
            "readable": shown,
            "limits": limits,
        }
        return _Process(request).result()


def _view(paths: list[str]) -> tuple[dict[str, str], list[str]]:
    """Links of the system, and the paths that the code may read, without what lies in another."""
    links = {path: os.readlink(path) for path in _SYSTEM if os.path.islink(path)}
    wanted = [path for path in _SYSTEM if path not in links and os.path.exists(path)]
    wanted += [place for path in paths for place in (path, os.path.realpath(path))]
    shown: list[str] = []
    for path in sorted(set(wanted)):
        inside = any(path == other or path.startswith(f"{other}/") for other in (*shown, *links))
        if not inside and path != "/":
            shown.append(path)
    return links, shown


class _Process:
    """One sandbox, from its start to its end."""

    def __init__(self, request: dict[str, Any]) -> None:
        self.limits = request["limits"]
        self.most = self.limits["output_kb"] * 1024
        self.texts = {"stdout": bytearray(), "stderr": bytearray(), "status": bytearray()}
        self.is_full = False
        text = json.dumps(request).encode("utf-8", "surrogatepass")
        self.request = b"%016x" % len(text) + text

    def result(self) -> dict[str, object]:
        """Wait for its end. Raises ``SandboxUnavailable``."""
        status, writing = os.pipe()
        try:
            process = self._start(writing)
        except OSError as error:
            os.close(status)
            raise SandboxUnavailable(f"no process for code can be started: {error}") from None
        finally:
            os.close(writing)
        with os.fdopen(status, "rb", 0) as told, process:
            try:
                self._talk(process, told)
            finally:
                # Process 1 of the sandbox sees the end of this pipe, ends, and takes all with it.
                with contextlib.suppress(OSError):
                    process.stdin.close()  # type: ignore[union-attr]
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(_SETUP_S)
                process.kill()
        return self._result()

    def _start(self, status: int) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-I", "-S", "-B", str(LAUNCHER), str(status)],
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=(status,),
            start_new_session=True,
            cwd="/",
            env={},
        )

    def _talk(self, process: subprocess.Popen[bytes], status: Any) -> None:
        assert process.stdin is not None
        os.set_blocking(process.stdin.fileno(), False)
        end = time.monotonic() + self.limits["seconds"] + _SETUP_S
        rest = memoryview(self.request)
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdin, selectors.EVENT_WRITE, "stdin")
            selector.register(process.stdout, selectors.EVENT_READ, "stdout")  # type: ignore[arg-type]
            selector.register(process.stderr, selectors.EVENT_READ, "stderr")  # type: ignore[arg-type]
            selector.register(status, selectors.EVENT_READ, "status")
            while (left := end - time.monotonic()) > 0 and not self.is_full:
                if not {key.data for key in selector.get_map().values()} - {"stdin"}:
                    return
                for key, _ in selector.select(left):
                    if key.data == "stdin":
                        try:
                            rest = rest[os.write(key.fd, rest) :]
                        except BrokenPipeError:
                            rest = rest[:0]
                        if not rest:
                            selector.unregister(key.fileobj)
                    elif not self._take(key.data, os.read(key.fd, 65536)):
                        selector.unregister(key.fileobj)

    def _take(self, name: str, piece: bytes) -> bool:
        """Keep a *piece* of one stream; false at its end."""
        text = self.texts[name]
        text += piece[: self.most - len(text)]
        self.is_full = self.is_full or len(text) >= self.most
        return bool(piece)

    def _result(self) -> dict[str, object]:
        try:
            told = json.loads(bytes(self.texts["status"]).partition(b"\n")[0] or b"{}")
        except (ValueError, RecursionError):
            told = {}
        if "refused" in told:
            raise SandboxUnavailable(
                f"this machine allows no sandbox ({told['refused']}): allow user namespaces "
                "(docs/sandbox.md has the settings), run in a virtual machine, or, for code that "
                "you trust, say run_code(..., isolation='limits_only')"
            )
        ended = "output" if self.is_full else told.get("ended", "seconds")
        return {
            "stdout": self.texts["stdout"].decode("utf-8", "replace"),
            "stderr": self.texts["stderr"].decode("utf-8", "replace"),
            "exit_code": told.get("exit_code") if ended in ("exit", "signal") else None,
            "ended": ended,
        }
