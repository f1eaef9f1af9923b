"""Roles: ``with AIRole():`` says who speaks in the block.

Invariant: the voice before is restored however the block is left; blocks nest, and one object may
be in use by several programs at once.
"""

from __future__ import annotations

from typing import Any, ClassVar, TypeVar

from appl.errors import RunError
from appl.prompt import RoleName, Voice
from appl.runtime.frame import FRAME, PromptWriter

S = TypeVar("S", bound="Spoken")


class Spoken:
    """A block whose text is said in a voice of its own; also usable with ``async with``.

    *_ctx* is the prompt that the block is about, when it is not that of the running function.
    """

    def __init__(self, *, _ctx: PromptWriter | None = None) -> None:
        self._ctx = _ctx
        self._before: dict[PromptWriter, list[Voice]] = {}

    def voice(self, around: Voice) -> Voice:
        """The voice of the block inside *around*."""
        raise NotImplementedError

    def begin(self, writer: PromptWriter) -> None:
        """From now on *writer* says the text of the block."""
        writer.voice = self.voice(writer.voice)

    def end(self, writer: PromptWriter) -> None:
        """*writer* has said all of the block; the voice is restored by whoever began it."""

    def __enter__(self: S) -> S:
        writer = self._writer()
        if writer is None:
            name = type(self).__name__
            raise RunError(f"{name} has no prompt here: use it in a @ppl function")
        self._before.setdefault(writer, []).append(writer.voice)
        self.begin(writer)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, traceback: object) -> None:
        writer, entered = self._writer(), self._before
        if writer is None or writer not in entered:  # left from elsewhere than it was entered
            writer = next(reversed(entered))
        if kind is None:
            self.end(writer)
        writer.voice = entered[writer].pop()
        if not entered[writer]:
            del entered[writer]

    @property
    def entered(self) -> bool:
        """True if it is in use."""
        return bool(self._before)

    @property
    def has_prompt(self) -> bool:
        """True if there is a prompt here that the block could be about."""
        return self._writer() is not None

    def _writer(self) -> PromptWriter | None:
        return self._ctx if self._ctx is not None else FRAME.get()

    async def __aenter__(self: S) -> S:
        return self.__enter__()

    async def __aexit__(self, *error: Any) -> None:
        self.__exit__(*error)


class Role(Spoken):
    """A block in which text is said by one role.

    With a *name*, the speaker is told apart from others of the role. Inside a compositor the items
    of the block go on with its format and its numbers.
    """

    kind: ClassVar[RoleName] = "user"

    def __init__(self, name: str | None = None, *, _ctx: PromptWriter | None = None) -> None:
        super().__init__(_ctx=_ctx)
        if name is not None and not isinstance(name, str):
            own = type(self).__name__
            raise TypeError(f"{own}(name) is the name of a speaker, got {name!r:.80}")
        self.name = str.__str__(name) if name is not None else None

    def voice(self, around: Voice) -> Voice:
        return Voice(self.kind, self.name, around.level, around.depth + 1)


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
