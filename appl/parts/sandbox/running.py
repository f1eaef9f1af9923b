"""``run_code``: code in a sandbox, recorded as any other look at the world.

Invariant: without the namespaces of the sandbox nothing runs, unless the caller asks for limits
only.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import PurePosixPath
from typing import Literal, get_args

from appl.errors import InvalidOption, TraceCorrupt
from appl.parts.sandbox import process
from appl.parts.sandbox.values import ENDED, CodeResult, SandboxLimits
from appl.runtime.tools.observation import observed

Isolation = Literal["namespaces", "limits_only"]
MAIN = "main.py"


def run_code(
    code: str,
    *,
    stdin: str = "",
    files: Mapping[str, str] | None = None,
    readable: Sequence[str | os.PathLike[str]] = (),
    packages: bool = False,
    limits: SandboxLimits | None = None,
    isolation: Isolation = "namespaces",
) -> CodeResult:
    """Run Python *code* in a sandbox, and return what it wrote and how it ended.

    The code sees Python and its standard library, its own work folder ``/sandbox`` with *files*
    (text by name), and *stdin*; nothing else of the machine, and no network. *readable* names
    files and folders that it may read as well, *packages* adds those of this environment. The
    result is recorded: a replay gives it again, and runs nothing.

    *isolation* is ``"namespaces"``. ``"limits_only"`` is no sandbox: it bounds time and memory of
    code that you trust, which can read your files. A run that was killed meanwhile is then in
    doubt, as with a tool that has effects.

    Raises ``SandboxUnavailable`` where the machine allows no sandbox, ``InvalidOption``.
    """
    if not isinstance(code, str):
        code = str(code)  # an answer
    if isolation not in get_args(Isolation):
        raise InvalidOption(
            f"run_code(isolation=...) is 'namespaces' or 'limits_only', got {isolation!r:.80}"
        )
    request: dict[str, object] = {
        "code": code,
        "stdin": str(stdin),
        "files": _checked_files(files or {}),
        "readable": [_absolute(path) for path in readable],
        "packages": bool(packages),
        "limits": asdict(limits or SandboxLimits()),
        "isolation": isolation,
    }
    effect = "observed" if isolation == "namespaces" else "effect"
    return result_of(observed(process.run_code, (), request, effect))


def _checked_files(files: Mapping[str, str]) -> dict[str, str]:
    for name, text in files.items():
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts or not path.name or "\0" in name:
            raise InvalidOption(
                f"run_code(files=...) has names below the work folder, got {name!r:.80}"
            )
        if str(path) == MAIN:
            raise InvalidOption(
                f"run_code(files=...): {MAIN} is the code itself; take another name"
            )
        if not isinstance(text, str):
            raise InvalidOption(f"run_code(files=...) has texts, got {text!r:.80} for {name!r:.80}")
    return dict(files)


def _absolute(path: str | os.PathLike[str]) -> str:
    found = os.path.abspath(path)
    if not os.path.exists(found) or found == "/":
        raise InvalidOption(
            f"run_code(readable=...) has files and folders below the root, got {found!r:.99}"
        )
    return found


def result_of(value: object) -> CodeResult:
    """The result that was recorded. Raises ``TraceCorrupt``."""
    match value:
        case {"stdout": str(out), "stderr": str(err), "exit_code": code, "ended": str(ended)} if (
            ended in ENDED and (code is None or isinstance(code, int))
        ):
            return CodeResult(out, err, code, ended)  # type: ignore[arg-type]
    raise TraceCorrupt(f"a recorded run_code() is none: {value!r:.80}")
