"""The policy of a run's scheduler, as one frozen value; every part can be switched off.

Invariant: plain data, checked where it is made; ``Policy.naive()`` is dispatch and nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from appl.errors import InvalidOption

if TYPE_CHECKING:
    from appl.backend.price import Price
    from appl.runtime.scheduling.timers import Clock

_NOTHING: Mapping[str, Any] = MappingProxyType({})


def _check(name: str, value: object, least: float = 0) -> None:
    if value is not None and not isinstance(value, int | float):
        raise InvalidOption(f"{name} must be a number, got {value!r:.80}")
    if value is not None and not value >= least:
        raise InvalidOption(f"{name} must be at least {least}, got {value!r}")


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of one backend, at once and for a period; ``None`` is without limit.

    At most ``concurrency`` calls are on their way, at most ``requests`` are begun in any
    ``period_s`` seconds, and at most ``tokens_per_minute`` are asked for: prompt and longest
    answer, corrected afterwards by the tokens that were used.
    """

    concurrency: int | None = None
    requests: int | None = None
    period_s: float = 60.0
    tokens_per_minute: int | None = None

    def __post_init__(self) -> None:
        for name in ("concurrency", "requests", "tokens_per_minute"):
            _check(f"limits.{name}", getattr(self, name), 1)
        _check("limits.period_s", self.period_s, 1e-6)


@dataclass(frozen=True, slots=True)
class Retries:
    """The retries of a call whose attempt failed.

    There are at most ``attempts`` in all. Between two attempts lies a random time of up to
    ``base_s``, which doubles with each, but for ``cap_s`` at most, and never less than the server
    asked for. All calls together are retried ``spare`` times and once more per ``1/share`` new
    calls. A call that a busy backend turned away, or that waits for a dead one, has not been
    attempted: it waits for its turn.

    A call waits no longer when its backend has refused calls and answered none for ``patience_s``
    seconds, or so long after it was first refused itself: see ``Admission.late``. With one attempt
    no call waits for a backend.
    """

    attempts: int = 3
    base_s: float = 0.5
    cap_s: float = 30.0
    share: float = 0.2
    spare: int = 10
    patience_s: float = 60.0

    def __post_init__(self) -> None:
        _check("retries.attempts", self.attempts, 1)
        for name in ("base_s", "cap_s", "share", "spare", "patience_s"):
            _check(f"retries.{name}", getattr(self, name))


ATTEMPT_S = 1800.0
"""The seconds for one attempt where nobody sets a deadline: enough for a long reasoning answer."""


EXPECTED_ANSWER = 256
"""The tokens of an answer without a limit."""


@dataclass(frozen=True, slots=True)
class Deadlines:
    """The seconds that an answer may take; ``None`` is without limit.

    ``first_token_s`` and ``between_tokens_s`` hold for each attempt with a backend that can stream,
    also if the program does not. ``total_s`` holds for the call with all its attempts, unless
    ``gen(timeout=…)`` is given. Without both, each attempt and each connecting has ``ATTEMPT_S``;
    ``total_s=math.inf`` lifts that.
    """

    first_token_s: float | None = None
    between_tokens_s: float | None = None
    total_s: float | None = None

    def __post_init__(self) -> None:
        for name in ("first_token_s", "between_tokens_s", "total_s"):
            _check(f"deadlines.{name}", getattr(self, name), 1e-9)


@dataclass(frozen=True, slots=True)
class Allowance:
    """The amounts that may be used; ``None`` is without limit.

    ``cost`` is in the currency unit of the prices, such as 2.5 dollars.
    """

    cost: float | None = None
    tokens: int | None = None
    calls: int | None = None

    def __post_init__(self) -> None:
        for name in ("cost", "tokens", "calls"):
            _check(f"budget.{name}", getattr(self, name))
        if self.cost is not None and self.cost == math.inf:
            raise InvalidOption("budget.cost must be an amount of money; leave it out for no limit")

    def __bool__(self) -> bool:
        return self.cost is not None or self.tokens is not None or self.calls is not None


@dataclass(frozen=True, slots=True)
class Policy:
    """The settings of a run's scheduler.

    ``order`` is the order of ready calls. With ``warm``, a backend whose server caches prefixes may
    bring another order: it sends a long shared prefix first where that pays (``"always"``: wherever
    one is shared), and keeps conversations in the cache. ``gather_s`` is the time for which it
    waits for more calls to compare with each other (0: it does not).
    ``prices`` are by name of the model, ``""`` stands for all others. ``slow_start`` begins with
    ``concurrency_start`` calls at once instead of all that the limit allows; after the backend was
    busy once, every run does so. With ``circuit`` one call alone looks whether a dead backend is
    alive again. With ``adaptive`` the number of calls at once shrinks when the backend is busy.
    ``clock`` is for tests.
    """

    order: Literal["program", "fifo"] = "program"
    warm: bool | Literal["always"] = True
    gather_s: float = 0.001
    limits: Limits = Limits()
    slow_start: bool = False
    concurrency_start: int = 8
    adaptive: bool = True
    budget: Allowance = Allowance()
    prices: Mapping[str, Price] = field(default_factory=lambda: _NOTHING)
    retries: Retries = Retries()
    deadlines: Deadlines = Deadlines()
    circuit: bool = True
    clock: Clock | None = None

    def __post_init__(self) -> None:
        _check("concurrency_start", self.concurrency_start, 1)

    @classmethod
    def naive(cls) -> Policy:
        """A policy that sends every call once, as it comes."""
        return cls(
            order="fifo",
            warm=False,
            gather_s=0,
            adaptive=False,
            retries=Retries(attempts=1),
            circuit=False,
        )
