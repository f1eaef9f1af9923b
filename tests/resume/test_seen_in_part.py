"""A program that acted on the beginning of an answer that was never recorded cannot go on exactly,
and is told so each time."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from continuing import Counting

from appl import gen, ppl
from appl.backend import Request
from appl.errors import DivergenceError
from appl.testing import Run, Seeded
from appl.tracing import Appender, Recorder, Resumer, records
from appl.tracing.format import block, block_file, codec

TOLD = r"(?s)had read the beginning of answers .*\(/story\.0/gen\.0\).*--edited"


@ppl
async def story() -> str:
    "Tell me a story."
    answer = gen(stream=True)
    begun = ""
    async for piece in answer.text_stream:
        begun += piece
        if len(begun) == 2:
            break
    last = await goes_on(begun)
    return last + str(await answer)


@ppl
async def goes_on(begun: str) -> str:
    f"How does {begun!r} go on?"
    return str(await gen())


def backend(seed: int) -> Counting:
    def said(request: Request) -> str:
        return f"{seed}-abcdef"

    return Counting(Seeded(seed, said, pieces=list))


def cut_off(path: Path) -> Path:
    """The trace of a run that died after the second call, while the story was being streamed."""
    recorder = Recorder(path.with_name("whole.trace"), {})
    with Run(backend(1), instruments=[recorder], gate=recorder.gate):
        asyncio.run(story())
    recorder.close()
    every = list(records(recorder.path))
    stream = next(fields[1] for fields in every if fields[0] == "S")
    kept = [f for f in every if f[0] not in "EVZ" or (f[1] != stream and f[0] != "Z")]
    raw = b"".join(map(codec.pack, kept))
    path.write_bytes(block.MAGIC + block_file.Encoder().block(raw))
    return path


def go_on(path: Path, live: Any, **options: Any) -> str:
    resumer = Resumer(path, **options)
    appender = Appender(resumer, durability="process")
    try:
        with Run(live, instruments=[resumer, appender], world=resumer, gate=appender.gate):
            return asyncio.run(story())
    finally:
        appender.close()


def test_it_is_told_when_the_stream_is_asked_again_and_when_it_was(tmp_path: Path) -> None:
    path, live = cut_off(tmp_path / "a.trace"), backend(2)
    for _ in range(2):  # the end of the run cancels the stream, so that it is asked each time
        with pytest.raises(DivergenceError, match=TOLD):
            go_on(path, live)
    assert list(live.asked) == ["/story.0/gen.0"]
    assert go_on(path, live, edited=True) == "2-abcdef" * 2
    asked = live.asked.total()
    assert go_on(path, live) == "2-abcdef" * 2
    assert live.asked.total() == asked
