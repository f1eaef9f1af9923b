"""Roles: ``with AIRole():`` says who speaks in the block.

Invariant: the role before is restored however the block is left; roles nest.
"""

from __future__ import annotations

from types import TracebackType
from typing import ClassVar

from appl.errors import RunError
from appl.prompt import RoleName
from appl.runtime.frame import FRAME, Frame


class Role:
    """A block in which text is said by one role; also usable with ``async with``."""

    kind: ClassVar[RoleName] = "user"

    def __init__(self) -> None:
        self._before: list[tuple[Frame, RoleName]] = []

    def __enter__(self) -> None:
        frame = FRAME.get()
        if frame is None:
            raise RunError(f"{type(self).__name__} has no prompt here: use it in a @ppl function")
        self._before.append((frame, frame.role))
        frame.role = self.kind

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        here = FRAME.get()  # one object may be in use by several programs, that wait in between
        last = len(self._before) - 1
        found = (i for i in range(last, -1, -1) if self._before[i][0] is here)
        frame, role = self._before.pop(next(found, last))
        frame.role = role

    async def __aenter__(self) -> None:
        self.__enter__()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.__exit__(kind, error, traceback)


class SystemRole(Role):
    """The system speaks; its text stands at the front of the conversation."""

    kind = "system"


class UserRole(Role):
    """The user speaks: the role that a function starts with."""

    kind = "user"


class AIRole(Role):
    """The model speaks; a call inside continues what was said in the block."""

    kind = "assistant"


class ToolRole(Role):
    """A tool's result."""

    kind = "tool"
