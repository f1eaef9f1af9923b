"""Several samples of one question, and caches that know some of them already."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

from appl import call, gen, ppl
from appl.backend import Chunk, Request, Response, Sample, Sampling, Usage
from appl.errors import BackendError, InvalidOption, MalformedResponse
from appl.runtime import Caches, Samples
from appl.testing import Echo, Fake, Held, Log, Run, Scripted, Seeded, Streamed, running
from appl.tracing import Recorder, Replayer, Trace, profile_data


def counting(**profile: Any) -> Scripted:
    """Answers a0, a1, … in the order of asking, a sample each."""
    count = itertools.count()

    def answer(request: Any) -> Response:
        samples = tuple(Sample(f"a{next(count)}", "stop") for _ in range(request.n))
        return Response(samples, Usage(10, request.n, 0), cost=request.n)

    return Scripted(answer, **profile)


def asked(seen: Fake) -> list[tuple[int, int]]:
    """How many samples were asked for, from which number on."""
    return [(request.n, request.sample) for request in seen.requests]


def test_several_samples_are_one_call():
    with running(counting()) as seen:
        answer = gen(messages="q", n=3)
        assert answer == "a0" and answer.samples == ("a0", "a1", "a2")
        assert answer.usage == Usage(10, 3, 0)
    assert asked(seen) == [(3, 0)]


def test_a_backend_that_gives_one_is_asked_for_each():
    with running(counting(features=["seed"])) as seen:
        answer = gen(messages="q", n=3, seed=7)
        assert answer.samples == ("a0", "a1", "a2")
        assert answer.usage == Usage(30, 3, 0) and answer.cost == 3
    assert asked(seen) == [(1, 0), (1, 1), (1, 2)]
    assert [request.sampling.seed for request in seen.requests] == [7, 8, 9]


def test_one_failure_of_them_fails_the_call_when_all_have_ended():
    backend = Scripted(["a", BackendError("down"), "c"], features=[])
    with running(backend), pytest.raises(BackendError, match="down"):
        gen(messages="q", n=3).result()
    assert len(backend.requests) == 3


def test_the_number_of_samples_is_not_in_the_digest():
    with running(counting()) as seen:
        gen(messages="q", n=2).result()
        gen(messages="q").result()
    one, two = seen.requests
    assert one.digest == two.digest


# -- cache="run"


def test_the_same_question_is_paid_once():
    with running(counting(), instruments=[log := Log()]) as seen:
        first, again = gen(messages="q", cache="run"), gen(messages="q", cache="run")
        other = gen(messages="r", cache="run")
        assert first == again == "a0" and other == "a1"
        assert (first.cost, first.usage.completion_tokens) == (1, 1)
        assert (again.cost, again.usage) == (0, Usage(0, 0, 0))
        assert gen(messages="q") == "a2"
    assert len(seen.requests) == 3 and len(log.events) > 8


def test_missing_samples_alone_are_paid():
    with running(counting()) as seen:
        assert gen(messages="q", n=2, cache="run").samples == ("a0", "a1")
        more = gen(messages="q", n=5, cache="run")
        assert more.samples == ("a0", "a1", "a2", "a3", "a4") and more.cost == 3
        assert gen(messages="q", n=3, cache="run").samples == ("a0", "a1", "a2")
    assert asked(seen) == [(2, 0), (3, 2)]


@pytest.mark.parametrize("different", [{"temperature": 0.5}, {"seed": 1}, {"max_tokens": 3}])
def test_another_question_is_another_entry(different):
    with running(counting()) as seen:
        gen(messages="q", cache="run").result()
        gen(messages="q", cache="run", **different).result()
    assert len(seen.requests) == 2


def test_a_run_forgets():
    for _ in range(2):
        with running(counting()) as seen:
            assert gen(messages="q", cache="run") == "a0"
        assert len(seen.requests) == 1


@pytest.mark.parametrize("seed", range(5))
def test_what_is_asked_at_once_is_asked_once_under_every_schedule(seed: int):
    @ppl
    def ask(word):
        f"{word}"
        return [str(gen(cache="run", n=len(word))), str(gen(cache="run"))]

    def ran(**options: Any) -> tuple[Any, int]:
        backend = Seeded(seed, lambda request: f"{request.address}{request.ordinal}")
        with running(backend, **options) as seen:
            values = [f.result() for f in [call(ask, word) for word in ("x", "yy", "x", "yy")]]
        return values, len(seen.requests)

    values, asked_for = ran()
    assert values == ran(sequential=True)[0]
    assert asked_for == 2 and values[0] == values[2] and values[1] == values[3]


def test_a_failure_is_not_kept_and_the_next_one_asks():
    with running(Scripted([BackendError("down"), "fine"])) as seen:
        one, two = gen(messages="q", cache="run"), gen(messages="q", cache="run")
        with pytest.raises(BackendError):
            one.result()
        assert two == "fine"
    assert len(seen.requests) == 2


def test_who_waits_for_a_cancelled_call_asks_himself():
    class Steps(Held):
        """Answers the call that is in no cache first, then what waits."""

        def on_idle(self, final: bool = True) -> bool:
            last = [address for address in self.waiting if "gen" in address] or [*self.waiting]
            self.release(*last)
            return bool(last)

    with running(Steps(lambda request: f"a{len(backend.requests)}")) as backend:
        one, two = gen(messages="q", cache="run"), gen(messages="q", cache="run")
        gen(messages="r").result()
        one.cancel()
        assert two == "a3"
    assert len(backend.aborted) == 1


def test_a_typed_answer_and_its_asking_again_come_from_the_cache():
    with running(Scripted(["no", "5"])) as seen:
        for _ in range(3):
            answer = gen(messages="?", response_format=int, cache="run")
            assert answer == 5
        assert answer.cost == 0
    assert len(seen.requests) == 2


def test_what_is_known_is_streamed_at_once_and_the_rest_as_it_comes():
    backend = Scripted([Streamed(("ab", "c")), Streamed(("x", "y"))])
    with running(backend):
        assert list(gen(messages="q", stream=True, cache="run").text_stream) == ["ab", "c"]
        assert list(gen(messages="q", stream=True, cache="run").text_stream) == ["abc"]


def test_the_samples_that_are_asked_for_later_stream_by_their_numbers():
    chunks: list[Chunk] = []

    class Watching:
        wants_chunks = True

        def on_event(self, event: Any) -> None:
            chunk = getattr(event, "chunk", None)
            if chunk is not None:
                chunks.append(chunk)

    with running(counting(), instruments=[Watching()]):
        gen(messages="q", cache="run").result()
        gen(messages="q", n=2, cache="run").result()
    assert [(chunk.sample, chunk.text) for chunk in chunks] == [(0, "a0"), (0, "a0"), (1, "a1")]


def test_a_backend_that_gives_too_few_is_told_so():
    with running(Fake(lambda request: Response((Sample("a", "stop"),)))):
        gen(messages="q", cache="run").result()
        with pytest.raises(MalformedResponse, match="2 of 3 samples"):
            gen(messages="q", n=3, cache="run").result()


@pytest.mark.parametrize("wanted", [3, True, "", b"x", ["run"]])
def test_what_names_no_cache_is_refused_before_any_call(wanted):
    with running(Echo()) as seen, pytest.raises(InvalidOption, match="cache"):
        gen(messages="q", cache=wanted)
    assert seen.requests == []


# -- a file


def test_another_run_finds_what_a_file_holds(tmp_path: Path):
    file = tmp_path / "deep" / "answers"
    with running(counting()):
        assert gen(messages="q", n=2, cache=file).samples == ("a0", "a1")
    with running(counting()) as seen:
        answer = gen(messages="q", n=3, cache=str(file))
        assert answer.samples == ("a0", "a1", "a0") and answer.cost == 1
    assert asked(seen) == [(1, 2)]


def test_another_backend_has_answers_of_its_own(tmp_path: Path):
    with running(counting()):
        gen(messages="q", cache=tmp_path / "c").result()
    with running(Echo()) as seen:
        gen(messages="q", cache=tmp_path / "c").result()
    assert len(seen.requests) == 1


def test_the_trace_says_what_was_reused_and_a_replay_needs_no_cache(tmp_path: Path):
    def program() -> list[Any]:
        answers = [gen(messages="q", n=n, cache=tmp_path / "cache") for n in (1, 2, 2)]
        return [(*answer.samples, answer.cost) for answer in answers]

    for backend in (counting(), counting()):
        recorder = Recorder(tmp_path / "t.trace", {"profile": profile_data(backend.profile)})
        with Run(backend, instruments=[recorder], gate=recorder.gate):
            values = program()
        recorder.close()
        trace = Trace.open(tmp_path / "t.trace")
        (tmp_path / "t.trace").rename(tmp_path / "last.trace")
    assert [call.response.reused for call in trace.calls if call.response] == [1, 2, 2]
    assert trace.totals().reused == 5 and trace.totals().cost == 0
    (tmp_path / "cache").unlink()
    replayer = Replayer(tmp_path / "last.trace")
    with Run(replayer.backend, instruments=[replayer], world=replayer):
        assert program() == values
    replayer.finish()
    assert not (tmp_path / "cache").exists()


def test_a_file_that_is_no_cache_is_refused_at_its_line(tmp_path: Path):
    (tmp_path / "notes.txt").write_text("not a cache, but notes of somebody\n" * 100)
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    for bad in ("notes.txt", "link", "."):
        with running(Echo()) as seen, pytest.raises(InvalidOption, match="cannot be used"):
            gen(messages="q", cache=tmp_path / bad)
        assert seen.requests == []
    assert not (tmp_path / "elsewhere").exists()


class Broken:
    """A cache whose disk is full, or worse."""

    blocking = True

    def __init__(self, path: Path) -> None:
        self.path = path

    def load(self, content: bytes, count: int) -> list[Response]:
        raise OSError("the disk is gone")

    def save(self, content: bytes, first: int, answers: list[Response]) -> list[Response]:
        raise OSError("the disk is full")

    def close(self) -> None:
        pass


async def test_a_cache_that_fails_loses_no_answer():
    told: list[tuple[str, str]] = []
    caches = Caches(Broken)
    name = caches.named("/somewhere")
    samples = Samples(counting(), caches, lambda: None, lambda *line: told.append(line))
    request = Request("/gen.0", 0, "", None, Sampling(), n=2, cache=name)
    response = await samples.complete(request)
    assert [sample.text for sample in response.samples] == ["a0", "a1"] and response.reused == 0
    assert told == [
        ("/gen.0", "the cache /somewhere cannot load answers: the disk is gone"),
        ("/gen.0", "the cache /somewhere cannot save answers: the disk is full"),
    ]


@pytest.mark.parametrize("n", [0, 1.0, True, "2"])
def test_a_number_of_samples_is_a_whole_one(n: Any):
    with running(Echo()) as seen, pytest.raises(InvalidOption, match="n="):
        gen(messages="x", n=n)
    assert seen.requests == []
