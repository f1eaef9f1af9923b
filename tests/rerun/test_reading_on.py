"""Edits that let a streamed call go on which was cancelled in the middle: it is asked, and goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from appl import gen, ppl
from appl.backend import Chunk, Emit, Request, Response, Sample, Usage
from appl.errors import BackendUnavailable, CallCancelled, DivergenceError
from appl.session.rerunning import foreseen
from appl.testing import BackendEndpoint, Fake, Limits, Model, Models, Policy, Retries, Run
from appl.tracing import Predictor, Recorder, Replayer, Rerunner, Trace, profile_data
from appl.tracing.explaining import Prediction, RerunReport
from appl.tracing.format.chunks import texts

CALL = "/program.0/gen.0"
CAUSE = "was cancelled when recorded"
POLICY = Policy(retries=Retries(attempts=3, base_s=0, spare=1000), circuit=None)


@ppl
async def read(answer: Any, most: int, seen: list[str]) -> None:
    async for piece in answer.text_stream:
        seen.append(piece)
        if len(seen) >= most:
            answer.cancel()
            return


@ppl
async def program(most: int, seen: list[str], **options: Any) -> str:
    """Reads a story as far as *most* pieces, and asks something else then."""
    "Tell me a story."
    answer = gen(stream=True, **options)
    await read(answer, most, seen)
    return str(await other())


@ppl
async def other() -> str:
    "Something else."
    return str(await gen())


class Telling:
    """A backend whose stories are *told*, of which each attempt may be another, in *pieces*.

    One that does not *end* says no more, until it is cancelled.
    """

    profile = Fake(lambda _: "").profile

    def __init__(
        self, *told: str | Exception, pieces: Callable[[str], Any] = list, ends: bool = True
    ) -> None:
        self._told: Iterator[str | Exception] = iter(told)
        self._pieces, self._ends = pieces, ends
        self.asked: list[str] = []

    async def complete(self, request: Request, emit: Emit | None = None) -> Response:
        self.asked.append(request.address)
        said = next(self._told) if request.address == CALL else "another thing"
        for piece in self._pieces(str(said)) if emit is not None else ():
            emit(Chunk(request.sample, piece))
            await asyncio.sleep(0)
        if request.address == CALL and not self._ends:
            await asyncio.Event().wait()
        if isinstance(said, Exception):
            raise said
        return Response((Sample(said, "stop"),), Usage(3, 4, 0), cost=0)


def run(
    backend: Any, most: int, path: Path, recalled: Any = None, *others: Any, **options: Any
) -> list[str]:
    """What the program reads; it is recorded at *path*."""
    seen = list[str]()
    recorder = Recorder(path, {"profile": profile_data(backend.profile)}, durability="process")
    watching = [recorder] if recalled is None else [recalled, recorder, *others]
    try:
        with Run(backend, instruments=watching, world=recalled, policy=POLICY):
            assert asyncio.run(program(most, seen, **options)) == "another thing"
    finally:
        recorder.close()
    return seen


def again(
    path: Path, backend: Telling, most: int, **options: Any
) -> tuple[list[str], RerunReport, Trace]:
    """The program with an edit: what it reads, the report, and its trace, which replays by itself."""
    rerunner, into, seen = Rerunner(path, **options), path.with_name("b.trace"), list[str]()
    report = RerunReport(rerunner)
    read = run(backend, most, into, rerunner, report.tally)
    replayer = Replayer(into)
    with Run(replayer.backend, instruments=[replayer], world=replayer):
        asyncio.run(program(most, seen))
    replayer.finish()
    assert seen == read
    return read, report, Trace.open(into)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A run whose program read three pieces of a story, and cancelled it."""
    assert run(Telling("onc", ends=False), 3, tmp_path / "a.trace") == ["o", "n", "c"]
    return tmp_path / "a.trace"


def predicted(path: Path, most: int, **options: Any) -> tuple[Prediction, list[str]]:
    seen: dict[int, list[str]] = {}

    def performed(number: int) -> tuple[Predictor, None]:
        predictor = Predictor(path, rehearsal=number, **options)
        with Run(Telling(), instruments=[predictor], world=predictor):
            asyncio.run(program(most, seen.setdefault(number, [])))
        return predictor, None

    return foreseen(performed), seen[0]


def test_the_rest_is_asked_for_and_what_was_read_stands(path: Path) -> None:
    backend = Telling("once more")
    seen, report, trace = again(path, backend, 99)
    assert seen == list("once more") and backend.asked == [CALL]
    assert [(live.address, live.cause) for live in report.live] == [(CALL, CAUSE)]
    assert report.tally.live.calls == 1 and report.reused == 1
    (story, _) = trace.calls
    assert story.response is not None and story.response.text == "once more"
    assert [chunk.text for chunk in story.chunks()] == list("once more")


@pytest.mark.parametrize(
    ("pieces", "read"),
    [
        (lambda text: [text], ["o", "n", "c", "e more"]),
        (lambda text: [text[:2], text[2:6], text[6:]], ["o", "n", "c", "e m", "ore"]),
        (lambda text: (), ["o", "n", "c", "e more"]),  # it does not stream
    ],
)
def test_pieces_of_the_new_answer_may_lie_otherwise(path: Path, pieces: Any, read: Any) -> None:
    assert again(path, Telling("once more", pieces=pieces), 99)[0] == read


def test_an_answer_that_ends_where_it_was_cancelled_is_whole(path: Path) -> None:
    assert again(path, Telling("onc"), 99)[0] == ["o", "n", "c"]


def test_it_may_be_cancelled_later_than_it_was(path: Path) -> None:
    seen, report, trace = again(path, Telling("once ", ends=False), 5)
    assert seen == list("once ") and [live.cause for live in report.live] == [CAUSE]
    assert isinstance(trace.calls[0].error, CallCancelled)
    assert report.tally.live.calls == 1 and report.tally.line().startswith("1 of 2 calls live")


@pytest.mark.parametrize(
    ("told", "pieces"),
    [("on and on", list), ("on", list), ("on and on", lambda text: ()), ("", list)],
)
def test_an_answer_that_begins_otherwise_fails_and_says_what_to_do(
    path: Path, told: str, pieces: Any
) -> None:
    backend = Telling(told, pieces=pieces)
    with pytest.raises(DivergenceError) as caught:
        again(path, backend, 99)
    text = str(caught.value)
    assert f"--anew {CALL}" in text and f"--pin '{CALL}=TEXT'" in text
    assert "its text began with 'onc', and begins with 'o" in text or not told
    assert backend.asked == [CALL]


def test_what_follows_a_piece_that_differs_is_not_waited_for(path: Path) -> None:
    """The attempt is ended: the backend would go on for ever."""

    def endless(text: str) -> Iterator[str]:
        yield text
        while True:
            yield "on and "

    with pytest.raises(DivergenceError, match="another: its text began with 'onc'"):
        again(path, Telling("on and ", pieces=endless), 99)


@ppl
async def two(most: int) -> list[str]:
    """Two stories, of which each is read as far as *most* pieces."""
    found = []
    for answer in [gen(stream=True, messages=f"Story {number}.") for number in range(2)]:
        seen = list[str]()
        try:
            await read(answer, most, seen)
        except DivergenceError:
            seen.append("another")
        found.append("".join(seen))
    return found


class Stories(Fake):
    """Tells both stories, the first without ever waiting; one that does not *end* tells their beginning."""

    def __init__(self, *, ends: bool) -> None:
        super().__init__(lambda _: "", features={"stream"})
        self._ends = ends

    async def complete(self, request: Request, emit: Emit | None = None) -> Response:
        assert request.messages is not None
        second = "1" in request.messages.message.content
        text = "1 and on" if second else "0 and on" if not self._ends else "2"
        assert emit is not None
        if second:
            await asyncio.sleep(0)
        emit(Chunk(0, text if self._ends else text[:1]))
        if not self._ends:
            await asyncio.Event().wait()
        return Response((Sample(text, "stop"),), Usage(), cost=0)


def test_where_one_answer_is_another_the_next_is_asked_as_ever(tmp_path: Path) -> None:
    """Whoever finds that out is the attempt itself, and one worker makes both."""
    recorder = Recorder(tmp_path / "a.trace", {}, durability="process")
    with Run(Stories(ends=False), instruments=[recorder]):
        assert asyncio.run(two(1)) == ["0", "1"]
    recorder.close()
    rerunner = Rerunner(tmp_path / "a.trace")
    one = replace(POLICY, limits=Limits(concurrency=1))
    with Run(Stories(ends=True), instruments=[rerunner], world=rerunner, policy=one):
        assert asyncio.run(two(99)) == ["0another", "1 and on"]


def test_it_is_tried_again_as_long_as_nothing_new_was_read(path: Path) -> None:
    backend = Telling(BackendUnavailable("onc"), BackendUnavailable("on"), "once more")
    assert again(path, backend, 99)[0] == list("once more")
    assert backend.asked == [CALL] * 3


class Near(Telling):
    profile = Fake(lambda _: "", name="near", default_model="n").profile


class Far(Telling):
    profile = Fake(lambda _: "", name="far", default_model="f").profile


def with_two(near: Near, far: Far, most: int, *watching: Any, recalled: Any = None) -> list[str]:
    """What is read where the backend *far* is asked for what *near* cannot answer."""
    both = {"both": Model("near", "n", others=(Model("far", "f"),))}
    models, seen = Models(near.profile, None, both, "near", {"far": far.profile}), list[str]()
    once = Policy(retries=Retries(attempts=1), circuit=None)
    with Run(
        near, instruments=watching, world=recalled, policy=once, models=models,
        places={"far": BackendEndpoint(far, once)},
    ):  # fmt: skip
        asyncio.run(program(most, seen, model="both"))
    return seen


def test_another_backend_is_asked_for_it_as_long_as_nothing_new_was_read(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "a.trace", {}, durability="process")
    assert with_two(Near("onc", ends=False), Far(), 3, recorder) == ["o", "n", "c"]
    recorder.close()
    for said, read in (("on", list("once more")), ("once", None)):
        rerunner, far = Rerunner(tmp_path / "a.trace"), Far("once more")
        near = Near(BackendUnavailable(said))
        if read is not None:
            assert with_two(near, far, 99, rerunner, recalled=rerunner) == read
            continue
        with pytest.raises(BackendUnavailable):
            with_two(near, far, 99, rerunner, recalled=rerunner)
        assert not far.asked


def test_a_program_that_waits_without_a_loop_reads_on_too(tmp_path: Path) -> None:
    @ppl
    def story(most: int, seen: list[str]) -> str:
        "Tell me a story."
        answer = gen(stream=True)
        for piece in answer.text_stream:
            seen.append(piece)
            if len(seen) == most:
                answer.cancel()
                break
        return "".join(seen)

    class Stories(Telling):
        async def complete(self, request: Request, emit: Emit | None = None) -> Response:
            return await super().complete(replace(request, address=CALL), emit)

    recorder = Recorder(tmp_path / "a.trace", {}, durability="process")
    with Run(Stories("onc", ends=False), instruments=[recorder]):
        assert story(3, []) == "onc"
    recorder.close()
    rerunner = Rerunner(tmp_path / "a.trace")
    with Run(Stories("once more"), instruments=[rerunner], world=rerunner):
        assert story(99, []) == "once more"
    assert [live.cause for live in RerunReport(rerunner).live] == [CAUSE]


def test_it_is_not_tried_again_when_more_was_read(path: Path) -> None:
    backend = Telling(BackendUnavailable("once mo"), "once more")
    with pytest.raises(BackendUnavailable):
        again(path, backend, 99)
    assert backend.asked == [CALL]


@pytest.mark.parametrize("address", [CALL, "*/gen.0", "program.0/gen.0"])
def test_what_is_asked_anew_reads_nothing_of_the_record(path: Path, address: str) -> None:
    seen, report, _ = again(path, Telling("on and on"), 99, anew=[address])
    assert seen == list("on and on")
    assert (CALL, "asked anew") in [(live.address, live.cause) for live in report.live]


def test_it_is_predicted_to_be_asked(path: Path) -> None:
    found, seen = predicted(path, 99)
    assert [(live.address, live.cause) for live in found.fewest] == [(CALL, CAUSE)]
    assert "".join(seen) == "onc…" and found.guessed == [CALL] and not found.stopped
    assert predicted(path, 3)[0].live == (0, 0)
    assert [live.cause for live in predicted(path, 3, anew=[CALL])[0].fewest] == ["asked anew"]


class Mixed(Telling):
    """Two samples at once, the first with a thought; given as chunks, in any order."""

    profile = Fake(lambda _: "", features={"n", "stream"}).profile

    def __init__(self, *chunks: tuple[int, str, Any], ends: bool = True) -> None:
        super().__init__(ends=ends)
        self._chunks = [Chunk(*each) for each in chunks]

    async def complete(self, request: Request, emit: Emit | None = None) -> Response:
        self.asked.append(request.address)
        if emit is None:
            return Response((Sample("another thing", "stop"),), Usage(), cost=0)
        for chunk in self._chunks:
            emit(chunk)
            await asyncio.sleep(0)
        if not self._ends:
            await asyncio.Event().wait()
        said = texts(self._chunks)
        samples = [
            Sample(said[at, 0], "stop", reasoning=said.get((at, 1))) for at in range(request.n)
        ]
        return Response(tuple(samples), Usage(), cost=0)


BEGUN = [(1, "one ", "text"), (0, "Hm. ", "reasoning"), (1, "day", "text"), (0, "on", "text")]
NEW = [(0, "Hm. Ha.", "reasoning"), (0, "once", "text"), (1, "one", "text"), (1, " day!", "text")]


def test_thoughts_and_other_samples_have_to_come_again_too(tmp_path: Path) -> None:
    """Each by itself, whatever comes of which first."""
    path, into = tmp_path / "a.trace", tmp_path / "b.trace"
    assert run(Mixed(*BEGUN, ends=False), 1, path, n=2) == ["on"]
    rerunner = Rerunner(path)
    assert run(Mixed(*NEW), 99, into, rerunner, n=2) == ["on", "ce"]
    told = [(each.sample, each.text, each.kind) for each in Trace.open(into).calls[0].chunks()]
    assert told == [*BEGUN, (0, "Ha.", "reasoning"), (0, "ce", "text"), (1, "!", "text")]
    for wrong in (
        [(0, "Ho.", "reasoning"), *NEW[1:]],
        [*NEW[:2], (1, "two", "text")],
    ):
        into.unlink()
        with pytest.raises(DivergenceError, match="began with"):
            run(Mixed(*wrong), 99, into, Rerunner(path), n=2)


def test_what_is_asked_anew_by_a_pattern_that_no_call_has_is_known(path: Path) -> None:
    rerunner = Rerunner(path, anew=["nobody", CALL])
    run(Telling("x"), 3, path.with_name("c.trace"), rerunner)
    assert rerunner.unused() == ["nobody"]
