"""A draft makes an answer faster, and never another one."""

from __future__ import annotations

import dataclasses
import random
from pathlib import Path

import pytest

from appl.backend import Draft, Request, Response, Sample, Sampling
from appl.prompt import Messages, UserMessage
from appl_backends.embedded import WEIGHTS, Embedded
from appl_backends.embedded.drafts import (
    CREDIT,
    DEBT,
    FOREIGN,
    LONGEST,
    OWN,
    DraftCursor,
    DraftPace,
    Drafts,
    passes,
)
from appl_backends.embedded.engine import BatchEngine
from appl_backends.embedded.sampler import Draw
from appl_backends.embedded.task import EngineTask
from appl_backends.embedded.tokenizer import Tokenizer
from tests.drawn import counts

from .conftest import MakeEngine, drain
from .random_answers import a_draft, a_request, answers, essence, likelihoods


async def different(plain: Embedded, ahead: Embedded, count: int, seed: int) -> tuple[int, int]:
    """How many of *count* requests the two answer differently, and the samples compared."""
    rng, wrong, seen = random.Random(seed), 0, 0
    while count > 0:
        requests = [a_request(rng) for _ in range(min(count, rng.choice([1, 1, 2, 5, 12])))]
        streamed, count = rng.random() < 0.3, count - len(requests)
        expected = await answers(plain, requests, streamed)
        responses = [response for response, _ in expected]
        for request, own in zip(requests, responses, strict=True):
            request.draft = a_draft(rng, own, responses)
        for one, other in zip(expected, await answers(ahead, requests, streamed), strict=True):
            same = essence(one) == essence(other)
            wrong += not (same and likelihoods(other) == pytest.approx(likelihoods(one), abs=1e-3))
            seen += len(one[0].samples)
    return wrong, seen


@counts(300, 2000)
async def test_no_draft_changes_an_answer(folder: Path, count: int) -> None:
    plain, ahead = Embedded(weights=folder, ahead=False), Embedded(weights=folder)
    wrong, _ = await different(plain, ahead, count, seed=count)
    report = ahead.cache_report()
    assert wrong == 0 and report["accepted_tokens"] > count and report["forced_tokens"] > count
    assert plain.cache_report()["drafted_tokens"] == plain.cache_report()["forced_tokens"] == 0
    await plain.aclose()
    await ahead.aclose()


@pytest.mark.long
async def test_no_draft_changes_an_answer_of_the_shipped_model() -> None:
    plain, ahead = Embedded(ahead=False), Embedded()
    wrong, seen = await different(plain, ahead, 2000, seed=7)
    print(f"shipped model: 2000 requests, {seen} samples, {wrong} different", ahead.cache_report())
    assert wrong == 0
    await plain.aclose()
    await ahead.aclose()


@pytest.mark.parametrize("settings", [{"row_tokens": 512}, {"chunk": 3}, {"max_batch": 2}])
async def test_little_memory_changes_no_answer(folder: Path, settings: dict[str, int]) -> None:
    plain, ahead = Embedded(weights=folder, ahead=False), Embedded(weights=folder, **settings)
    wrong, _ = await different(plain, ahead, 40, seed=1)
    assert wrong == 0 and ahead.engine.rows.room == ahead.engine.rows.size
    await plain.aclose()
    await ahead.aclose()


# -- the engine


def task(ids: list[int], tokens: int = 60, seed: int | None = None) -> EngineTask:
    draw = Draw(0.0, 1.0, 0, 0) if seed is None else Draw(0.8, 0.95, seed, 0)
    return EngineTask(ids, [draw], tokens, ignore_end=True)


def with_draft(made: EngineTask, ids: list[int], own: bool = True) -> EngineTask:
    return dataclasses.replace(made, drafts=[DraftCursor(ids, DraftPace.of(own))])


PROMPT = [0, *range(20, 60)]


@pytest.mark.parametrize("seed", [None, 1, 2])
def test_a_right_draft_takes_a_pass_for_many_tokens(
    make_engine: MakeEngine, seed: int | None
) -> None:
    ((answer,),) = drain(make_engine(), task(PROMPT, seed=seed))
    engine = make_engine()
    assert drain(engine, with_draft(task(PROMPT, seed=seed), answer)) == [[answer]]
    assert engine.counters.steps <= 5 and engine.counters.accepted_tokens >= 55
    engine.cache.verify()


def test_a_draft_goes_on_behind_what_was_changed(make_engine: MakeEngine) -> None:
    ((answer,),) = drain(make_engine(), task(PROMPT))
    for edited in (
        [*answer[:20], 300, 301, 302, *answer[20:]],
        [*answer[:20], *answer[23:]],
        [*answer[:20], 300, *answer[21:]],
    ):
        engine = make_engine()
        assert drain(engine, with_draft(task(PROMPT), edited)) == [[answer]]
        assert engine.counters.steps <= 30


def test_a_strange_draft_costs_few_passes(make_engine: MakeEngine) -> None:
    ((answer,),) = drain(make_engine(), task(PROMPT))
    engine, rng = make_engine(), random.Random(1)
    strange = [answer[0], *(rng.randrange(8, 400) for _ in range(80))]
    assert drain(engine, with_draft(task(PROMPT), strange)) == [[answer]]
    assert engine.counters.drafted_tokens <= OWN + OWN // 2 and engine.counters.steps == 60


@pytest.mark.parametrize("length", [0, 1, 30, 59, 60, 61, 200])
def test_a_draft_may_be_shorter_or_longer_than_the_answer(
    make_engine: MakeEngine, length: int
) -> None:
    ((answer,),) = drain(make_engine(), task(PROMPT))
    draft = (answer + [9] * 200)[:length]
    assert drain(make_engine(), with_draft(task(PROMPT), draft)) == [[answer]]


def test_drafts_take_only_the_room_that_is_there(make_engine: MakeEngine) -> None:
    ((answer,),) = drain(make_engine(), task(PROMPT))
    tight = make_engine(row_tokens=128)
    assert drain(tight, with_draft(task(PROMPT), answer)) == [[answer]]
    assert tight.counters.preemptions == 0 and tight.rows.room == tight.rows.size


def test_drafts_of_a_batch_share_the_tokens_of_a_step(make_engine: MakeEngine) -> None:
    prompts = [[0, *range(20 + at, 50 + at)] for at in range(8)]
    plain = drain(make_engine(), *map(task, prompts))
    engine = make_engine(chunk=16)
    drafted = [with_draft(task(ids), own) for ids, (own,) in zip(prompts, plain, strict=True)]
    for each in drafted:
        engine.submit(each)
    while not engine.idle:
        tried = engine.counters.drafted_tokens
        engine.step()
        assert engine.counters.drafted_tokens - tried <= 16
    assert [[run.ids[len(each.prompt) :] for run in each.live] for each in drafted] == plain


def test_what_was_tried_in_vain_is_not_published(make_engine: MakeEngine) -> None:
    ((answer,),) = drain(make_engine(), task(PROMPT))
    engine: BatchEngine = make_engine()
    wrong = [*answer[:10], *range(100, 150)]
    drain(engine, with_draft(task(PROMPT), wrong))
    longer = [*PROMPT, *answer[:10], *range(100, 120)]
    assert drain(engine, task(longer)) == drain(make_engine("naive"), task(longer))


# -- lengths


@pytest.fixture(params=[True, False])
def small(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both prices of a pass over several tokens, whatever the processor of this machine is."""
    monkeypatch.setattr("appl_backends.embedded.drafts.small_products", lambda: bool(request.param))


@pytest.mark.usefixtures("small")
def test_lengths_double_and_halve_and_rest_after_two_refusals() -> None:
    pace = DraftPace.of(own=True)
    assert (pace.length, pace.wait) == (OWN, 1)
    pace.judge(OWN, OWN)
    assert (pace.length, pace.wait) == (LONGEST, 0)
    pace.judge(LONGEST, 20)
    assert (pace.length, pace.wait) == (OWN, 0)

    pace = DraftPace.of(own=True)
    pace.judge(OWN, 0)
    assert (pace.length, pace.wait) == (FOREIGN, 1)
    pace.judge(FOREIGN, 0)
    assert (pace.length, pace.wait) == (FOREIGN, 8)
    while pace.wait == 8:
        pace.judge(FOREIGN, 0)
    assert (pace.length, pace.wait) == (FOREIGN, 16)
    pace.judge(FOREIGN, FOREIGN)
    assert (pace.length, pace.wait) == (2 * FOREIGN, 0)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("gained", [0, 1, 50])
def test_refused_drafts_cost_few_passes_before_they_rest_whatever_was_gained(gained: int) -> None:
    pace = DraftPace.of(own=True)
    for _ in range(gained):
        pace.judge(FOREIGN, FOREIGN)
    cost = 0.0
    while pace.wait < 8:
        cost += passes(pace.length)
        pace.judge(pace.length, 0)
    assert cost <= CREDIT + DEBT + passes(LONGEST)


@pytest.mark.usefixtures("small")
def test_drafts_that_save_as_much_as_they_cost_go_on() -> None:
    pace = DraftPace.of(own=True)
    for _ in range(100):
        pace.judge(FOREIGN, 0)
        pace.judge(FOREIGN, 3)
    assert (pace.length, pace.wait) == (FOREIGN, 1)


def test_a_draft_of_another_place_begins_short() -> None:
    cursor = DraftCursor(list(range(40)), DraftPace.of(own=False))
    for token in range(FOREIGN):
        assert cursor.next(100) == []
        cursor.see(token)
    assert cursor.next(100) == [4, 5, 6] and cursor.next(2) == [4, 5]


def test_an_answer_that_strays_before_any_draft_was_tried_begins_short() -> None:
    pace = DraftPace.of(own=True)
    cursor = DraftCursor(list(range(100)), pace)
    for token in (0, 777, 2):
        cursor.see(token)
    assert cursor.next(100) == [3, 4, 5]
    pace.judge(FOREIGN, FOREIGN)
    cursor.see(778)
    assert pace.length == 2 * FOREIGN


def test_a_resting_draft_goes_on_when_the_answer_is_like_it() -> None:
    cursor = DraftCursor(list(range(100)), DraftPace(True, FOREIGN, 8, 2))
    for token in [*range(50), 777, *range(51, 58)]:
        cursor.see(token)
    assert cursor.next(9) == []
    cursor.see(58)
    assert cursor.next(9) == [59, 60, 61]


def test_calls_of_one_line_share_what_was_learnt(tokenizer: Tokenizer) -> None:
    drafts = Drafts(tokenizer)
    pace = drafts.pace("/main.0/ask.3/gen.0", True)
    assert drafts.pace("/main.0/ask.4/gen.1", True) is pace
    assert drafts.pace("/main.0/ask.4/gen.1", False) is not pace
    for at in range(300):
        drafts.pace(f"/main.0/ask{at}x.0", True)
    assert drafts.pace("/main.0/ask.3/gen.0", True) is not pace


# -- the backend


async def test_a_draft_of_megabytes_is_cut(backend: Embedded) -> None:
    said = Messages.of([UserMessage("Hi")])
    request = Request("/a.0/gen.0", 0, "", said, Sampling(max_tokens=4, seed=1))
    plain = await backend.complete(request)
    request.draft = Draft((Sample("word " * 1_000_000, "stop"),))
    made = await backend.task(request)
    assert (await backend.complete(request)).samples == plain.samples
    assert len(made.drafts[0].next(9999)) <= 5


async def test_a_backend_that_computes_nothing_ahead_wants_no_drafts(folder: Path) -> None:
    plain = Embedded(weights=folder, ahead=False)
    assert "drafts" not in plain.profile.features
    request = Request("/a.0/gen.0", 0, "", Messages.of([UserMessage("Hi")]), Sampling())
    request.draft = Draft((Sample("Hello", "stop"),))
    assert (await plain.task(request)).drafts == []
    await plain.aclose()


def test_a_draft_is_no_part_of_the_content() -> None:
    plain = Request("/a.0/gen.0", 0, "m", Messages.of([UserMessage("Hi")]), Sampling())
    drafted = dataclasses.replace(plain, draft=Draft(Response((Sample("x", "stop"),)).samples))
    assert plain.digest == drafted.digest and plain == drafted


@pytest.mark.skipif(not (WEIGHTS / "model.safetensors").is_file(), reason="no model is shipped")
async def test_the_shipped_model_answers_alike_with_drafts() -> None:
    plain, ahead = Embedded(ahead=False), Embedded()
    wrong, _ = await different(plain, ahead, 12, seed=3)
    assert wrong == 0
    await plain.aclose()
    await ahead.aclose()
