"""Two runs compared without holding what is the same in both."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from appl.tracing import Trace
from appl.tracing.explaining import compare
from appl.tracing.explaining.difference_filter import sifted, unsifted

from .support import recorded
from .test_diff import chat, echo, loud, tree

TRACES = sorted((Path(__file__).parents[1] / "traces" / "1").glob("*.trace"))


def is_compared_alike(a: Path, b: Path) -> None:
    first, second = Trace.open(a), Trace.open(b)
    whole = compare(first, second, reduced=unsifted)
    found = compare(first, second)
    assert found.as_data(whole=True) == whole.as_data(whole=True)
    assert found.calls == whole.calls


@pytest.mark.parametrize("path", TRACES, ids=lambda path: path.stem)
def test_recorded_runs_are_compared_as_whole_ones_are(path: Path) -> None:
    is_compared_alike(path, TRACES[-1])
    is_compared_alike(TRACES[0], path)


def test_edited_programs_are_compared_as_whole_ones_are(tmp_path: Path) -> None:
    texts = [[f"text {i}" for i in range(5)], ["text 0", "text 9", "text 2"], ["text 1"]]
    paths = []
    for program, given in itertools.product((tree, chat), texts):
        paths.append(tmp_path / f"{len(paths)}.trace")
        recorded(paths[-1], program, echo, given)
    paths.append(tmp_path / "loud.trace")
    recorded(paths[-1], loud, echo, "text 1")
    for a, b in itertools.product(paths, paths):
        is_compared_alike(a, b)


def test_what_is_the_same_is_not_held(tmp_path: Path) -> None:
    a, b = tmp_path / "a.trace", tmp_path / "b.trace"
    recorded(a, tree, echo, ["one", "two", "three"])
    recorded(b, tree, echo, ["one", "2", "three"])
    found = sifted(Trace.open(a), Trace.open(b))
    held = ["/tree.0/leaf.1/gen.0", "/tree.0/gen.0"]
    assert sorted(call.address for call in found.a.calls) == sorted(held)
    assert sorted(call.address for call in found.b.calls) == sorted(held)
    assert found.calls == (4, 4) and len(found.equal) == 2
