"""A map over workers that was broken off goes on in one process."""

from __future__ import annotations

import appl
from appl import gen, map as appl_map, ppl
from appl.session import replayed, resumed
from appl.testing.engine import Threads
from appl.tracing import Trace
from appl.tracing.format import block


@ppl
def twice(word):
    f"Say {word}"
    first = gen(max_tokens=4)
    f"{first} again"
    return f"{first}|{gen(max_tokens=4)}"


def ends(path):
    """Where the blocks of a trace end."""
    found, offsets = block.Scan(), []
    with path.open("rb") as file:
        for _ in block.scan(file, found):
            offsets.append(found.good)
    return offsets


def test_what_was_recorded_of_a_broken_map_is_not_asked_again(tmp_path):
    whole, cut = tmp_path / "whole.trace", tmp_path / "cut.trace"

    def program():
        return appl_map(twice, list("abcdef"), engine=Threads())

    with appl.record(whole, backend="embedded", temperature=0.0, seed=3):
        values = program()
    offsets = ends(whole)
    cut.write_bytes(whole.read_bytes()[: offsets[len(offsets) // 2]])
    known = [call for call in Trace.open(cut).calls if call.outcome is not None]
    with resumed(cut, trust=True):
        assert program() == values
    with replayed(cut):
        assert program() == values
    trace = Trace.open(cut)
    assert len(trace.calls) == 12
    again = [call for call in trace.earlier if call.address in {each.address for each in known}]
    assert not [call for call in again if call.outcome is not None], "none was asked twice"
