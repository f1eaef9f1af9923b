"""Documents that take long to make: who waits for whom, and of which moment of a run they are."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

from large import large_trace
from made import answer, asked, call, end, start

from appl.tracing import Recorder
from appl.tracing.explaining import Steps
from appl.tracing.viewer import View
from appl.tracing.viewer.critical import critical
from appl.tracing.viewer.prefixes import PrefixTree
from appl.tracing.viewer.run_documents import Whole


class Slow:
    """A run of ``records``, whose document takes until ``go`` is set."""

    def __init__(self) -> None:
        self.lock, self.records, self.made = threading.Lock(), 1, 0
        self.begun, self.go = threading.Event(), threading.Event()
        self.whole = Whole(self.lock, lambda: self.records, self.take)

    def take(self) -> Callable[[], Any]:
        taken = self.records
        return lambda: self.make(taken)

    def make(self, taken: int) -> int:
        self.made += 1
        self.begun.set()
        assert self.go.wait(60)
        return taken


def test_while_a_document_is_made_the_run_is_free_and_who_wants_it_too_waits() -> None:
    slow = Slow()
    with ThreadPoolExecutor(2) as threads:
        asked = [threads.submit(slow.whole.document) for _ in range(2)]
        assert slow.begun.wait(60)
        with slow.lock:
            assert not any(each.done() for each in asked)
        slow.go.set()
        assert [each.result() for each in asked] == [1, 1]
    assert (slow.whole.document(), slow.made) == (1, 1)


def test_of_a_run_that_has_grown_meanwhile_who_asks_then_gets_what_it_is_then() -> None:
    slow = Slow()
    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(slow.whole.document)
        assert slow.begun.wait(60)
        slow.records = 2
        second = threads.submit(slow.whole.document)
        slow.go.set()
        assert (first.result(), second.result(), slow.made) == (1, 2, 2)


def test_a_document_that_could_not_be_made_is_made_when_it_is_asked_for_again() -> None:
    tried: list[int] = []

    def take() -> Callable[[], Any]:
        tried.append(1)
        return lambda: 1 // (len(tried) - 1)

    whole = Whole(threading.Lock(), lambda: 1, take)
    with ThreadPoolExecutor(1) as threads:
        failed = threads.submit(whole.document)
        assert isinstance(failed.exception(), ZeroDivisionError)
    assert whole.document() == 1


def grown(recorder: Recorder) -> Iterator[None]:
    """A run of two calls, and then of two more."""
    for i in range(2):
        call(recorder, f"/f.0/gen.{2 * i}", f"ask {i}")
        start(recorder, asked(f"/f.0/gen.{2 * i + 1}", f"ask {i}", "more"))
        recorder.barrier()
        yield
        end(recorder, f"/f.0/gen.{2 * i + 1}", answer("late"))


def test_a_run_that_grows_is_told_anew(path: Path) -> None:
    recorder = Recorder(path)
    growth = grown(recorder)
    next(growth)
    with closing(View(path, patience=-1)) as view:
        first = {name: view.document(name, {}) for name in ("critical", "prefixes", "costs")}
        next(growth)
        recorder.close()
        view.read()
        with closing(View(path)) as other:
            for name, document in first.items():
                assert view.document(name, {}) == other.document(name, {}) != document
                assert view.document(name, {}) is view.document(name, {})


def test_a_document_of_a_run_that_grows_meanwhile_is_of_the_moment_it_was_taken(path: Path) -> None:
    recorder = Recorder(path)
    growth = grown(recorder)
    next(growth)
    with closing(View(path)) as view:
        steps, prefixes = Steps(view.trace), PrefixTree(view.rows).taken()
        expected = view.document("critical", {}), view.document("prefixes", {})
        next(growth)
        recorder.close()
        view.read()
        assert (critical(steps, view.rows), prefixes()) == expected


def test_documents_asked_for_at_once_are_of_the_whole_run(path: Path) -> None:
    large_trace(path, 300)
    with closing(View(path)) as other:
        expected = other.document("critical", {})
    with closing(View(path, patience=-1)) as view, ThreadPoolExecutor(4) as threads:
        asked = [threads.submit(view.document, "critical", {}) for _ in range(4)]
        assert all(each.result() == expected for each in asked)
