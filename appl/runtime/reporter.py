"""Reports of what happens in a run: events to its instruments, lines to the user.

Invariant: an instrument that fails is dropped with a warning; it never stops the program.
"""

from __future__ import annotations

import sys
import time
import weakref
from collections.abc import Callable, Iterable, Mapping

from appl.backend import offers
from appl.runtime.event import (
    Concealing,
    Event,
    Instrument,
    Unfailing,
    WantsArguments,
    Warned,
    wants_chunks,
)


class Reporter:
    """Tells the instruments of a run what happens, and the user what he should know.

    ``watcher`` is who takes the events, ``None`` without instruments. ``streams`` is true if one
    of them wants the pieces of answers, ``shows_arguments`` if one wants the arguments and results
    of functions. ``tell`` writes a line for the user, to stderr unless somebody replaces it.
    """

    def __init__(self, instruments: Iterable[Instrument]) -> None:
        self._watch_with(every := list(instruments))
        self.streams = any(map(wants_chunks, every))
        self.shows_arguments = any(
            offers(one, WantsArguments) and one.wants_arguments for one in every
        )
        self.tell: Callable[[str], None] = lambda line: print(line, file=sys.stderr)
        self._reported: set[object] = set()

    def add_first(self, instrument: Instrument) -> None:
        """Tell *instrument* what happens before all others; once, also if it was there."""
        others = [one for one in self.instruments if one is not instrument]
        self._watch_with([instrument, *others])

    def remove(self, instrument: Instrument) -> None:
        """Tell *instrument* nothing any more."""
        self._watch_with([one for one in self.instruments if one is not instrument])

    def _watch_with(self, instruments: list[Instrument]) -> None:
        self.instruments, self.watcher = instruments, None
        only = instruments[0] if len(instruments) == 1 else None
        if only is not None and offers(only, Unfailing) and only.never_raises:
            self.watcher = instruments[0]
        elif instruments:
            # Weakly: a reporter that held itself would wait for the garbage collector.
            self.watcher = weakref.proxy(self)

    watcher: Instrument | None

    def on_event(self, event: Event) -> None:
        """Tell every instrument; one that raises is dropped, with a warning."""
        for instrument in self.instruments:
            try:
                instrument.on_event(event)
            except Exception as error:
                self.remove(instrument)
                self.warn("", f"{type(instrument).__name__} failed and is dropped: {error!r}")

    def emit(self, event: Event) -> None:
        """Tell whoever watches."""
        if self.watcher is not None:
            self.watcher.on_event(event)

    def conceal(self, secrets: Mapping[str, str]) -> None:
        """Have every instrument that keeps text mask *secrets*, by name, from now on."""
        for instrument in self.instruments:
            if offers(instrument, Concealing):
                instrument.conceal(secrets)

    def warn(self, address: str, message: str) -> None:
        """Tell the user something, on stderr and as an event."""
        self.tell(_signed(message))
        self.emit(Warned(address, message, time.monotonic_ns()))

    def has_reported(self, key: object) -> bool:
        """True if the user was told what *key* stands for."""
        return key in self._reported

    def tell_once(self, key: object, message: str) -> None:
        """Tell the user something on stderr, once for each *key*."""
        if key not in self._reported:
            self._reported.add(key)
            self.tell(_signed(message))


def _signed(message: str) -> str:
    """The line that shows *message* and says that it comes from here."""
    return printable(message if message.startswith("appl ctl: ") else f"appl: {message}")


def printable(text: str) -> str:
    """*text* without anything that a terminal would obey."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
