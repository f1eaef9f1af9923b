"""What a replay answers, what it refuses, and how it explains that."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import Any

import pytest
from made import answer, answered, asked, call, end, now, replayed, start

from appl import gen, ppl
from appl.backend import Chunk, Profile, Response, Sample
from appl.errors import (
    BackendBusy,
    BackendTimeout,
    CallCancelled,
    DivergenceError,
    ReplayStuck,
    TraceCorrupt,
    UnusedRecords,
)
from appl.runtime.world import Moment
from appl.testing import CallEnded, ChunksDelivered, Delivered, Echo, Fake, Observed, Run, Scripted
from appl.tracing import Recorder, Replayer, Trace, profile_data
from appl.tracing.format import codec, response_data
from appl.tracing.text_diff import visible


def recorded(path: Path, program: Any, backend: Any, ok: bool = True) -> Any:
    """The values of *program*, recorded at *path*."""
    recorder = Recorder(path, {"program": "p", "profile": profile_data(backend.profile)})
    try:
        with Run(backend, instruments=[recorder], gate=recorder.gate):
            return program()
    finally:
        recorder.close()


def again(path: Path, program: Any) -> Any:
    """The values of *program*, replayed from *path*."""
    replayer = Replayer(path)
    with Run(replayer.backend, instruments=[replayer], world=replayer):
        values = program()
    replayer.finish()
    return values


async def test_answers_come_in_the_order_in_which_they_were_delivered(path: Path) -> None:
    recorder = Recorder(path, {})
    requests = [asked(f"/p.0/gen.{i}", f"question {i}") for i in range(4)]
    for request in requests:
        start(recorder, request)
    for i in (2, 0, 3, 1):
        end(recorder, f"/p.0/gen.{i}", answer(f"answer {i}"))
    recorder.close()
    assert await replayed(Replayer(path), *reversed(requests)) == [
        f"answer {i}" for i in (3, 2, 1, 0)
    ]
    assert replayed.order == [f"/p.0/gen.{i}" for i in (2, 0, 3, 1)]  # type: ignore[attr-defined]


async def test_an_answer_that_another_prompt_needs_comes_before_that_prompts_own(
    path: Path,
) -> None:
    recorder = Recorder(path, {})
    one, two, three = (asked(f"/p.0/gen.{i}", f"q{i}") for i in range(3))
    start(recorder, one)
    start(recorder, two)
    end(recorder, "/p.0/gen.0", answer("never told to the program"), told=False)
    start(recorder, three, edges=("/p.0/gen.0",))
    end(recorder, "/p.0/gen.2", answer("first"))
    end(recorder, "/p.0/gen.1", answer("second"))
    recorder.close()
    await replayed(Replayer(path), one, two, three)
    assert replayed.order == ["/p.0/gen.0", "/p.0/gen.2", "/p.0/gen.1"]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "error", [BackendBusy("busy"), BackendTimeout("late"), ValueError("a bug")]
)
async def test_recorded_errors_are_raised_again(path: Path, error: Exception) -> None:
    recorder = Recorder(path, {})
    start(recorder, asked("/p.0/gen.0", "q"))
    end(recorder, "/p.0/gen.0", error)
    recorder.close()
    (found,) = await replayed(Replayer(path), asked("/p.0/gen.0", "q"))
    assert (type(found), str(found)) == (type(error), str(error))


async def test_twenty_samples_of_one_prompt_get_twenty_recorded_answers(path: Path) -> None:
    recorder = Recorder(path, {})
    requests = [asked(f"/p.0/sample.{i}/gen.0", "the same") for i in range(20)]
    for i, request in enumerate(requests):
        start(recorder, request)
        end(recorder, request.address, answer(f"sample {i}"))
    recorder.close()
    assert await replayed(Replayer(path), *requests) == [f"sample {i}" for i in range(20)]


async def test_samples_of_one_prompt_keep_their_answers_whoever_asks_first(path: Path) -> None:
    recorder = Recorder(path, {})
    for i in range(20):
        call(recorder, f"/p.{i}/gen.0", "the same", f"sample {i}")
    recorder.close()
    order = [7, 3, 19, 0, *(i for i in range(20) if i not in (7, 3, 19, 0))]
    found = await replayed(Replayer(path), *(asked(f"/p.{i}/gen.0", "the same") for i in order))
    assert found == [f"sample {i}" for i in order]


async def test_a_streamed_call_is_streamed_in_the_recorded_chunks_each_in_its_turn(
    path: Path,
) -> None:
    said = [Chunk(0, "an"), Chunk(0, "hm", "reasoning"), Chunk(0, "swer "), Chunk(0, "0")]
    recorder = Recorder(path, {})
    start(recorder, request := asked("/p.0/gen.0", "q"))
    recorder.on_event(ChunksDelivered("/p.0/gen.0", 2, now()))
    recorder.on_event(ChunksDelivered("/p.0/gen.0", 3, now()))
    given = Response((Sample("answer 0", "stop", reasoning="hm"),))
    recorder.on_event(CallEnded("/p.0/gen.0", given, None, now(), said))
    recorder.on_event(Delivered("/p.0/gen.0", now()))
    recorder.close()
    replayer, chunks = Replayer(path), list[Chunk]()
    task = asyncio.ensure_future(answered(replayer, request, chunks.append))
    await asyncio.sleep(0)
    assert not chunks
    for shown in (said[:2], said[:3], said):
        replayer.idle()
        assert chunks == shown
    assert (await task) == given and chunks == said


@pytest.mark.parametrize(
    "lengths",
    [[3], [3, 6], [8, 0], [8, -1, 1], [[1, 0, 8]], [[0, 9, 8]], ["8"], 8, [[0, 0]], [8.0]],
)
def test_lengths_that_do_not_add_up_make_the_trace_corrupt(path: Path, lengths: Any) -> None:
    recorder = Recorder(path, {})
    start(recorder, asked("/p.0/gen.0", "q"))
    ended = "E", "/p.0/gen.0", 0, response_data(answer("answer 0")), 1, lengths
    recorder.writer.append(codec.pack(ended))
    recorder.close()
    with pytest.raises(TraceCorrupt):
        Trace.open(path, check=True)


def test_the_replayed_backend_has_the_recorded_profile_without_its_limits(path: Path) -> None:
    backend = Profile("x", frozenset({"regex"}), frozenset({"top_k"}), ("m1",), "m1", concurrency=3)
    Recorder(path, {"profile": profile_data(backend)}).close()
    assert Replayer(path).backend.profile == Profile(
        "x", frozenset({"regex"}), frozenset({"top_k"}), ("m1",), "m1"
    )


# -- divergence


@ppl
def solve(word: str, temperature: float | None = None) -> str:
    f"The total is {word}."
    first = gen()
    f"Check: {first}"
    return str(gen(temperature=temperature))


def explained(path: Path, program: Any) -> str:
    with pytest.raises(DivergenceError) as caught:
        again(path, program)
    return str(caught.value)


def test_a_changed_prompt_is_explained_with_a_diff_and_what_is_the_same(path: Path) -> None:
    recorded(path, lambda: solve("41 (rounded)"), Echo())
    said = explained(path, lambda: solve("42 (rounded)"))
    line = Path(__file__).read_text().splitlines().index("    first = gen()") + 1
    assert "/solve.0/gen.0 (call 0 of its frame) was recorded with another content" in said
    assert f"issued now at {__file__}:{line}; recorded from {__file__}:{line}" in said
    assert "differs: message 1 (user)" in said and "same: model" in said
    assert "- The total is 41 (rounded)." in said and "+ The total is 42 (rounded)." in said
    assert "usual causes:" in said and f"appl trace show {path} /solve.0/gen.0" in said


def test_a_changed_option_is_named_with_both_values(path: Path) -> None:
    recorded(path, lambda: solve("41", 0.7), Echo())
    said = explained(path, lambda: solve("41", 0.2))
    assert "differs: temperature" in said and "- 0.7" in said and "+ 0.2" in said
    assert "same: message 1 (user), model" in said


def test_the_call_whose_answer_stands_in_the_differing_text_is_named(path: Path) -> None:
    @ppl
    def program(mark: str) -> str:
        "Ask."
        first = gen()
        f"You said {first}{mark}"
        return str(gen())

    recorded(path, lambda: program(""), Scripted(["forty", "two"]))
    said = explained(path, lambda: program("!"))
    assert "this text holds the answer of /" in said and "gen.0 (" in said
    assert "- Ask." not in said.split("differs")[0]


def test_a_new_call_names_the_recorded_one_of_the_same_content(path: Path) -> None:
    recorded(path, lambda: solve("41"), Echo())

    @ppl
    def moved(word: str) -> str:
        f"The total is {word}."
        return str(gen())

    said = explained(path, lambda: moved("41"))
    assert "was never recorded" in said
    assert "recorded with exactly this content: /solve.0/gen.0 (not asked for yet)" in said


def test_another_number_of_samples_is_a_divergence(path: Path) -> None:
    @ppl
    def sample(n: int) -> list[str]:
        "Say."
        return [str(text) for text in gen(n=n).samples]

    recorded(path, lambda: sample(3), Echo())
    assert "number of samples" in explained(path, lambda: sample(5))


def test_calls_that_are_not_asked_for_are_named_at_the_end(path: Path) -> None:
    recorded(path, lambda: [solve("1"), solve("2")], Echo())
    with pytest.raises(
        UnusedRecords, match=r"2 of 4 recorded calls were never asked for: /solve\.1/gen\.0"
    ):
        again(path, lambda: [solve("1")])


def test_a_divergence_that_the_program_swallows_is_raised_at_the_end(path: Path) -> None:
    recorded(path, lambda: solve("1"), Echo())

    def stubborn() -> None:
        with contextlib.suppress(Exception):
            solve("2")

    with pytest.raises(DivergenceError, match="another content"):
        again(path, stubborn)


def test_an_observation_that_was_not_recorded_is_a_divergence(path: Path) -> None:
    import appl

    recorded(path, lambda: solve("1"), Echo())
    with pytest.raises(DivergenceError, match="now number 0 at"):
        again(path, lambda: appl.now())


def test_observations_are_answered_from_the_trace_and_not_made(path: Path) -> None:
    recorder = Recorder(path, {})
    recorder.on_event(Observed("/p.0", 0, "input", "typed then", now()))
    recorder.close()
    assert (
        Replayer(path).see(Moment("/p.0", "input"), lambda: pytest.fail("asked live"))
        == "typed then"
    )


def test_a_crashed_trace_replays_up_to_its_end_and_says_that_it_ends(path: Path) -> None:
    recorder = Recorder(path, {})
    requests: list[Any] = []
    backend = Scripted(lambda request: requests.append(request) or "an answer")
    with Run(backend):
        solve("1")
    start(recorder, requests[0])
    end(recorder, requests[0].address, answer("an answer"))
    start(recorder, requests[1])
    recorder.barrier()
    recorder.writer.abandon()
    with pytest.raises(ReplayStuck) as caught:
        again(path, lambda: solve("1"))
    assert "waited for: /solve.0/gen.1" in str(caught.value)
    assert "had not ended when the record ends" in str(caught.value)


async def test_waiting_for_a_call_that_was_cancelled_is_explained_with_both_sides(
    path: Path,
) -> None:
    recorder = Recorder(path, {})
    start(recorder, asked("/p.0/gen.0", "q"))
    end(recorder, "/p.0/gen.0", CallCancelled("then"))
    call(recorder, "/p.0/gen.1", "other")
    recorder.close()
    (found,) = await replayed(Replayer(path), asked("/p.0/gen.0", "q"))
    assert isinstance(found, ReplayStuck)
    assert "/p.0/gen.0 program.py:7: it was cancelled" in str(found)
    assert "recorded, and not asked for yet: /p.0/gen.1" in str(found)


async def test_with_timers_pending_nothing_is_declared_stuck(path: Path) -> None:
    import asyncio

    recorder = Recorder(path, {})
    start(recorder, asked("/p.0/gen.0", "q"))
    recorder.close()
    replayer = Replayer(path)
    task = asyncio.ensure_future(answered(replayer, asked("/p.0/gen.0", "q")))
    await asyncio.sleep(0)
    assert not replayer.idle(final=False) and not task.done()
    assert replayer.idle() and replayer.difference()
    with pytest.raises(ReplayStuck):
        await task


def test_explanations_of_long_and_hostile_texts_are_short_and_printable(path: Path) -> None:
    @ppl
    def big(text: str) -> str:
        f"{text}"
        return str(gen())

    recorded(path, lambda: big("x" * 3_000_000 + "\x1b]52;c;aGk=\x07"), Echo())
    said = explained(path, lambda: big("x" * 3_000_000 + "\x1b[2J\ud800"))
    assert len(said) < 3000 and "\x1b" not in said and "\\x1b[2J" in said
    said.encode()
    assert visible("a\u202eb\x00\n") == "a\\u202eb\\x00\\n"


def test_rotating_a_key_does_not_change_what_a_call_is(path: Path) -> None:
    class Keyed(Fake):
        def __init__(self, key: str) -> None:
            self.key = key
            super().__init__(lambda request: "fine")

    values = recorded(path, lambda: solve("1"), Keyed("old key"))
    assert again(path, lambda: solve("1")) == values


def test_time_limits_do_not_count_in_a_replay(path: Path) -> None:
    @ppl
    def hurried() -> str:
        "Quick."
        return str(gen(timeout=1e-9 if replaying else 30.0))

    replaying = False
    values = recorded(path, hurried, Echo())
    replaying = True
    assert again(path, hurried) == values


def test_a_replay_can_be_recorded_and_the_copy_replays_too(path: Path) -> None:
    values = recorded(path, lambda: [solve("1"), solve("2")], Echo())
    replayer, copy = Replayer(path), path.with_name("copy.trace")
    recorder = Recorder(copy, {"parent": path.name})
    with Run(replayer.backend, instruments=[replayer, recorder], world=replayer):
        assert [solve("1"), solve("2")] == values
    recorder.close()
    assert again(copy, lambda: [solve("1"), solve("2")]) == values
    one, two = (
        [{**c.as_data(), "started_us": 0, "ended_us": 0} for c in Trace.open(p).calls]
        for p in (path, copy)
    )
    assert sorted(map(str, one)) == sorted(map(str, two))


def test_replays_leave_nothing_behind_on_the_threads_hub(path: Path) -> None:
    from appl.runtime import hub_here

    values = recorded(path, lambda: solve("1"), Echo())
    for _ in range(3):
        assert again(path, lambda: solve("1")) == values
    assert hub_here().on_sleep == []
