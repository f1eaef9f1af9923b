"""A server that was told to go on from a beginning may say it again: it is left out, in any cut."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st

from appl_backends.openai import OpenAI
from appl_backends.stops import TextFilter
from tests.drawn import examples
from tests.providers.asking import chat, closing, delta, request, says, streams


@pytest.mark.parametrize("answer", ["The author is Mira", " Mira", "Mira"])
def test_spaces_at_the_end_of_a_beginning_are_not_doubled(answer: str) -> None:
    found = TextFilter((), "The author is ")
    assert found.feed(answer) + found.close() == "Mira"


@examples(300, 20_000, st.text("ab \n", max_size=6), st.text("ab \n", max_size=9), st.data())
def test_a_filter_gives_the_same_for_any_cut(begun: str, rest: str, data: st.DataObject) -> None:
    text = data.draw(st.sampled_from(["", begun, begun.strip(), f" {begun}"])) + rest
    stop = data.draw(st.sampled_from([(), ("ab",), ("a b", "\n")]))
    whole, cut = TextFilter(stop, begun), TextFilter(stop, begun)
    at = data.draw(st.integers(0, len(text)))
    pieces = cut.feed(text[:at]) + cut.feed(text[at:]) + cut.close()
    assert pieces == whole.feed(text) + whole.close()


@pytest.mark.parametrize(
    "begun", ["The author is ", "1. Soil\n2.", "One line.\n", "  x = [", "a  b\t"]
)
@pytest.mark.parametrize("rest", ["Mira", "\nand more", "  spaced", ""])
def test_what_a_server_repeats_exactly_is_left_out_exactly(begun: str, rest: str) -> None:
    found = TextFilter((), begun)
    assert found.feed(begun + rest) + found.close() == rest


@pytest.mark.parametrize("is_streamed", [False, True])
@pytest.mark.parametrize("text", ["Mira Holt.", "The author is Mira Holt."])
async def test_llama_cpp_may_repeat_the_beginning_that_it_continues(
    text: str, is_streamed: bool
) -> None:
    asked = request("Who?", "The author is ", stop=("Holt",))
    body = streams(delta(content=text[:9]), delta(content=text[9:]), delta(finish="stop"))
    with body if is_streamed else says(chat(text)) as server:
        server.become("llama.cpp")
        backend = OpenAI(base_url=server.openai_url, server="llama.cpp")
        async with closing(backend):
            emit = (lambda chunk: None) if is_streamed else None
            assert (await backend.complete(asked, emit)).text == "Mira "


async def test_vllm_continues_and_a_repetition_is_its_models() -> None:
    with says(chat("The author is Mira.")) as server:
        server.become("vllm")
        async with closing(OpenAI(base_url=server.openai_url, server="vllm")) as backend:
            asked = request("Who?", "The author is ")
            assert (await backend.complete(asked)).text == "The author is Mira."
