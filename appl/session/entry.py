"""The program that runs, and its entry in a trace: entry point, digests of its files, versions.

Invariant: only files are read; neither git nor the program is started.
"""

from __future__ import annotations

import os
import platform
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Literal

from appl.base.packages import version
from appl.prompt import digest_of, tagged
from appl.prompt.command_words import shown_words
from appl.tracing.format.codec import Plain

PROGRAM = "APPL_PROGRAM"
"""Set in the environment of a hosted program's processes: the files of the command and of it."""
_OWN_MODULES = 200
_SETTLED_S = 2.0  # a file that was changed just now may change again within one tick of its clock


@dataclass(frozen=True, slots=True)
class Entry:
    """The way a program was started, so that a replay can start it again.

    ``cli`` is ``appl run`` with *argv* as typed. Of a ``script`` only the number of its arguments
    is recorded, as they may hold anything. An ``api`` run is a block inside a program. A ``served``
    one is a request to a server, with *argv* as ``appl run`` would take its arguments.
    """

    kind: Literal["cli", "script", "api", "served"]
    file: str | None = None
    function: str | None = None
    argv: tuple[str, ...] = ()
    argc: int = 0

    @property
    def program(self) -> str:
        """A short name: the function's, or the file's if the function is ``main`` or unknown."""
        if self.function not in (None, "main"):
            return str(self.function)
        return _stem(self.file) if self.file else "run"

    def as_data(self) -> dict[str, object]:
        """The entry for the header of a trace."""
        return {
            "kind": self.kind,
            "file": self.file,
            "function": self.function,
            "argv": shown_words(self.argv),
            "argc": self.argc,
            "directory": os.getcwd(),
        }


def script(kind: Literal["script", "api"] = "script") -> Entry:
    """The program that Python runs; it has no file in a REPL, a notebook or with ``-c``.

    Runs inside of one of ``appl run``, and those of processes that a fork or ``multiprocessing``
    makes of it, have that command's program.
    """
    path = _main_file()
    command, _, program = os.environ.get(PROGRAM, "").partition(os.pathsep)
    if program and path == command:
        return Entry(kind, program)
    return Entry(kind, path, argc=max(len(sys.argv) - 1, 0))


def tell_copies(entry: Entry) -> None:
    """Tell processes that are made of this one that the command runs the program of *entry*."""
    command = _main_file()
    if command and entry.file is not None and os.path.isabs(entry.file):
        os.environ[PROGRAM] = f"{command}{os.pathsep}{entry.file}"


def _main_file() -> str | None:
    file = getattr(sys.modules.get("__main__"), "__file__", None)
    return _resolved(file, os.getcwd()) if file else None


@lru_cache(maxsize=4)
def _stem(file: str) -> str:
    return Path(file).stem


@lru_cache(maxsize=4)
def _resolved(file: str, directory: str) -> str:
    """The whole path of the program's *file*, which is named relative to *directory*."""
    return os.path.realpath(os.path.join(directory, file))


_modules: tuple[tuple[str, int, str], list[str]] | None = None
"""The files that were found last, and before them the entry's file, and how many modules there
were and the last one: one that is imported later comes behind it."""


def program_digests(entry: Entry) -> dict[str, str]:
    """Digests of the entry's file and of the modules beside it."""
    global _modules
    if entry.file is None:
        return {}
    last, newest = _modules, ""
    with suppress(RuntimeError):  # another thread imports one just now
        newest = next(reversed(sys.modules))
    state = entry.file, len(sys.modules), newest
    if last is None or last[0] != state:
        beside, files = f"{Path(entry.file).parent}{os.sep}", {entry.file}
        for module in [*sys.modules.values()]:
            file = getattr(module, "__file__", None)
            # Thousands of modules may be loaded: their paths are compared as texts.
            if isinstance(file, str) and file.endswith(".py") and file.startswith(beside):
                files.update({file} if os.sep not in file[len(beside) :] else ())
        last = _modules = state, sorted(files)[:_OWN_MODULES]
    return Plain({file: tagged(digest) for file in last[1] if (digest := _digest(file))})


def changed_files(header: Mapping[str, object]) -> list[str]:
    """The program's files that are missing or differ from the *header* of its trace."""
    recorded = header.get("programs")
    if not isinstance(recorded, Mapping):
        return []
    digests = {str(name): (_digest(str(name)), digest) for name, digest in recorded.items()}
    return [name for name, (now, then) in digests.items() if now is None or tagged(now) != then]


def _digest(file: str) -> bytes | None:
    try:
        status = os.stat(file)
        if time.time() - status.st_mtime < _SETTLED_S:
            return digest_of(Path(file).read_bytes())
        return _digest_as_of(file, status.st_mtime_ns, status.st_size, status.st_ino)
    except OSError:
        return None


@lru_cache(maxsize=4 * _OWN_MODULES)
def _digest_as_of(path: str, changed_ns: int, size: int, inode: int) -> bytes:
    """The digest of the file at *path*, which is read again when it has changed."""
    return digest_of(Path(path).read_bytes())


def git_commit(folder: str) -> str | None:
    """The commit that is checked out at *folder*, read from git's files."""
    while not os.path.lexists(git := f"{folder}/.git"):
        above = os.path.dirname(folder)
        if above == folder:
            return None
        folder = above
    return _head(git)


def _head(git: str) -> str | None:
    try:
        if not os.path.isdir(git):  # a worktree: "gitdir: <path>"
            link = (_text(git) or "").partition(":")[2].strip()
            git = _resolved(link, os.path.dirname(git))
        head = _text(f"{git}/HEAD")
        if head is None or not head.startswith("ref: "):
            return head
        name, shared = head[5:], _text(f"{git}/commondir")
        main = git if shared is None else os.path.join(git, shared)
        commit = _text(f"{main}/{name}")
        if commit is not None:
            return commit
        lines = (_text(f"{main}/packed-refs") or "").splitlines()
        return next((line.split()[0] for line in lines if line.endswith(f" {name}")), None)
    except (OSError, UnicodeDecodeError):
        return None


def _text(file: str) -> str | None:
    """The text of one of git's files, without the white space around; ``None`` without a file."""
    try:
        status = os.stat(file)
    except FileNotFoundError:
        return None
    if time.time() - status.st_mtime < _SETTLED_S:
        return Path(file).read_text().strip()
    return _text_as_of(file, status.st_mtime_ns, status.st_size, status.st_ino)


@lru_cache(maxsize=16)
def _text_as_of(file: str, changed_ns: int, size: int, inode: int) -> str:
    """The same of a file that is read again when it has changed."""
    return Path(file).read_text().strip()


@cache
def versions() -> Mapping[str, str]:
    """The versions of appl, Python and the platform."""
    return Plain(
        appl=version(),
        python=platform.python_version(),
        platform=f"{sys.platform}-{platform.machine()}",
    )
