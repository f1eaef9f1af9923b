"""Streams of text and of objects."""

from __future__ import annotations

from typing import assert_type

from appl import TextStream, gen


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
