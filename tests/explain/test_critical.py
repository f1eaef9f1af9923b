from __future__ import annotations

from hypothesis import strategies as st

from appl.tracing import RecordedCall, Trace
from appl.tracing.explaining import END, START, MomentGraph, phases
from appl.tracing.explaining.critical import critical
from appl.tracing.explaining.moment_graph import TOLD
from appl.tracing.explaining.run_model import RunModel
from tests.drawn import examples

from .support import call, micro, trace


def shown(found: Trace) -> list[tuple[str, float, str]]:
    return [(each.kind, each.took / 1e6, each.address) for each in critical(found).segments]


def test_what_a_call_did_is_told_as_far_as_it_is_recorded() -> None:
    streamed = call("/f.0/gen.0", 1, 5, sent=1.5, first=2)
    assert phases(streamed) == [("queue", 500000), ("prefill", 500000), ("decode", 3000000)]
    assert phases(call("/f.0/gen.0", 1, 5)) == [("answer", 4000000)]
    assert phases(call("/f.0/gen.0", 1, None)) == []


def test_a_call_that_needs_an_answer_waits_for_data() -> None:
    run = trace(
        call("/f.0/gen.0", 0, 2, 2),
        call("/f.0/gen.1", 0, 1, 4),
        call("/f.0/gen.2", 2, 3, 3.5, edges=("/f.0/gen.0",)),
        scopes=(("/f.0", 0),),
    )
    assert shown(run)[:2] == [("answer", 2.0, "/f.0/gen.0"), ("answer", 1.0, "/f.0/gen.2")]
    assert critical(run).waits == []


def test_a_call_after_an_answer_that_it_does_not_hold_could_have_begun_before() -> None:
    run = trace(call("/f.0/gen.0", 0.1, 2, 2), call("/f.0/gen.1", 2.5, 5, 5), scopes=(("/f.0", 0),))
    found = critical(run)
    assert shown(run) == [
        ("program", 0.1, "/f.0/gen.0"),
        ("answer", 1.9, "/f.0/gen.0"),
        ("program", 0.5, "/f.0/gen.1"),
        ("answer", 2.5, "/f.0/gen.1"),
    ]
    (wait,) = found.waits
    assert (wait.address, wait.after, wait.predicted) == ("/f.0/gen.1", "/f.0/gen.0", micro(3.0))
    assert found.kinds == {"program": micro(0.6), "answer": micro(4.4)}


def test_functions_side_by_side_follow_themselves() -> None:
    run = trace(
        call("/f.0/a.0/gen.0", 0, 4, 4),
        call("/f.0/b.0/gen.0", 0, 1, 1),
        call("/f.0/b.0/gen.1", 1, 3, 3),
        call("/f.0/a.0/gen.1", 4, 5, 5),
        scopes=(("/f.0", 0), ("/f.0/a.0", 0), ("/f.0/b.0", 0)),
    )
    assert [each[2] for each in shown(run)] == ["/f.0/a.0/gen.0", "/f.0/a.0/gen.1"]


def test_an_empty_run_has_no_path() -> None:
    assert critical(trace()).as_data()["duration_us"] == 0


@st.composite
def runs(draw: st.DrawFn) -> Trace:
    """Calls of some functions, each with edges to calls that had ended."""
    made: list[RecordedCall] = []
    scopes = [("/f.0", 0.0)]
    for branch in range(draw(st.integers(1, 3))):
        scope = f"/f.0/b.{branch}"
        scopes.append((scope, branch / 100))
        at = branch / 100
        for i in range(draw(st.integers(0, 5))):
            at += draw(st.integers(0, 300)) / 100
            took = draw(st.integers(0, 500)) / 100
            sent = at + draw(st.integers(0, 100)) / 100 * took
            ended = [c.address for c in made if c.ended is not None and c.ended <= micro(at)]
            edges = draw(st.lists(st.sampled_from(ended), max_size=2, unique=True)) if ended else []
            told = at + took + draw(st.integers(0, 50)) / 100
            made.append(
                call(f"{scope}/gen.{i}", at, at + took, told, sent=sent, edges=tuple(edges))
            )
            at = told if draw(st.booleans()) else at
    return trace(*made, scopes=tuple(scopes))


@examples(60, 200, runs())
def test_the_path_tiles_the_run_and_no_change_changes_nothing(run: Trace) -> None:
    flow, found = MomentGraph(run), critical(run)
    assert sum(each.took for each in found.segments) == found.duration
    for before, after in zip(found.segments, found.segments[1:], strict=False):
        assert before.end == after.start
    model = RunModel(flow)
    assert happened(model, list(model.delays), {}) == list(flow.at)
    assert all(wait.predicted <= found.duration for wait in found.waits)


def happened(model: RunModel, delays: list[int], needs: dict[int, list[int]]) -> list[int]:
    """When each moment happens, from the rule for one: after the last of what it needs."""
    at: list[int] = []
    for index, delay in enumerate(delays):
        wanted = needs.get(index, list(model.needs.of(index)))
        at.append(max((at[need] for need in wanted), default=model.graph.begin) + delay)
    return at


@examples(60, 200, runs(), st.data())
def test_a_wait_that_is_left_out_is_predicted_from_the_rule_for_each_moment(
    run: Trace, data: st.DataObject
) -> None:
    flow = MomentGraph(run)
    told = [index for index in range(len(flow)) if flow.kind(index) == TOLD]
    begun = [index for index in range(len(flow)) if flow.kind(index) == START]
    pairs = [(one, other) for one in begun for other in told if other < one]
    if pairs:
        one, other = data.draw(st.sampled_from(pairs))
        model, step, before = RunModel(flow), flow.step(one), flow.step(other)
        freed = {one: [*flow.data(step), *flow.round(flow.place(before, START))]}
        expected = max(happened(model, list(model.delays), freed)) - flow.begin
        assert model.beside(step, before) == expected


@examples(60, 200, runs())
def test_an_answer_that_came_late_was_handed_over_with_the_last_that_ended_before(
    run: Trace,
) -> None:
    flow = MomentGraph(run)
    for index in range(len(flow)):
        if flow.kind(index) == TOLD:
            own, before = flow.place(flow.step(index), END), flow.program(index)
            known = own if before is None else max(own, before)
            near = [i for i in range(len(flow)) if abs(flow.at[i] - flow.at[index]) <= 5000]
            ends = [flow.place(flow.step(i), END) for i in near if flow.kind(i) == TOLD]
            late = flow.at[index] - flow.at[known] > 5000
            expected = max(end for end in ends if end < index) if late else own
            assert flow.answers(index, before) == expected
