"""Streams of text and of objects."""

from __future__ import annotations

from typing import assert_type

import appl
from appl import ProgramPiece, TextStream, gen, ppl


class Person:
    name: str


stream = gen(stream=True).text_stream
assert_type(stream, TextStream[str])
for piece in stream:
    assert_type(piece, str)
assert_type(gen(response_format=Person, stream=True).text_stream, TextStream[Person])


async def read() -> None:
    async for piece in gen(stream=True).text_stream:
        assert_type(piece, str)


gen(stream="yes")  # type: ignore[call-overload]


@ppl
def story(about: str) -> int:
    f"Tell me of {about}. {gen()}"
    return 5


program = appl.stream(story, "dogs")
assert_type(program.result(), int)
for part in program:
    assert_type(part, ProgramPiece)
    assert_type(part.generated, bool)
appl.stream(story, 3)  # type: ignore[arg-type]
