"""The calls of a recorded run that ``--anew failed`` asks again: those that it failed by.

Invariant: only reads. A failed tool whose message the model was told is none of them.
"""

from __future__ import annotations

from collections.abc import Iterator

from appl.tracing.format.failures import ITEM, Failure
from appl.tracing.reading.trace import RecordedCall, Trace

FAILED = "failed"
"""The word that stands for all of them, where calls are named."""
_COMPARED = 2000


class FailedParts:
    """The failed calls of *trace*, the answers that were refused, and the items that failed.

    A refused answer is asked from its first question on. Of an item that failed with the error of a
    call, or of a refused answer, only this is asked again, else all of its calls.
    """

    def __init__(self, trace: Trace) -> None:
        failures = trace.failures.values()
        self._calls = {call.address for call in trace.calls if _has_failed(call)}
        self._refused = {failure.of for failure in failures if failure.kind != ITEM}
        self._below = set(self._refused)
        inner = [(failure.of, failure.error) for failure in failures if failure.kind != ITEM]
        inner += [(call.address, call.error) for call in trace.calls if _has_failed(call)]
        inner += [(failure.address, failure.error) for failure in failures if failure.kind == ITEM]
        explained = {
            (around, _words(error)) for address, error in inner for around in _around(address)
        }
        items = [failure for failure in failures if failure.kind == ITEM]
        self._below |= {one.address for one in items if not _explained(one, explained)}
        self._items = {one.address for one in items}

    def __bool__(self) -> bool:
        return bool(self._calls or self._below)

    def has(self, address: str) -> bool:
        """True if the call at *address* is one of them."""
        return address in self._calls or any(
            at in self._below for at in (address, *_around(address))
        )

    def was_refused(self, address: str) -> bool:
        """True if the call at *address* was the first to ask for an answer that was refused."""
        return address in self._refused

    def in_item(self, address: str) -> bool:
        """True if *address* is in an item that failed."""
        return any(at in self._items for at in _around(address))


def _has_failed(call: RecordedCall) -> bool:
    return call.ended_as == "failed"


def _explained(item: Failure, explained: set[tuple[str, str]]) -> bool:
    return (item.address, _words(item.error)) in explained


def _words(error: BaseException | None) -> str:
    return str(error)[:_COMPARED]


def _around(address: str) -> Iterator[str]:
    """The addresses around *address*, inner ones first."""
    while address := address.rpartition("/")[0]:
        yield address
