"""A server that was told to go on from a beginning may say it again: it is left out, in any cut."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st

from appl_backends.stops import TextFilter
from tests.drawn import examples


@pytest.mark.parametrize("answer", ["The author is Mira", " Mira", "Mira", "The author is  Mira"])
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
