"""The failures of a run besides calls: refused answers, items of maps, and tools; their sums."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

ANSWER, ITEM = "answer", "item"
_COMPARED = 500


@dataclass(frozen=True, slots=True)
class Failure:
    """An answer that was refused for the last time, or an item that raised: its ``kind``.

    An item is one of ``map`` or ``as_completed``, or a function that ``call`` started. ``of`` is
    the address of the first call that asked for the answer, or of the first item beside this one.
    They are so many ``items``; 0 where not all of them run. ``error_key`` tells errors apart.
    """

    address: str
    kind: str
    of: str
    items: int = 0
    at: int = 0
    error: BaseException | None = None
    error_key: str = ""

    def as_data(self) -> dict[str, object]:
        """The failure as JSON-ready data."""
        error = self.error
        problem = None if error is None else {"type": type(error).__name__, "message": str(error)}
        return {"address": self.address, "kind": self.kind, "of": self.of, "error": problem}


Failures = dict[str, Failure]
"""The failures of a run by their addresses: those that stand after all of its processes."""


def forget_retried(failures: Failures, address: str) -> None:
    """Forget the failure of the call at *address*, which a later process asks again, and those of
    the items around it.
    """
    while failures and address:
        failures.pop(address, None)
        address = address.rpartition("/")[0]


def counted_items(failures: Failures) -> list[Failure]:
    """The failed items that count: not those whose error an item around them failed with."""
    counted: list[Failure] = []
    for one in failures.values():
        address, went_on = one.address, False
        while not went_on and (address := address.rpartition("/")[0]):
            around = failures.get(address)
            if around is not None and around.kind == ITEM:
                went_on = around.error_key == one.error_key
        if one.kind == ITEM and not went_on:
            counted.append(one)
    return counted


def counts_of(failures: Failures, tools: int = 0) -> FailureCounts:
    """The sums of *failures*, where so many *tools* failed."""
    every = [one for one in failures.values() if one.kind == ITEM]
    counted = counted_items(failures)
    counts = FailureCounts(len(failures) - len(every), 0, len(counted), tools)
    sizes = {one.of: one.items for one in counted if one.items}
    if sizes:
        good = sum(sizes.values()) - sum(one.of in sizes for one in every)
        counts.items = good + counts.items_failed
    return counts


@dataclass(slots=True)
class FailureCounts:
    """The numbers of answers that were ``rejected``, and of items and tools that failed.

    ``items`` are the failed items and the good ones beside them; 0 where no map of them ran to its
    end, so that nobody knows how many good ones there are.
    """

    rejected: int = 0
    items: int = 0
    items_failed: int = 0
    tools_failed: int = 0

    def as_data(self) -> dict[str, int]:
        """The counts as JSON-ready data."""
        return {name: getattr(self, name) for name in self.__slots__}

    @classmethod
    def of_data(cls, data: Mapping[str, Any]) -> FailureCounts:
        """The counts among *data*, of which an older trace has none."""
        numbers = {name: data.get(name) for name in cls.__slots__}
        return cls(**{name: n for name, n in numbers.items() if type(n) is int})

    @property
    def has_retriable(self) -> bool:
        """True if there is something that ``--anew failed`` asks again."""
        return self.rejected > 0 or self.items_failed > 0

    def __bool__(self) -> bool:
        return any(self.as_data().values())

    def words(self, over: bool = True) -> list[str]:
        """The counts in words; *over* if all items have ended."""
        return list(self._words(over))

    def brief(self) -> list[str]:
        """The failures in as few words as a table has room for."""
        of = f" of {self.items}" if self.items else ""
        items = [f"{self.items_failed}{of} items"] if self.items_failed else []
        answers = [_counted(self.rejected, "answer")] if self.rejected else []
        return [
            *items,
            *answers,
            *([_counted(self.tools_failed, "tool")] if self.tools_failed else []),
        ]

    def _words(self, over: bool) -> Iterator[str]:
        if self.items and over:
            good = self.items - self.items_failed
            yield f"{_counted(self.items, 'item')}: {good} good, {self.items_failed} failed"
        elif self.items:
            yield f"{self.items_failed} of {self.items} items failed"
        elif self.items_failed:
            yield f"{_counted(self.items_failed, 'item')} failed"
        if self.rejected:
            yield f"{_counted(self.rejected, 'answer')} refused by type"
        if self.tools_failed:
            yield f"{_counted(self.tools_failed, 'tool call')} failed"


def _counted(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def error_key(kind: str, message: str) -> str:
    """The text by which an error of *kind*, the nearest type that a replay knows, is recognized."""
    return f"{kind}: {message}"[:_COMPARED]


@dataclass(slots=True)
class RunningFailures:
    """The failures of a run so far, while it goes on."""

    known: Failures = field(default_factory=dict)
    tools: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, failures: Iterable[Failure], tools: Iterable[str]) -> RunningFailures:
        """Those of the processes before."""
        return cls({failure.address: failure for failure in failures}, set(tools))

    def counts(self) -> FailureCounts:
        """The sums."""
        return counts_of(self.known, len(self.tools))
