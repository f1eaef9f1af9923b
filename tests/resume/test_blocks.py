"""Runs that go on, run again, are predicted or replayed: as a block in a coroutine."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import appl
from appl import gen, ppl
from appl.errors import DivergenceError
from appl.session import predicted, replayed, rerun, resumed
from appl.tracing import Trace

ECHO = "appl.testing:Echo"


@ppl
async def ask(question: str) -> str:
    f"{question}"
    return str(await gen())


async def three(middle: str = "b") -> list[str]:
    return [await ask(question) for question in ("a", middle, "c")]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A run of three calls."""

    async def main() -> None:
        async with appl.record(tmp_path / "first.trace", backend=ECHO):
            await three()

    asyncio.run(main())
    return tmp_path / "first.trace"


def test_a_run_goes_on_in_a_coroutine(tmp_path: Path) -> None:
    path = tmp_path / "first.trace"

    async def stops() -> None:
        async with appl.record(path, backend=ECHO):
            await ask("a")
            raise LookupError

    async def goes_on() -> None:
        async with resumed(path, say=lambda text: None) as session:
            await three()
        assert session.path == path

    with pytest.raises(LookupError):
        asyncio.run(stops())
    asyncio.run(goes_on())
    assert [call.incarnation for call in Trace.open(path).calls] == [0, 1, 1]


def test_it_runs_again_in_a_coroutine(path: Path, tmp_path: Path) -> None:
    async def main() -> None:
        async with rerun(path, into=tmp_path / "second.trace", say=lambda text: None) as report:
            await three("B")
        assert [each.address for each in report.live] == ["/ask.1/gen.0"]
        assert report.path == tmp_path / "second.trace"

    asyncio.run(main())


def test_it_is_predicted_in_a_coroutine_also_when_the_program_fails(path: Path) -> None:
    async def program() -> None:
        await three("B")
        raise LookupError("at its end")

    async def main() -> None:
        prediction = await asyncio.to_thread(predicted, path, program)
        assert [each.address for each in prediction.fewest] == ["/ask.1/gen.0"]
        assert prediction.stopped == "LookupError: at its end"

    asyncio.run(main())


def test_a_prediction_runs_the_program_with_made_up_answers_too(path: Path) -> None:
    told: list[str] = []

    async def program() -> None:
        told.extend(await three("B"))

    found = predicted(path, program)
    assert found.live == (1, 1) and len(found.rehearsed) == 5
    assert "agree on 1 live" in "\n".join(found.lines()) and len(set(told)) > 3


def test_it_is_replayed_in_a_coroutine_and_what_differs_is_raised(path: Path) -> None:
    async def main() -> None:
        async with replayed(path):
            await three()
        with pytest.raises(DivergenceError):
            async with replayed(path):
                await three("B")

    asyncio.run(main())
