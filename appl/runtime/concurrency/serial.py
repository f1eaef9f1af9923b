"""The time for which a run waited for one call alone, by the function that made the call.

The watchdog adds to it a few times a second, so that a call costs nothing. A function whose calls
are waited for one after the other, though none has the answer of another in its prompt, might have
started them all at once.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from appl.backend import Request
    from appl.runtime.concurrency.promise import Outcome

LEAST_S, SHARE = 1.0, 1 / 3
_SHORT = 3  # characters of an answer that may be in any prompt by chance
_MOST = 10_000  # functions that are kept apart
_RECENT = 1_000  # calls of a function whose seconds are kept apart


class WaitedCall(Protocol):
    """A call, as far as the time for which it is waited for needs it."""

    address: str
    request: Request | None
    outcome: Outcome | None

    @property
    def file(self) -> str | None:
        """The user's file."""

    @property
    def line(self) -> int | None:
        """The user's line."""

    def edges(self) -> tuple[str, ...]:
        """The addresses of the calls whose answers its prompt holds."""


@dataclass(slots=True)
class SequentialCalls:
    """The calls of one function in one caller: seconds of each, and the line of a call in it.

    Of the earliest ones only the sum and the maximum are kept, as ``earlier`` and ``longest``, and
    their number. ``said`` is the last answer inside of call ``number``, ``said_before`` that of the
    one before.
    """

    where: str
    seconds: dict[str, float] = field(default_factory=dict)
    folded: int = 0
    earlier: float = 0.0
    longest: float = 0.0
    depends: bool = False
    number: str = ""
    said: str = ""
    said_before: str = ""

    def enter(self, number: str) -> None:
        """Note that the call *number* is waited for from now on."""
        if number != self.number:
            self.number, self.said_before, self.said = number, self.said, ""

    def add(self, number: str, seconds: float) -> None:
        """Add *seconds* in which the call *number* was waited for."""
        self.seconds[number] = self.seconds.get(number, 0.0) + seconds
        if len(self.seconds) > _RECENT:
            for early in list(self.seconds)[: _RECENT // 2]:
                took = self.seconds.pop(early)
                self.earlier, self.longest = self.earlier + took, max(self.longest, took)
            self.folded += _RECENT // 2

    @property
    def count(self) -> int:
        """The number of calls."""
        return self.folded + len(self.seconds)

    @property
    def took(self) -> float:
        """The seconds of all of them."""
        return self.earlier + sum(self.seconds.values())

    @property
    def lost(self) -> float:
        """The seconds that would have been saved if all had been started at once."""
        if self.depends or self.count < 2:
            return 0.0
        return self.took - max(self.longest, *self.seconds.values())


class SerialWaits:
    """The calls for which one run has waited alone."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str], SequentialCalls] = {}
        self._call: WaitedCall | None = None
        self._seconds = 0.0

    def note(self, call: WaitedCall, seconds: float) -> None:
        """Add *seconds* in which the run waited for *call*, and nothing else was under way."""
        if call is not self._call:
            self._add_last()
            self._call, self._seconds = call, 0.0
        self._seconds += seconds

    def _add_last(self) -> None:
        """Add the last call that was waited for, and keep its answer for those that follow it."""
        call, self._call = self._call, None
        for parent, name, number in _levels(call.address) if call is not None else ():
            assert call is not None
            turns = self._found.get((parent, name))
            if turns is None:
                if len(self._found) >= _MOST:
                    return
                where = f"{call.file}:{call.line}" if call.file else ""
                turns = self._found[parent, name] = SequentialCalls(where)
            turns.add(number, self._seconds)
            turns.enter(number)
            if not turns.depends:
                siblings = f"{parent}/{name}."
                turns.depends = _needs(call, turns.said_before, siblings, f"{siblings}{number}")
            turns.said = _answer(call)

    def end(self) -> None:
        """The run is over: let go of its last call, which holds the run."""
        self._add_last()

    def worst(self) -> tuple[str, SequentialCalls] | None:
        """The function that lost most, by name."""
        self._add_last()
        worst = max(self._found.items(), key=lambda entry: entry[1].lost, default=None)
        return None if worst is None or not worst[1].lost else (worst[0][1], worst[1])

    def line(self, duration: float) -> str:
        """The advice to the user of a run that took *duration* seconds; mostly empty."""
        worst = self.worst()
        if worst is None or worst[1].lost < max(LEAST_S, SHARE * duration):
            return ""
        name, turns = worst
        count, took = turns.count, turns.took
        return (
            f"{count} calls of {name} ({turns.where}) were waited for one after the other, for "
            f"{took:.1f} s; if none needs the answer of another, {_advice(name)}: about "
            f"{took - turns.lost:.1f} s"
        )


def _advice(name: str) -> str:
    if name in ("gen", "select", "gen_with_tools"):
        return "start all of them first, in a list, and use the answers afterwards"
    return f"write appl.map({name}, items), or @ppl(parallel=True) above {name}"


def _levels(address: str) -> list[tuple[str, str, str]]:
    """Each step of *address*: the caller, the name, and its number there."""
    parts = address.split("/")[1:]
    levels = []
    for place, part in enumerate(parts):
        name, _, number = part.rpartition(".")
        levels.append(("/" + "/".join(parts[:place]) if place else "", name, number))
    return levels


def _needs(call: WaitedCall, earlier_answer: str, siblings: str, own: str) -> bool:
    """True if the prompt of *call* has the earlier answer of a sibling, as far as is known.

    An answer that went through plain Python is found by its text.
    """
    for address in call.edges():
        if address.startswith(siblings) and not f"{address}/".startswith(f"{own}/"):
            return True
    prompt = call.request.messages if call.request is not None else None
    if prompt is None or len(earlier_answer) < _SHORT:
        return False
    return any(earlier_answer in message.content for message in prompt)


def _answer(call: WaitedCall) -> str:
    """The text that *call* was answered with; empty while there is none."""
    outcome = call.outcome
    value = getattr(outcome, "prompt_part", None)
    return value.strip() if isinstance(value, str) else ""  # str() is for users, and may advise
