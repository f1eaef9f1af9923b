"""Streams that were cancelled after their program had read a part: it reads the same part again."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from appl import gen, ppl
from appl.errors import CallCancelled, DivergenceError
from appl.testing import Run, Seeded
from appl.tracing import Appender, Recorder, Rerunner, Resumer, Trace

STORY = "Tell me a story."


@ppl
async def read(answer: Any, most: int, seen: list[str]) -> None:
    async for piece in answer.text_stream:
        seen.append(piece)
        if len(seen) >= most:
            answer.cancel()
            return


@ppl
async def program(most: int, seen: list[str]) -> str:
    f"{STORY}"
    answer = gen(stream=True)
    await read(answer, most, seen)
    return str(await gen(temperature=1.0))


def backend(seed: int) -> Seeded:
    return Seeded(seed, lambda _: f"{seed}-abcdef", pieces=list)


def recorded(path: Path) -> list[str]:
    recorder, seen = Recorder(path, {}), list[str]()
    with Run(backend(1), instruments=[recorder], gate=recorder.gate):
        asyncio.run(program(3, seen))
    recorder.close()
    return seen


def again(recalled: Any, most: int, *watching: Any) -> list[str]:
    seen = list[str]()
    with Run(backend(2), instruments=[recalled, *watching], world=recalled):
        assert asyncio.run(program(most, seen)) == "1-abcdef"
    return seen


@pytest.mark.parametrize("kind", [Resumer, Rerunner])
def test_what_was_read_then_is_read_again(tmp_path: Path, kind: Any) -> None:
    path = tmp_path / "a.trace"
    assert recorded(path) == ["1", "-", "a"] == again(kind(path), 3)
    assert not kind(path).trace.by_address[Trace.open(path).calls[0].address].response


def test_a_resumed_run_writes_nothing_of_it_again(tmp_path: Path) -> None:
    path = tmp_path / "a.trace"
    recorded(path)
    before, resumer = path.read_bytes(), Resumer(path)
    appender = Appender(resumer)
    assert again(resumer, 3, appender) == ["1", "-", "a"]
    appender.close()
    assert path.read_bytes() == before


def test_who_reads_on_in_the_same_run_is_told_that_there_is_no_more(tmp_path: Path) -> None:
    path = tmp_path / "a.trace"
    recorded(path)
    with pytest.raises(DivergenceError, match=r"(?s)had read the beginning .*appl trace rerun a"):
        again(Resumer(path), 9)


def test_a_call_that_the_end_of_the_run_cancelled_shows_nothing_and_is_asked(
    tmp_path: Path,
) -> None:
    path, seen = tmp_path / "a.trace", list[str]()
    recorder = Recorder(path, {})

    @ppl
    async def interrupted(stop: bool) -> str:
        f"{STORY}"
        answer = gen(stream=True)
        async for piece in answer.text_stream:
            seen.append(piece)
            if stop and len(seen) == 2:
                raise KeyboardInterrupt
        return str(await answer)

    with pytest.raises(KeyboardInterrupt), Run(backend(1), instruments=[recorder]):
        asyncio.run(interrupted(True))
    recorder.close()
    (call,) = Trace.open(path).calls
    assert isinstance(call.error, CallCancelled) and seen == ["1", "-"]
    seen.clear()
    resumer = Resumer(path)
    with Run(backend(2), instruments=[resumer], world=resumer):
        assert asyncio.run(interrupted(False)) == "2-abcdef" == "".join(seen)
