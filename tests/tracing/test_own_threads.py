"""Calls on threads of the user's own: addresses say what was called there, never on which thread."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import appl
from appl import gen, ppl
from appl.testing import Echo, Run
from appl.tracing import Recorder, Replayer, Trace, profile_data


@ppl
def ask(question: str) -> str:
    f"{question}?"
    return str(gen())


def work(question: str) -> str:
    """Several outermost calls of a thread, of which one depends on another."""
    first = ask(question)
    return first + ask(f"{question}, and after {first}") + str(appl.random())


def pooled(workers: int) -> list[str]:
    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(work, ["one", "two", "three", "four", "five"]))


def in_threads(workers: int) -> list[str]:
    found: dict[str, str] = {}
    words = ["one", "two", "three"]
    threads = [
        threading.Thread(target=lambda each=each: found.update({each: work(each)}))
        for each in words
    ]
    for thread in threads if workers == 1 else reversed(threads):
        thread.start()
        if workers == 1:
            thread.join()
    for thread in threads:
        thread.join()
    return [found[word] for word in words]


class Board:
    """Another object in each process: an address does not say which."""

    @ppl
    def add(self, question: str) -> str:
        f"{question}?"
        return str(gen())


def by_method(workers: int) -> list[str]:
    kept = [Board() for _ in range(workers)]  # so that the next one lies elsewhere
    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(lambda each: Board().add(each) + kept[0].add(f"{each} too"), "ab"))


@pytest.mark.parametrize("program", [pooled, in_threads, by_method])
def test_a_run_replays_with_another_number_of_threads(program: object, tmp_path: Path) -> None:
    assert callable(program)
    path, backend = tmp_path / "run.trace", Echo()
    recorder = Recorder(path, {"program": "pool", "profile": profile_data(backend.profile)})
    with Run(backend, instruments=[recorder]):
        values = program(1)
    recorder.close()
    replayer = Replayer(path)
    with Run(replayer.backend, instruments=[replayer], world=replayer):
        again = program(4)
    replayer.finish()
    assert again == values
    assert len({call.address for call in Trace.open(path).calls}) == 2 * len(values)
