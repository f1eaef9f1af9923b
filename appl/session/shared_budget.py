"""The budget of a command on which the processes that its program starts draw, too.

Invariant: what all of them have spent and reserved never passes a limit. The amounts lie in a file,
one row for each process, and are read and changed under its lock. What a process had reserved when
it died counts as spent.
"""

from __future__ import annotations

import fcntl
import os
import struct
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from appl.errors import ConfigError
from appl.runtime.run import Run
from appl.runtime.scheduling.accounts import Account, AccountState, Amounts
from appl.runtime.scheduling.policy import Allowance
from appl.session.session import BUDGET_ACCOUNT

_LIMITS, _ROW = struct.Struct("=3q"), struct.Struct("=7q")
Limits = tuple[int | None, int | None, int | None]
_LOCK_AT = 1 << 40
"""The byte that is locked while amounts change; those behind it are locked as long as the process
of that row lives. All lie far behind what is written."""

_files: dict[str, _BudgetFile] = {}
"""The files that this process has opened. Each is opened once, and not closed before the process
ends: to close one descriptor of a file gives back all locks that the process has on it."""
_owned: set[str] = set()


class _BudgetFile:
    """The file at *path*: limits, then what each process has spent and reserved."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        self._threads, self._depth = threading.RLock(), 0
        with self.locked():
            size = os.fstat(self._file).st_size - _LIMITS.size
            self._row, self._own = size // _ROW.size, [0] * 7
            self._write(self._row, self._own)
            fcntl.lockf(self._file, fcntl.LOCK_EX, 1, _LOCK_AT + 1 + self._row)

    @contextmanager
    def locked(self) -> Iterator[bool]:
        """A block in which no other process, and no other thread, reads or changes amounts.

        Its value is true in the outermost one: amounts may have changed before it.
        """
        with self._threads:
            self._depth += 1
            try:
                if self._depth == 1:
                    fcntl.lockf(self._file, fcntl.LOCK_EX, 1, _LOCK_AT)
                yield self._depth == 1
            finally:
                if self._depth == 1:
                    fcntl.lockf(self._file, fcntl.LOCK_UN, 1, _LOCK_AT)
                self._depth -= 1

    def limit(self, limits: Limits) -> None:
        """Have all processes keep to these limits of cost, tokens and calls."""
        written = [-1 if limit is None else limit for limit in limits]
        os.pwrite(self._file, _LIMITS.pack(*written), 0)

    def read(self) -> tuple[Limits, AccountState]:
        """The limits, and the amounts of all processes."""
        data = os.pread(self._file, os.fstat(self._file).st_size, 0)
        cost, tokens, calls = _LIMITS.unpack_from(data)
        limits = _limit_or_none(cost), _limit_or_none(tokens), _limit_or_none(calls)
        rows = _ROW.iter_unpack(data[_LIMITS.size :])
        sums = [sum(column) for column in zip(*rows, strict=True)]
        return limits, AccountState(Amounts(*sums[:3]), Amounts(*sums[3:6]), sums[6])

    def add(self, spent: Amounts, reserved: Amounts) -> None:
        """Add to the amounts of this process."""
        more = (*(amount or 0 for amount in (*spent, *reserved)), 1 if spent.cost is None else 0)
        self._own = [a + b for a, b in zip(self._own, more, strict=True)]
        self._write(self._row, self._own)

    def settle_dead(self) -> None:
        """Count as spent what processes had reserved that have died since."""
        data = os.pread(self._file, os.fstat(self._file).st_size, 0)
        for row, (*amounts, unpriced) in enumerate(_ROW.iter_unpack(data[_LIMITS.size :])):
            spent, reserved = amounts[:3], amounts[3:]
            if row != self._row and any(reserved) and self._is_dead(row):
                used = [a + b for a, b in zip(spent, reserved, strict=True)]
                self._write(row, [*used, 0, 0, 0, unpriced])

    def _is_dead(self, row: int) -> bool:
        try:
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, _LOCK_AT + 1 + row)
        except OSError:
            return False
        fcntl.lockf(self._file, fcntl.LOCK_UN, 1, _LOCK_AT + 1 + row)
        return True

    def _write(self, row: int, values: list[int]) -> None:
        os.pwrite(self._file, _ROW.pack(*values), _LIMITS.size + row * _ROW.size)


def _limit_or_none(limit: int) -> int | None:
    return None if limit < 0 else limit


class SharedAccount(Account):
    """An account of several processes, in *file*; without *allowance* it has the limits there."""

    __slots__ = ("_file",)
    poll_s = 0.05

    def __init__(self, file: _BudgetFile, allowance: Allowance | None = None) -> None:
        self._file = file
        super().__init__(allowance or Allowance())

    def allow(self, allowance: Allowance) -> None:
        """Have all processes keep to *allowance* from now on."""
        super().allow(allowance)
        if allowance:
            self._file.limit(self.limits)

    @contextmanager
    def held(self) -> Iterator[None]:
        """A block in which no other process reserves."""
        with self._file.locked() as is_outermost:
            if is_outermost:
                self._look()
            yield

    def fits(self, worst: Amounts) -> bool:
        """True if *worst* can be reserved now. Raises ``BudgetExceeded`` if it never can."""
        with self.held():
            if super().fits(worst):
                return True
            self._file.settle_dead()
            self._look()
            return super().fits(worst)

    def book(self, spent: Amounts, reserved: Amounts) -> None:
        """Add to what is spent and to what is reserved; either may be negative."""
        with self.held():
            self._file.add(spent, reserved)
            super().book(spent, reserved)

    def _look(self) -> None:
        self.limits, (self._spent, self.reserved, self.unpriced) = self._file.read()


def _opened(path: str) -> _BudgetFile:
    if path not in _files:
        _files[path] = _BudgetFile(path)
    return _files[path]


@contextmanager
def shared(run: Run, allowance: Allowance) -> Iterator[None]:
    """A block in which processes that are started draw on the budget of *run*."""
    descriptor, path = tempfile.mkstemp(prefix="appl-budget-")
    os.write(descriptor, _LIMITS.pack(-1, -1, -1))
    os.close(descriptor)
    _owned.add(path)
    run.tree.root.account = SharedAccount(_opened(path), allowance)
    os.environ[BUDGET_ACCOUNT] = path
    try:
        yield
    finally:
        os.environ.pop(BUDGET_ACCOUNT, None)
        Path(path).unlink()


def join(run: Run) -> None:
    """Have *run* draw on the budget of the run that has started this process."""
    path = os.environ[BUDGET_ACCOUNT]
    if path in _owned:
        return
    try:
        around = SharedAccount(_opened(path))
    except FileNotFoundError:
        raise ConfigError(
            f"{BUDGET_ACCOUNT}={path}: the run that has started this process, on whose budget it "
            f"draws, is over; unset {BUDGET_ACCOUNT} to give it the whole of APPL_BUDGET"
        ) from None
    root = run.tree.root
    if root.account is None:
        root.account = around
    else:
        root.account.around = around


def _forget() -> None:
    """In a forked child: the descriptors stay open, and it opens the files anew."""
    _owned.clear()
    _files.clear()


os.register_at_fork(after_in_child=_forget)
