"""Runs inside of runs, in programs of this process."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import appl
from appl import gen, ppl
from appl.errors import BudgetExceeded, DivergenceError
from appl.session import replayed
from appl.testing import Echo, Held, running
from appl.tracing import Trace

from .paying import paid


@ppl
def ask(text: str) -> Any:
    f"{text}"
    return gen(max_tokens=4)


@ppl(ctx="resume")
def remembering(text: str) -> Any:
    f"{text}"
    return gen(max_tokens=4)


def part(text: str) -> str:
    return str(ask(text))


def own_block(text: str) -> str:
    with appl.record(max_tokens=3):
        return part(text)


def in_a_thread(text: str) -> str:
    said: list[str] = []
    thread = threading.Thread(target=lambda: said.append(appl.run(part, text, own=True)))
    thread.start()
    thread.join()
    return said[0]


WAYS: dict[str, Callable[[str], str]] = {
    "part": lambda text: appl.run(part, text),
    "own": lambda text: appl.run(part, text, own=True),
    "named": own_block,
    "awaited": lambda text: asyncio.run(_awaited(text)),
    "thread": in_a_thread,
}


async def _awaited(text: str) -> str:
    return str(await appl.run(part, text, own=True))


@pytest.mark.parametrize("way", WAYS)
def test_only_a_tests_backend_is_asked_by_whatever_way(folder: Path, way: str) -> None:
    with running(Echo()) as seen:
        part("outer")
        WAYS[way]("inner")
    assert len(seen.requests) == 2 and paid() == []


@pytest.mark.parametrize("way", WAYS)
def test_after_it_the_users_backend_is_asked_again(folder: Path, way: str) -> None:
    with running(Echo()):
        WAYS[way]("inner")
    WAYS[way]("after")
    assert len(paid()) == 1


def test_runs_inside_have_addresses_of_their_own(folder: Path) -> None:
    with running(Echo()) as seen:
        appl.run(part, "a")
        with appl.record():
            part("b")
            appl.run(part, "c")
    assert list(seen.prompts) == [
        "/run.0/ask.0/gen.0", "/run.1/ask.0/gen.0", "/run.1/run.0/ask.0/gen.0",
    ]  # fmt: skip


def test_a_run_inside_has_an_empty_prompt_and_states_of_its_own(folder: Path) -> None:
    with running(Echo()) as seen:
        remembering("one").result()
        appl.run(lambda: remembering("two").result())
        remembering("three").result()
    first, inner, last = seen.prompts.values()
    assert "one" not in inner and first.removeprefix("user: ") in last and "two" not in last


def test_the_budget_around_it_holds_for_it(folder: Path) -> None:
    with running(Echo()) as seen, appl.budget(calls=1), pytest.raises(BudgetExceeded):
        appl.run(lambda: [part("a"), part("b")])
    assert len(seen.requests) == 1


def test_its_end_waits_for_what_it_started(folder: Path) -> None:
    with running(Echo()) as seen:
        with appl.record():
            left = ask("left")
        assert left.done() and len(seen.requests) == 1


def test_its_end_raises_what_nobody_looked_at(folder: Path) -> None:
    def fails() -> None:
        raise LookupError("nobody looked")

    with running(Echo()):
        with pytest.raises(LookupError, match="nobody looked"), appl.record():
            appl.call(fails)
        assert part("goes on")


def test_an_exception_cancels_what_it_started(folder: Path) -> None:
    with running(Held()) as held:
        with pytest.raises(ZeroDivisionError), appl.record():
            ask("left")
            raise ZeroDivisionError
        again = ask("again")
        held.release("/ask.0/gen.0")
        assert str(again)
    assert [request.address for request in held.requests][-1] == "/ask.0/gen.0"


def test_the_block_has_the_path_of_the_outer_trace(folder: Path) -> None:
    with appl.record(folder / "outer.trace") as outer, appl.record() as inner:
        part("x")
        assert inner.path == outer.path == folder / "outer.trace"


def test_a_parameter_that_is_called_own_is_the_functions(folder: Path) -> None:
    def owned(own: bool) -> bool:
        part("x")
        return own

    with running(Echo()) as seen:
        assert appl.run(owned, own=True) is True
    assert list(seen.prompts) == ["/run.0/ask.0/gen.0"]


def test_a_plain_script_has_no_outer_run(folder: Path) -> None:
    with appl.record() as session:
        part("x")
    assert session.path is not None
    assert [call.address for call in Trace.open(session.path).calls] == ["/ask.0/gen.0"]


def test_other_runs_are_refused_while_a_record_answers(folder: Path) -> None:
    with appl.record(folder / "outer.trace"):
        part("x")
    before = len(paid())
    with pytest.raises(DivergenceError), replayed(folder / "outer.trace"):
        part("x")
        appl.run(part, "new", own=True)
    with pytest.raises(DivergenceError), replayed(folder / "outer.trace"):
        part("x")
        appl.session.make_session()
    assert len(paid()) == before


def test_an_own_run_is_answered_by_its_own_trace(folder: Path) -> None:
    def program() -> list[str]:
        return [part("x"), appl.run(part, "own", own=True), own_block("named")]

    with appl.record(folder / "outer.trace"):
        value = program()
    before = len(paid())
    with replayed(folder / "outer.trace"):
        assert program() == value
    assert len(paid()) == before == 3


def test_an_own_run_that_differs_from_its_trace_is_a_divergence(folder: Path) -> None:
    with appl.record(folder / "outer.trace"):
        appl.run(part, "then", own=True)
    with pytest.raises(DivergenceError), replayed(folder / "outer.trace"):
        appl.run(part, "now", own=True)
    assert len(paid()) == 1
