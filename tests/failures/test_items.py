"""Items of ``as_completed``, functions that ``call`` started, and items of workers fail alike."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import appl
from appl.testing.engine import Threads
from appl.tracing import Rerunner, Trace

from .test_failures import (
    PROGRAM,
    Fake,
    ask,
    command,
    half,
    number,
    recorded,
    told,
    words_as_answers,
)


def caught(f: Callable[..., Any], *args: Any) -> object:
    try:
        return appl.call(f, *args).result()
    except Exception as error:
        return error


def completed(words: list[str]) -> object:
    try:
        return list(appl.as_completed(half, words))
    except ValueError as error:
        return error


def outer(words: list[str]) -> object:
    return list(appl.as_completed(mapped, words))


def mapped(word: str) -> object:
    return appl.map(half, [word, word], on_error="collect", engine=Threads())


async def late(word: str) -> int:
    return int(await ask(word)) // 2


def in_a_loop() -> object:
    async def main() -> object:
        return await asyncio.gather(
            *(appl.call(late, word) for word in ("2", "six")), return_exceptions=True
        )

    return asyncio.run(main())


def retried() -> object:
    found = (caught(half, word) for word in ("six", "seven", "8", "9"))
    return next(each for each in found if isinstance(each, int))


def nested() -> object:
    return appl.map(lambda word: appl.call(half, word).result(), ["2", "six"], on_error="collect")


PROGRAMS: dict[str, tuple[Callable[[], object], list[str]]] = {
    "a call that the program caught": (lambda: caught(half, "six"), ["1 item failed"]),
    "a call of a prompt function": (
        lambda: caught(number, "six"),
        ["1 item failed", "1 answer refused by type"],
    ),
    "a call in a loop of the program": (retried, ["2 items failed"]),
    "a coroutine": (in_a_loop, ["1 item failed"]),
    "as_completed": (lambda: completed(["six"]), ["1 item failed"]),
    "an error that goes on": (nested, ["2 items: 1 good, 1 failed"]),
    "as_completed over map over workers": (
        lambda: outer(["2", "six"]),
        ["2 items: 0 good, 2 failed"],
    ),
    "good ones": (lambda: [caught(half, "2"), completed(["2"])], []),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_failed_items_are_counted(tmp_path: Path, name: str) -> None:
    program, words = PROGRAMS[name]
    recorded(tmp_path / "a.trace", program, Fake(words_as_answers))
    assert Trace.open(tmp_path / "a.trace").failure_counts().words() == words


@pytest.mark.parametrize(
    ("program", "asked"),
    [
        (lambda: caught(half, "six"), ["/half.0/ask.0/gen.0"]),
        (lambda: completed(["2", "six"]), ["/half.1/ask.0/gen.0"]),
        (nested, ["/<lambda>.1/half.0/ask.0/gen.0"]),
        (retried, ["/half.0/ask.0/gen.0"]),
    ],
)
def test_only_failed_items_are_asked_again(
    tmp_path: Path, program: Callable[[], object], asked: list[str]
) -> None:
    path = tmp_path / "a.trace"
    recorded(path, program, Fake(words_as_answers))
    rerunner = Rerunner(path, anew=["failed"])
    recorded(tmp_path / "b.trace", program, Fake(lambda _: "8"), world=rerunner)
    assert [*rerunner.asked] == asked
    assert not Trace.open(tmp_path / "b.trace").failure_counts()


def test_an_item_that_was_cancelled_has_not_failed(tmp_path: Path) -> None:
    def leave() -> None:
        for _ in appl.as_completed(ask, ["1", "2", "3"], concurrency=3):
            break
        appl.call(ask, "4").cancel()

    recorded(tmp_path / "a.trace", leave, Fake(words_as_answers))
    assert not Trace.open(tmp_path / "a.trace").failure_counts()


def test_what_failed_on_a_lost_worker_does_not_count(tmp_path: Path) -> None:
    failed: list[str] = []

    def flaky() -> str:
        if not failed:
            failed.append("on the first worker")
            raise ValueError("no luck")
        return "luck"

    def item(word: str) -> str:
        return f"{caught(flaky)} {ask(word)}"

    def program() -> object:
        engine = Threads(workers=1, lose=lambda worker: worker == 0 and bool(failed))
        return appl.map(item, ["last"], engine=engine)

    assert recorded(tmp_path / "a.trace", program, Fake(words_as_answers)) == ["luck last"]
    assert not Trace.open(tmp_path / "a.trace").failure_counts()


@pytest.mark.parametrize("items", [(["2", "six"],), (["2", "six"], ["a", "b", "c"])])
def test_good_items_of_workers_are_counted(tmp_path: Path, items: tuple[list[str], ...]) -> None:
    def program() -> object:
        return appl.map(lambda *words: half(words[0]), *items, on_error="collect", engine=Threads())

    recorded(tmp_path / "a.trace", program, Fake(words_as_answers))
    counts = Trace.open(tmp_path / "a.trace").failure_counts()
    assert counts.words() == ["2 items: 1 good, 1 failed"]


SEVERAL = """
import appl
from prog import Paid, age

def one(number):
    return int(age(number).result())

def attempt(number):
    try:
        return appl.call(one, number).result()
    except Exception:
        return None

def main():
    kept = [attempt(number) for number in range(60)]
    try:
        kept += appl.as_completed(one, [107], concurrency=1)
    except Exception:
        pass
    return len(appl.map(one, range(200, 260), on_error="collect", concurrency=8))
"""


def test_every_command_says_the_same_of_several_kinds_of_items(tmp_path: Path) -> None:
    (tmp_path / "prog.py").write_text(PROGRAM.replace("COUNT", "1"), "utf-8")
    (tmp_path / "several.py").write_text(SEVERAL, "utf-8")
    done = command(tmp_path, "run", "several.py", KILL="50")
    assert done.returncode == -signal.SIGKILL, done.stderr
    words = "63 items: 58 good, 5 failed"
    for line in (("run", "several.py"), ("trace", "show"), ("trace", "cost")):
        assert words in told(tmp_path, *line), line
    (row,) = json.loads(told(tmp_path, "trace", "ls", "--json"))
    assert (row["totals"]["items"], row["totals"]["items_failed"]) == (63, 5)
    again = told(tmp_path, "trace", "rerun", "--anew", "failed", MENDED="1")
    assert "5 of " in again and "asks only those" not in again
