"""What the engine answers is a matter of each task alone: not of caches, chunks or company."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from appl_backends.embedded.engine import BatchEngine
from appl_backends.embedded.model import KvRows, Llama, TokenSpan
from appl_backends.embedded.naive import NaiveCache
from appl_backends.embedded.sampler import TOLERANCE, Draw, log_softmax
from appl_backends.embedded.task import AnswerPiece, EngineTask
from appl_backends.embedded.tokenizer import Tokenizer

from .conftest import MakeEngine, drain, finished


def prompt(seed: int, count: int) -> list[int]:
    rng = random.Random(seed)
    return [0, *(rng.randrange(8, 400) for _ in range(count - 1))]


def greedy(ids: list[int], tokens: int = 8) -> EngineTask:
    return EngineTask(ids, [Draw(0.0, 1.0, 0, 0)], tokens)


def sampled(ids: list[int], seed: int, n: int = 1, tokens: int = 12) -> EngineTask:
    return EngineTask(ids, [Draw(0.9, 0.95, seed, sample) for sample in range(n)], tokens)


def logits_after(model: Llama, ids: list[int]) -> np.ndarray:
    row = KvRows(model.shape, len(ids)).take(len(ids))
    assert row is not None
    return model.forward([TokenSpan(row, ids, len(ids))])


def test_greedy_is_the_argmax_of_the_model(make_engine: MakeEngine, model: Llama) -> None:
    ids = prompt(1, 40)
    ((answer,),) = drain(make_engine(), greedy(ids))
    for at, token in enumerate(answer):
        logits = logits_after(model, ids + answer[:at])[-1]
        logits[[0, 2, 3, 4, 5, 6, 7]] = -np.inf
        assert token == logits.argmax()


@pytest.mark.parametrize("seed", range(6))
def test_branches_of_a_cold_prefix_compute_it_once(make_engine: MakeEngine, seed: int) -> None:
    rng = random.Random(seed)
    stem = prompt(seed, rng.randint(37, 500))
    prompts = [stem + prompt(100 + at, rng.randint(5, 60)) for at in range(16)]
    radix, naive = make_engine(), make_engine("naive")
    answers = drain(radix, *map(greedy, prompts))
    assert answers == drain(naive, *map(greedy, prompts))
    optimum = len({tuple(ids[:end]) for ids in prompts for end in range(1, len(ids) + 1)})
    assert radix.counters.computed_tokens <= 1.02 * optimum
    assert naive.counters.computed_tokens == sum(map(len, prompts))
    radix.cache.verify()


def test_samples_share_their_prompt(make_engine: MakeEngine) -> None:
    engine = make_engine()
    ids = prompt(3, 150)
    (answers,) = drain(engine, sampled(ids, 5, n=8))
    assert engine.counters.computed_tokens == 150
    assert len({tuple(answer) for answer in answers}) == 8


def test_a_sample_is_the_same_alone_and_among_others(make_engine: MakeEngine) -> None:
    tasks = [sampled(prompt(at % 3, 20 + at), at, n=1 + at % 2) for at in range(15)]
    together = drain(make_engine(max_batch=16), *tasks)
    for at, task in enumerate(tasks):
        alone = sampled(task.prompt, at, n=len(task.draws))
        assert drain(make_engine("naive"), alone) == [together[at]]


def test_sample_numbers_continue_where_they_left_off(make_engine: MakeEngine) -> None:
    ids = prompt(0, 20)
    (five,) = drain(make_engine(), sampled(ids, 3, n=5))
    later = EngineTask(ids, [Draw(0.9, 0.95, 3, sample) for sample in (3, 4)], 12)
    assert drain(make_engine(), later) == [five[3:]]


@pytest.mark.parametrize("chunk", [1, 7, 64])
def test_chunks_do_not_matter(make_engine: MakeEngine, chunk: int) -> None:
    tasks = [(prompt(at, 30 + 40 * at), at) for at in range(4)]
    whole = drain(make_engine(chunk=1024), *(sampled(ids, seed) for ids, seed in tasks))
    assert drain(make_engine(chunk=chunk), *(sampled(ids, seed) for ids, seed in tasks)) == whole


def test_decoding_goes_on_while_a_long_prompt_is_prefilled(make_engine: MakeEngine) -> None:
    engine = make_engine(chunk=16)
    short, long = greedy(prompt(1, 8), 30), greedy(prompt(2, 160))
    engine.submit(short)
    engine.step()
    engine.submit(long)
    for _ in range(8):
        engine.step()
    assert long.live[0].prefilling and short.live[0].generated >= 8


def test_a_full_row_memory_preempts_and_answers_alike(make_engine: MakeEngine) -> None:
    tasks = [(prompt(at, 50), at) for at in range(6)]
    plenty = drain(make_engine(), *(sampled(ids, seed, tokens=100) for ids, seed in tasks))
    tight = make_engine(row_tokens=384)
    answers = drain(tight, *(sampled(ids, seed, tokens=100) for ids, seed in tasks))
    assert answers == plenty and tight.counters.preemptions > 0
    assert tight.rows.room == tight.rows.size


def test_a_tiny_cache_answers_alike(make_engine: MakeEngine) -> None:
    tasks = [(prompt(at % 2, 40 + at), at) for at in range(10)]
    plenty = drain(make_engine(), *(sampled(ids, seed) for ids, seed in tasks))
    tight = make_engine(blocks=3, max_batch=4)
    assert drain(tight, *(sampled(ids, seed) for ids, seed in tasks)) == plenty
    tight.cache.verify()


def test_a_conversation_goes_on_from_its_cached_answer(make_engine: MakeEngine) -> None:
    engine = make_engine()
    first = greedy(prompt(1, 50), 10)
    ((answer,),) = drain(engine, first)
    second = greedy([*first.prompt, *answer, 1, 3, 50, 51], 4)
    finished(engine, second)
    assert second.cached == len(first.prompt) + len(answer) - 1


def test_abort_stops_within_one_step_and_frees_the_row(make_engine: MakeEngine) -> None:
    engine = make_engine()
    doomed, other = sampled(prompt(1, 60), 1, n=3, tokens=500), greedy(prompt(2, 9), 20)
    engine.submit(doomed)
    engine.submit(other)
    for _ in range(4):
        engine.step()
    engine.abort(doomed)
    tokens = [len(run.ids) for run in doomed.live]
    engine.step()
    assert [len(run.ids) for run in doomed.live] == tokens
    assert all(run.task is other for run in engine.running)
    while not engine.idle:
        engine.step()
    assert engine.rows.room == engine.rows.size
    assert engine.cache.report().protected == 0
    engine.cache.verify()


def test_abort_of_the_sequence_that_others_wait_for(make_engine: MakeEngine) -> None:
    engine = make_engine(chunk=16)
    stem = prompt(1, 100)
    leader, follower = greedy([*stem, 9]), greedy([*stem, 10])
    engine.submit(leader)
    engine.submit(follower)
    engine.step()
    assert engine.waiting
    engine.abort(leader)
    while not engine.idle:
        engine.step()
    assert follower.done and drain(make_engine("naive"), greedy([*stem, 10])) == [
        [follower.live[0].ids[101:]]
    ]


def test_memory_stays_within_its_bounds_under_load(make_engine: MakeEngine) -> None:
    engine = make_engine(row_tokens=1024, blocks=20, max_batch=8)
    for at in range(50):
        engine.submit(sampled(prompt(at % 7, 10 + 3 * at), at, tokens=6))
    while not engine.idle:
        engine.step()
        used = sum(run.row.capacity for run in engine.running if run.row)
        assert used + engine.rows.room == engine.rows.size == 1024
        assert len(engine.running) <= 8
        engine.cache.verify()
    assert engine.rows.room == 1024


def test_higher_priority_starts_first(make_engine: MakeEngine) -> None:
    engine = make_engine("naive", max_batch=1)
    low, high = greedy(prompt(1, 5), 2), greedy(prompt(2, 5), 2)
    high.priority = 1
    engine.submit(low)
    engine.submit(high)
    engine.step()
    assert engine.running[0].task is high


def brute_force(model: Llama, ids: list[int], option: list[int]) -> float:
    logprobs = log_softmax(logits_after(model, ids + option))
    targets = [*option, 1]
    return float(sum(logprobs[len(ids) - 1 + at, token] for at, token in enumerate(targets)))


@pytest.mark.parametrize("cache", ["radix", "naive"])
@pytest.mark.parametrize("warm", [False, True])
def test_choices_are_scored_as_by_brute_force(
    make_engine: MakeEngine, model: Llama, cache: str, warm: bool
) -> None:
    engine, ids = make_engine(cache, chunk=32), prompt(5, 90)
    if warm:
        drain(engine, greedy(ids))
    options = [[20], [21, 22, 23], [21, 22], [30] * 40]
    task = EngineTask(ids, [Draw(0.0, 1.0, 0, 0)], 1, options=options)
    scores = finished(engine, task).response.scores
    assert np.allclose(scores, [brute_force(model, ids, option) for option in options], atol=1e-3)
    if cache == "radix":
        assert engine.counters.computed_tokens <= 91


def test_scoring_survives_preemption(make_engine: MakeEngine, model: Llama) -> None:
    engine, ids = make_engine(row_tokens=256, chunk=8), prompt(5, 90)
    task = EngineTask(ids, [Draw(0.0, 1.0, 0, 0)], 1, options=[[20, 21] * 20, [9] * 50, [10] * 60])
    scores = finished(engine, task).response.scores
    assert np.allclose(scores, [brute_force(model, ids, o) for o in task.options or []], atol=2e-3)


def test_pieces_add_up_to_the_text_and_come_before_the_end(make_engine: MakeEngine) -> None:
    engine = make_engine()
    task = sampled(prompt(1, 20), 4, n=2, tokens=30)
    task.stream, task.stop = True, ("e",)
    engine.submit(task)
    outcomes = []
    while not engine.idle:
        outcomes += engine.step()
    response = outcomes.pop().response
    for index, sample in enumerate(response.samples):
        pieces = [o.text for o in outcomes if isinstance(o, AnswerPiece) and o.sample == index]
        assert "".join(pieces) == sample.text and "e" not in sample.text


def test_log_probabilities_are_the_models_own(make_engine: MakeEngine, model: Llama) -> None:
    task = sampled(prompt(1, 20), 4, tokens=5)
    task.logprobs = 3
    (sample,) = finished(make_engine(), task).response.samples
    expected = log_softmax(logits_after(model, task.live[0].ids))
    assert sample.logprobs and len(sample.logprobs) == 5
    for at, entry in enumerate(sample.logprobs):
        token = task.live[0].ids[20 + at]
        assert entry.logprob == pytest.approx(float(expected[19 + at, token]), abs=1e-4)
        assert entry.top[0][1] == pytest.approx(float(expected[19 + at].max()), abs=1e-4)


def test_a_failed_step_fails_every_task_and_frees_everything(make_engine: MakeEngine) -> None:
    engine = make_engine()
    engine.submit(greedy(prompt(1, 9)))
    engine.submit(greedy(prompt(2, 9)))
    engine.step()
    assert len(engine.fail("out of luck")) == 2
    assert engine.idle and engine.rows.room == engine.rows.size


def test_canonical_logits_depend_on_the_tokens_alone(
    make_engine: MakeEngine, tokenizer: Tokenizer
) -> None:
    ids = prompt(8, 300)
    busy: BatchEngine = make_engine()
    drain(busy, *(greedy(ids[: 40 * at + 9]) for at in range(6)))
    assert (busy._canonical(ids) == make_engine()._canonical(ids)).all()


class Noisy(Llama):
    """A model whose logits are off by as much as is tolerated, differently for every seed."""

    noise: np.random.Generator | None = None

    def forward(self, spans: list[TokenSpan]) -> np.ndarray:
        logits = super().forward(spans)
        if self.noise is None:
            return logits
        error = self.noise.uniform(-TOLERANCE / 2, TOLERANCE / 2, logits.shape)
        return logits + error.astype(np.float32)


class NoisyEngine(BatchEngine):
    """Noise everywhere but where it is recomputed."""

    def _canonical(self, ids: list[int], adapter: Any = None) -> np.ndarray:
        noise, self.model.noise = self.model.noise, None
        logits = super()._canonical(ids, adapter)
        self.model.noise = noise
        return logits


def test_rounding_errors_change_no_token(folder: Path, tokenizer: Tokenizer) -> None:
    tasks = [(prompt(at, 12), at) for at in range(12)]
    model = Noisy.load(folder)
    engines = [NoisyEngine(model, tokenizer, NaiveCache()) for _ in range(3)]
    answers = []
    for seed, engine in enumerate(engines):
        model.noise = np.random.default_rng(seed)
        answers.append(drain(engine, *(sampled(ids, at, tokens=40) for ids, at in tasks)))
    assert answers[0] == answers[1] == answers[2]
    assert all(engine.counters.recomputed for engine in engines)
