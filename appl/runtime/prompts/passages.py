"""``passages``: the order of passages in a prompt, so that prompts with the same ones begin alike.

A server keeps the computed beginnings of prompts. Two prompts with the same passages in other
orders share nothing of that, in one order they share all of it.

Invariant: what is chosen is recorded where it is chosen, so that a replay, a resumed run and a
rerun have the same prompts; nothing is left out or changed.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from typing import Literal, TypeVar
from weakref import WeakKeyDictionary

from appl.base.threads import process_lock
from appl.errors import InvalidOption, nearest
from appl.prompt import digest_of
from appl.runtime.concurrency.future import finished
from appl.runtime.frame import FrameRun, here

T = TypeVar("T")

_ORDERS = ("given", "shared")


def passages(chunks: Iterable[T], order: Literal["given", "shared"] = "given") -> list[T]:
    """The *chunks* in the order in which a prompt is to hold them.

    With ``order="shared"`` those come first with which earlier prompts of this run began, so that a
    server which keeps beginnings computes them once::

        for passage in appl.passages(found, order="shared"):
            f"{passage}"

    Then the best passage is not always the first, which may count for a model; ``"given"`` leaves
    them as they are. A chunk is a text, or whatever says by ``str`` what it says in the prompt.
    """
    if order not in _ORDERS:
        raise InvalidOption(
            f"passages(order={order!r:.40}) is one of {', '.join(_ORDERS)}"
            f"{nearest(str(order), _ORDERS)}"
        )
    chunks = finished(chunks)
    if isinstance(chunks, str | bytes) or not isinstance(chunks, Iterable):
        raise InvalidOption(f"passages(chunks) takes a list of texts, got {chunks!r:.80}")
    items = list(chunks)
    if order == "given" or len(items) < 2:
        return items
    keys = [digest_of(str(chunk)) for chunk in items]
    frame = here(lambda: "passages", call=False)
    shared = _shared(frame.run)
    places = frame.run.outside.observe(frame, "passages", lambda: shared.order(keys))
    if not isinstance(places, list) or sorted(places) != list(range(len(items))):
        places = shared.order(keys)  # an edited program has found other passages
    shared.note([keys[place] for place in places])
    return [items[place] for place in places]


class _Node:
    """A beginning of prompts: so many ``uses``, and those that go on from it by the next key."""

    __slots__ = ("following", "uses")

    def __init__(self) -> None:
        self.uses = 0
        self.following: dict[bytes, _Node] = {}


class SharedOrder:
    """The beginnings that the prompts of one run had, by the keys of their passages."""

    def __init__(self) -> None:
        self._root = _Node()
        self._uses: dict[bytes, int] = {}
        self._lock = threading.Lock()  # threads of one run may ask at once

    def order(self, keys: Sequence[bytes]) -> list[int]:
        """The places of *keys* in the order for a prompt with all of them.

        First the beginning that most earlier prompts had, as far as *keys* go; then those that most
        prompts had anywhere, as the next ones will have them, too. Of equal ones the first in
        *keys* comes first.
        """
        with self._lock:
            remaining = {key: keys.index(key) for key in keys}
            places: list[int] = []
            following = self._root.following
            while known := [key for key in remaining if key in following]:
                best = max(known, key=lambda key: following[key].uses)
                places.append(remaining.pop(best))
                following = following[best].following
            begun = {*places}
            rest = [place for place in range(len(keys)) if place not in begun]
            return places + sorted(rest, key=lambda place: -self._uses.get(keys[place], 0))

    def note(self, keys: Sequence[bytes]) -> None:
        """Note that a prompt has *keys*, in this order."""
        with self._lock:
            node = self._root
            for key in keys:
                self._uses[key] = self._uses.get(key, 0) + 1
                node = node.following.setdefault(key, _Node())
                node.uses += 1


_of_runs: WeakKeyDictionary[FrameRun, SharedOrder] = WeakKeyDictionary()
_lock = process_lock()


def _shared(run: FrameRun) -> SharedOrder:
    with _lock:
        order = _of_runs.get(run)
        if order is None:
            order = _of_runs[run] = SharedOrder()
        return order
