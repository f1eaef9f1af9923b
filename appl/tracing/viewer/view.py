"""The documents that a browser can ask for about one run, or about two: plain data, by name.

Invariant: a document is made of one moment of a run that may be growing; an unknown name, or a
number that is not one, is a ``KeyError``.
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from itertools import islice
from typing import Any

from appl.base.collecting import no_collection
from appl.errors import TraceError
from appl.tracing.explaining import costs
from appl.tracing.explaining.steps import Steps
from appl.tracing.reading.documents import jsonable
from appl.tracing.reading.following import Following
from appl.tracing.reading.trace import Returned
from appl.tracing.recording.secret import Masker
from appl.tracing.viewer.comparison import comparison
from appl.tracing.viewer.critical import critical
from appl.tracing.viewer.page_data import as_json, exact
from appl.tracing.viewer.prefixes import PrefixTree
from appl.tracing.viewer.rows import OUTCOMES, Rows
from appl.tracing.viewer.run_documents import Whole
from appl.tracing.viewer.search import Search
from appl.tracing.viewer.texts import Texts

Asked = Mapping[str, str]
_FRESH, _PATIENCE = 0.2, 0.15
_TURN = 0.001
_PIECE = 0.02
"""The seconds for which one call's texts may have to wait for the reading of the run."""
_MOST, _LONG = 500, 1000


class View:
    """One run as a viewer needs it; a request reads new records, at most five times a second.

    Raises ``TraceError`` if the run cannot be read at first; a run that is damaged later keeps what
    was read, and says so in ``run``. A long run is read in pieces of *patience* seconds.
    The run does not change for a thread that holds ``lock``; it must not request a document then.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        salvage: bool = False,
        patience: float = _PATIENCE,
    ) -> None:
        self._following = Following(path, salvage=salvage)
        self._patience = patience
        self.trace = self._following.trace
        self.rows = Rows(self.trace)
        self.texts = Texts(self.rows)
        self._prefixes = PrefixTree(self.rows)
        self._search = Search(self.rows, "")
        self.lock = threading.RLock()
        self.answers = False  # whether a page may answer the run's questions
        self._awaited = list[str]()  # requests for a call's texts that wait, from any thread
        self._read = -_FRESH
        self._damage = ""
        try:
            self.rows.touch(self._following.poll(patience))
        except BaseException:
            self.close()
            raise
        self._documents = {
            "run": self._run,
            "rows": self._changes,
            "scopes": self._scopes,
            "call": lambda parameters: self.texts.call(_number(parameters, "row")),
            "messages": lambda parameters: self.texts.messages(_numbers(parameters, "ids")),
            "search": self._found,
        }
        takers: dict[str, Callable[[], Callable[[], object]]] = {
            "prefixes": self._prefixes.taken,
            "critical": lambda: partial(critical, Steps(self.trace), self.rows),
            "costs": self._costs,
            "evaluations": self._evaluations,
        }
        self._whole = {
            name: Whole(self.lock, lambda: self.trace.records, take)
            for name, take in takers.items()
        }

    def close(self) -> None:
        """Close the file."""
        self._following.close()

    def document(self, name: str, parameters: Asked) -> Any:
        """The document *name*, as JSON-ready data. Raises ``KeyError``."""
        try:
            if name in self._whole or name == "search":
                self._read_on()
            if name in self._whole:
                return self._whole[name].document()
            make = self._documents[name]
            if name in ("call", "messages"):
                return self._of_call(name, make, parameters)
            with self.lock:
                self._read_for(name, parameters)
                return make(parameters)
        except (IndexError, ValueError) as error:
            raise KeyError(name) from error

    def _of_call(self, name: str, make: Callable[[Asked], Any], parameters: Asked) -> Any:
        """A document of one call, which a reader waits for: the reading of the run stops for it."""
        self._awaited.append(name)
        try:
            with self.lock:
                self._read_for(name, parameters)
                return make(parameters)
        finally:
            self._awaited.pop()

    def _read_on(self) -> None:
        """Read to the end of the file, in pieces."""
        # The lock is free during the sleep: requests on other threads are answered between pieces.
        while not self._at_end():
            time.sleep(_TURN)

    def _at_end(self) -> bool:
        """Read one more piece if there may be any; true if the end is reached."""
        with self.lock:
            if self._following.behind or time.monotonic() - self._read >= _FRESH:
                self.read(self._patience)
            return bool(self._damage) or not self._following.behind

    def _read_for(self, name: str, parameters: Asked) -> None:
        """Read on before *name* is made; of a long run, the rows read so far are sent first."""
        if self._following.behind:
            if name == "rows" and not self.rows.news(_number(parameters, "since")):
                # For the usual time, or until a reader waits for a call's texts.
                until = time.monotonic() + self._patience
                while True:
                    self.read(min(_PIECE, self._patience))
                    is_done = self._damage or not self._following.behind
                    if is_done or self._awaited or time.monotonic() >= until:
                        return
        elif time.monotonic() - self._read >= _FRESH:
            self.read(self._patience)

    def read(self, patience: float = math.inf) -> None:
        """Read on for about *patience* seconds, or to the end of the file."""
        with self.lock:
            if self._damage:
                return
            try:
                with no_collection():
                    self.rows.touch(self._following.poll(patience))
            except TraceError as error:
                self._damage = str(error)
            self._read = time.monotonic()

    def _run(self, parameters: Asked) -> dict[str, object]:
        trace = self.trace
        began = trace.began()
        return {
            "name": trace.path.stem,
            "state": "reading" if self._following.behind else trace.state,
            "reason": trace.reason,
            "error": f"{type(trace.error).__name__}: {trace.error}" if trace.error else "",
            "began": began.isoformat() if began else "",
            "header": exact(jsonable(trace.header)),
            "warnings": [list(pair) for pair in trace.warnings[:_MOST]],
            "processes": [
                {name: getattr(process, name) for name in ("pid", "host", "reason", "wall")}
                for process in trace.incarnations[:_MOST]
            ],
            "observations": len(trace.observations),
            "records": trace.records,
            "masked": trace.masked,
            "torn": trace.torn,
            "damage": self._damage,
            "failures": self._failures(),
            **self._asked(),
            "outcomes": OUTCOMES,
        }

    def _asked(self) -> dict[str, object]:
        """The questions to people, and the other waits of the run."""
        if not any(
            observation.kind in ("asked", "waiting") for observation in self.trace.observations
        ):
            return {"questions": [], "waits": [], "answers": False}
        from appl.tracing.viewer.questions import questions, waits  # few runs ask people

        questions_put, others = questions(self.trace), waits(self.trace)
        return {"questions": questions_put, "waits": others, "answers": self.answers}

    def _failures(self) -> list[str]:
        """The failures besides calls, in words."""
        trace = self.trace
        return trace.failure_counts().words(
            trace.state == "finished" and trace.reason == "finished"
        )

    def _costs(self) -> Callable[[], object]:
        return costs.of(self.trace).as_data

    def _evaluations(self) -> Callable[[], object]:
        from appl.tracing.viewer.evaluations import documents  # few runs have any

        evaluations = documents(self.trace)
        return lambda: evaluations

    def _changes(self, parameters: Asked) -> dict[str, object]:
        changes = self.rows.changes(_number(parameters, "since"))
        changes["more"] = changes["more"] or self._following.behind
        return changes

    def _scopes(self, parameters: Asked) -> dict[str, object]:
        """The scopes from number ``since`` on, and the ends of functions from ``left`` on.

        Of a scope the address, the place of its function and its arguments; of an end the address,
        the call whose answer was returned, the text of another result, and the error.
        """
        since, left = max(_number(parameters, "since"), 0), max(_number(parameters, "left"), 0)
        scopes = self.trace.scopes[since:]
        ends = list(islice(self.trace.returns.values(), left, None))
        return {
            "address": [scope.address for scope in scopes],
            "where": [f"{scope.file}:{scope.line}" if scope.file else "" for scope in scopes],
            "arguments": [scope.arguments for scope in scopes],
            "next": len(self.trace.scopes),
            "ends": [[end.address, end.call or "", end.value or "", _error(end)] for end in ends],
            "left": left + len(ends),
        }

    def _found(self, parameters: Asked) -> dict[str, object]:
        text = parameters["text"]
        if text != self._search.text:
            self._search = Search(self.rows, text)
        return self._search.page(_number(parameters, "from"))


class Views:
    """One run, or two to compare, under the names ``a`` and ``b``."""

    def __init__(self, a: View, b: View | None = None) -> None:
        self.runs = {"a": a} if b is None else {"a": a, "b": b}
        self.masker = Masker()

    def json(self, name: str, parameters: Asked) -> bytes:
        """The document *name* as JSON without secrets. Raises ``KeyError``."""
        with no_collection():
            return as_json(self.document(name, parameters), self.masker)

    def document(self, name: str, parameters: Asked) -> object:
        """The document *name*: ``a/rows``, ``b/call``, ``runs``, ``diff``. Raises ``KeyError``."""
        if name == "runs":
            return list(self.runs)
        if name == "diff":
            return self._diff()
        run, _, rest = name.partition("/")
        return self.runs[run].document(rest, parameters)

    def _diff(self) -> dict[str, object]:
        a, b = self.runs["a"], self.runs["b"]
        # Both locks are held here, in this order; everything else holds one at a time, so two
        # requests cannot wait for each other.
        a.read()
        b.read()
        with a.lock, b.lock:
            return comparison(a.rows, b.rows)


def _error(end: Returned) -> str:
    """The error that a function raised, in words."""
    return "" if end.error is None else f"{type(end.error).__name__}: {end.error}"[:_LONG]


def _number(parameters: Asked, name: str) -> int:
    return int(parameters.get(name, "0"))


def _numbers(parameters: Asked, name: str) -> list[int]:
    return [int(word) for word in parameters[name].split(",")[:_MOST] if word]
