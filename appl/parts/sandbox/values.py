"""The limits of a sandbox, and what comes out of one."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal, get_args

from appl.errors import InvalidOption

Ended = Literal["exit", "signal", "seconds", "output"]
"""How code ended: by itself, by a signal, or since it reached a limit."""
ENDED = get_args(Ended)


@dataclass(frozen=True, slots=True)
class SandboxLimits:
    """The limits on code in a sandbox. Raises ``InvalidOption`` for a value that is no limit.

    ``seconds`` is wall-clock time, and CPU time of each process. ``memory_mb`` is address space of
    each process, and ``processes`` counts threads too: both together bound the memory.
    ``disk_mb`` is the size of the work folder, which lies in memory. ``output_kb`` bounds standard
    output and standard error, each. ``open_files`` is for each process.
    """

    seconds: float = 10.0
    memory_mb: int = 512
    processes: int = 16
    disk_mb: int = 64
    output_kb: int = 1024
    open_files: int = 64

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            whole = isinstance(value, int) or (field.name == "seconds" and isinstance(value, float))
            if not whole or isinstance(value, bool) or not 0 < value < 2**31:
                kind = "a number" if field.name == "seconds" else "a whole number"
                raise InvalidOption(
                    f"SandboxLimits({field.name}=...) is {kind} above 0, got {value!r:.80}"
                )


@dataclass(frozen=True, slots=True)
class CodeResult:
    """The output and the end of code. All of it was chosen by the code: it is data.

    ``ended`` is ``"exit"`` with its ``exit_code``, ``"signal"`` with the negated number of the
    signal as ``exit_code``, or with ``None`` the limit that ended it, ``"seconds"`` or
    ``"output"``.
    Output is text as UTF-8; bytes that are none are replaced.
    """

    stdout: str
    stderr: str
    exit_code: int | None
    ended: Ended

    @property
    def ok(self) -> bool:
        """True if the code ended by itself with exit code 0."""
        return self.exit_code == 0
