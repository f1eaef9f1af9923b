"""Results one by one as they are ready, in an order that a replay gives again."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from appl import as_completed, gen, ppl
from appl.errors import InvalidOption
from appl.testing import Echo, Held, Scripted, running
from tests.tools.support import again, recorded


@ppl
def ask(word: str) -> str:
    f"{word}"
    return str(gen())


class LastFirst(Held):
    """Answers all that wait, the last one first."""

    def on_idle(self, final: bool = True) -> bool:
        for address in sorted(self.waiting, reverse=True)[:1]:
            self.release(address)
            return True
        return False


def loud(request: Any) -> str:
    return str(request.messages.message.content.upper())


def test_results_come_as_they_are_ready() -> None:
    with running(LastFirst(loud)):
        assert list(as_completed(ask, "abc")) == ["C", "B", "A"]


def test_no_more_than_so_many_run_at_once() -> None:
    with running(LastFirst(loud)) as seen:
        assert list(as_completed(ask, "abcd", concurrency=2)) == ["B", "C", "D", "A"]
    assert sorted(each.address for each in seen.requests) == [f"/ask.{n}/gen.0" for n in range(4)]


def test_a_replay_gives_the_same_order(tmp_path: Path) -> None:
    def program() -> list[str]:
        return list(as_completed(ask, "abcd", concurrency=3))

    path = tmp_path / "run.trace"
    first = recorded(path, LastFirst(loud), program)
    assert first == ["C", "D", "B", "A"] and again(path, program) == first


def test_in_a_coroutine_it_is_an_async_iterator() -> None:
    @ppl
    async def program() -> list[str]:
        return [each async for each in as_completed(ask, "ab")]

    with running(Scripted(loud)):
        assert sorted(asyncio.run(program())) == ["A", "B"]


def test_leaving_the_loop_cancels_the_rest_and_keeps_their_addresses() -> None:
    with running(LastFirst(loud)) as seen:
        for first in as_completed(ask, "abc", concurrency=2):
            assert first == "B"
            break
        ask("d")
    assert seen.requests[-1].address == "/ask.3/gen.0"


def test_a_failure_is_raised_where_its_result_would_be_given() -> None:
    def fails(request: Any) -> Any:
        return ValueError("no") if loud(request) == "B" else loud(request)

    found = []
    with running(Scripted(fails)), pytest.raises(ValueError, match="no"):
        for each in as_completed(ask, "abc", concurrency=1):
            found.append(each)
    assert found == ["A"]


def test_what_is_no_list_is_refused() -> None:
    with running(Echo()), pytest.raises(InvalidOption, match="takes a list of items, got 3"):
        as_completed(ask, 3)  # type: ignore[arg-type]
    with running(Echo()), pytest.raises(InvalidOption, match="at least 1"):
        as_completed(ask, "a", concurrency=0)
