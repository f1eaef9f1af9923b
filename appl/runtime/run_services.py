"""The services and settings of a run, which its calls and programs ask for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from appl.backend import Backend

Entered = Callable[[Exception | None], None]


@dataclass(frozen=True, slots=True)
class Services:
    """The services and settings of a run, which do not change while it goes on.

    ``enter`` is called on the I/O loop before each call starts. It returns true if the call may
    start now. Otherwise it calls its argument later, on the loop: with an error that refuses the
    call, or with ``None``. ``gate`` does the same for who may block: it returns, or raises;
    ``barrier`` before a tool with effects runs, on its thread: it returns when all that happened
    so far is recorded. ``sequential`` waits for every call where it stands: the naive twin of the
    scheduler. The rest are defaults for what a call leaves open, ``sampling`` those of further
    options by name.
    """

    backend: Backend
    gate: Callable[[], None] | None = None
    barrier: Callable[[], None] | None = None
    sequential: bool = False
    model: str = ""
    temperature: float | None = None
    max_tokens: int | None = None
    seed: int | None = None
    salt: str = ""
    enter: Callable[[Entered], bool] | None = None
    sampling: Mapping[str, object] = field(default_factory=dict)
