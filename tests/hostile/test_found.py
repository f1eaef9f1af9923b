"""What hostile files have found, each made small: the flaws of readers, and of their judge."""

from __future__ import annotations

import contextlib
import json
import random
from pathlib import Path

import pytest

from appl.backend import Request, Sampling
from appl.testing import Observed, ScopeEntered
from appl.tracing import Recorder, Trace
from appl.tracing.explaining.causes import changed
from appl.tracing.format import codec
from appl.tracing.format.sampling import UNREADABLE, parameters
from appl.tracing.replaying.explain import divergence
from appl.tracing.viewer import View, Views

from .damage import changed_value
from .judging import OTHER, Judge, command
from .samples import Sample, built, samples, told_of

SAMPLINGS = {
    "tools that are text": '{"tools":"x"}',
    "tools that are a number": '{"tools":5}',
    "tools that describe nothing": '{"tools":["x","3","[]","{}",7,null]}',
    "a tool of a deep name": '{"tools":["{\\"name\\":' + "[" * 700 + "]" * 700 + '}"]}',
    "a deep option": '{"x":' + "[" * 700 + "]" * 700 + "}",
    "settings of a backend that are none": '{"extra":5}',
    "no numbers": '{"max_tokens":"x","stop":5,"temperature":1e999}',
}
"""What no run has written in place of sampling parameters."""

_CONTENT = 9


def sample_of(name: str) -> Sample:
    return next(each for each in samples() if each.name == name)


def forged(path: Path, sampling: str) -> Trace:
    """The trace at *path* of a run whose calls all have the parameters *sampling*."""
    groups = [list(group) for group in sample_of("tree/11").groups]
    for group in groups:
        for at, (tag, *rest) in enumerate(group):
            if tag == "P":
                group[at] = [tag, *rest[:2], sampling]
            elif tag == "S":  # another digest, so that a comparison looks at them
                group[at] = [tag, *rest[:_CONTENT], bytes(16), *rest[_CONTENT + 1 :]]
    path.write_bytes(built("", groups).data)
    return Trace.open(path)


@pytest.mark.parametrize("sampling", SAMPLINGS.values(), ids=list(SAMPLINGS))
def test_sampling_parameters_may_be_anything(sampling: str, tmp_path: Path) -> None:
    path = tmp_path / "a.trace"
    call = forged(path, sampling).calls[0]
    for words, expected in ((["show", call.address], 0), (["diff", OTHER], 1)):
        code, said = command([words[0], str(path), *words[1:]])
        assert code == expected and "Error" not in said, said[-500:]
    with contextlib.closing(View(path)) as view:
        assert json.loads(Views(view).json("a/call", {"row": "0"}))["settings"]


def test_parameters_that_could_not_be_written_again_are_a_text() -> None:
    for sampling in (SAMPLINGS["a deep option"], "[1]", "none", "[" * 5_000):
        assert parameters(sampling) == {UNREADABLE: sampling}


@pytest.mark.parametrize("sampling", SAMPLINGS.values(), ids=list(SAMPLINGS))
def test_a_replay_tells_from_any_parameters_what_differs(sampling: str, tmp_path: Path) -> None:
    trace = forged(tmp_path / "a.trace", sampling)
    call = trace.calls[0]
    now = Sampling(temperature=0.5, extra=(("zeal", 1),))
    request = Request(call.address, call.ordinal, call.model, call.messages, now)
    assert "->" in changed(request, call, {}) or "changed" in changed(request, call, {})
    assert "zeal" in divergence(trace, request, "", (), ())


def test_a_setting_of_the_backend_is_named_where_it_alone_differs(tmp_path: Path) -> None:
    trace = forged(tmp_path / "a.trace", '{"extra":{"zeal":2}}')
    call = trace.calls[0]
    now = Sampling(extra=(("zeal", 1),))
    request = Request(call.address, call.ordinal, call.model, call.messages, now)
    assert changed(request, call, {}) == "zeal 2 -> 1"


def test_a_beginning_that_two_traces_share_belongs_to_either() -> None:
    first, second = sample_of("tree/3"), sample_of("resumed/3")
    at = first.bounds[1]
    assert at == second.bounds[1] and first.data[:at] == second.data[:at]
    assert told_of(first.data[:at] + second.data[at:], first) is second
    assert told_of(first.data[:at] + second.data[at:-1], first) is first


@pytest.mark.parametrize("number", [-(1 << 63), (1 << 64) - 1])
def test_a_changed_number_can_be_packed(number: int) -> None:
    for seed in range(300):
        codec.pack(changed_value(number, random.Random(seed)))


def test_an_error_of_the_judge_names_the_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        Judge(tmp_path / "nowhere").judge(7)
    assert caught.value.__notes__ == ["at file number 7"]


@pytest.mark.parametrize("bits", [1_999, 16_000, 400_000])
def test_an_integer_of_any_length_is_shown(bits: int, tmp_path: Path) -> None:
    path, number = tmp_path / "a.trace", (1 << bits) - 1
    with contextlib.closing(Recorder(path, {"seed": number}, durability="process")) as recorder:
        recorder.on_event(ScopeEntered("/main.0", "/", "main.py", "main", 1, 0, {"about": number}))
        recorder.on_event(Observed("/main.0", 0, "value", {number: [number], (number,): 1}, 0))
    assert Trace.open(path).header["seed"] == number
    for words in (["show"], ["show", "--json"], ["cost"], ["verify"], ["diff", OTHER]):
        code, said = command([words[0], str(path), *words[1:]])
        assert code == (words[0] == "diff") and "Error" not in said, (words, said[-300:])
    with contextlib.closing(View(path)) as view:
        assert hex(number)[2:100] in Views(view).json("a/run", {}).decode() or bits < 2_000
