"""The program that runs, and its entry in a trace: entry point, digests of its files, versions.

Invariant: only files are read; neither git nor the program is started.
"""

from __future__ import annotations

import os
import platform
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from appl.prompt import digest_of, tagged
from appl.prompt.secret import shown_words
from appl.version import version

_OWN_MODULES = 200
_SETTLED_S = 2.0  # a file that was changed just now may change again within one tick of its clock


@dataclass(frozen=True, slots=True)
class Entry:
    """The way a program was started, so that a replay can start it again.

    ``cli`` is ``appl run`` with *argv* as typed. Of a ``script`` only the number of its arguments
    is recorded, as they may hold anything. An ``api`` run is a block inside a program.
    """

    kind: Literal["cli", "script", "api"]
    file: str | None = None
    function: str | None = None
    argv: tuple[str, ...] = ()
    argc: int = 0

    @property
    def program(self) -> str:
        """A short name: the function's, or the file's if the function is ``main`` or unknown."""
        file = Path(self.file).stem if self.file else "run"
        return file if self.function in (None, "main") else str(self.function)

    def as_data(self) -> dict[str, Any]:
        """The entry for the header of a trace."""
        return {
            "kind": self.kind,
            "file": self.file,
            "function": self.function,
            "argv": shown_words(self.argv),
            "argc": self.argc,
            "directory": str(Path.cwd()),
        }


def script(kind: Literal["script", "api"] = "script") -> Entry:
    """The program that Python runs; it has no file in a REPL, a notebook or with ``-c``."""
    file = getattr(sys.modules.get("__main__"), "__file__", None)
    path = str(Path(file).resolve()) if file else None
    return Entry(kind, path, argc=max(len(sys.argv) - 1, 0))


def program_digests(entry: Entry) -> dict[str, str]:
    """Digests of the entry's file and of the modules beside it."""
    if entry.file is None:
        return {}
    beside, files = f"{Path(entry.file).parent}{os.sep}", {entry.file}
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        # Thousands of modules may be loaded: their paths are compared as texts.
        if isinstance(file, str) and file.endswith(".py") and file.startswith(beside):
            files.update({file} if os.sep not in file[len(beside) :] else ())
    return {
        file: tagged(found) for file in sorted(files)[:_OWN_MODULES] if (found := _digest(file))
    }


def changed_files(header: Mapping[str, Any]) -> list[str]:
    """The program's files that are missing or differ from the *header* of its trace."""
    recorded = header.get("programs")
    if not isinstance(recorded, Mapping):
        return []
    found = {str(name): (_digest(str(name)), digest) for name, digest in recorded.items()}
    return [name for name, (now, then) in found.items() if now is None or tagged(now) != then]


def _digest(file: str) -> bytes | None:
    path = Path(file)
    try:
        found = path.stat()
        if time.time() - found.st_mtime < _SETTLED_S:
            return digest_of(path.read_bytes())
        return _digest_as_of(path, found.st_mtime_ns, found.st_size, found.st_ino)
    except OSError:
        return None


@lru_cache(maxsize=4 * _OWN_MODULES)
def _digest_as_of(path: Path, changed_ns: int, size: int, inode: int) -> bytes:
    """The digest of the file at *path*, which is read again when it has changed."""
    return digest_of(path.read_bytes())


def git_commit(start: Path) -> str | None:
    """The commit that is checked out at *start*, read from git's files."""
    for folder in (start, *start.parents):
        git = folder / ".git"
        if git.exists():
            return _head(git)
    return None


def _head(git: Path) -> str | None:
    try:
        if git.is_file():  # a worktree: "gitdir: <path>"
            git = (git.parent / git.read_text().partition(":")[2].strip()).resolve()
        head = (git / "HEAD").read_text().strip()
        if not head.startswith("ref: "):
            return head
        name, shared = head[5:], git / "commondir"
        main = (git / shared.read_text().strip()) if shared.is_file() else git
        if (main / name).is_file():
            return (main / name).read_text().strip()
        lines = (main / "packed-refs").read_text().splitlines()
        return next((line.split()[0] for line in lines if line.endswith(f" {name}")), None)
    except (OSError, UnicodeDecodeError):
        return None


def versions() -> dict[str, str]:
    """The versions of appl, Python and the platform."""
    return {
        "appl": version(),
        "python": platform.python_version(),
        "platform": f"{sys.platform}-{platform.machine()}",
    }
