"""Log-probabilities by id, prompts without answers, aborts that keep what is there, flushing."""

from __future__ import annotations

import numpy as np
import pytest

from appl_backends.embedded.engine import BatchEngine
from appl_backends.embedded.model import KvRows, Llama, TokenSpan
from appl_backends.embedded.probe import TokenProbe
from appl_backends.embedded.sampler import Draw, log_softmax
from appl_backends.embedded.task import AnswerPiece, EngineTask, Finished

from .conftest import MakeEngine, drain, finished

GREEDY = Draw(0.0, 1.0, 0, 0)


def worth(model: Llama, ids: list[int]) -> list[float]:
    """The log-probability of each id but the first, all positions computed at once."""
    row = KvRows(model.shape, len(ids)).take(len(ids))
    assert row is not None
    logprobs = log_softmax(model.forward([TokenSpan(row, ids, len(ids))]))
    return [float(logprobs[at, token]) for at, token in enumerate(ids[1:])]


def prompts(count: int, seed: int) -> list[list[int]]:
    """Prompts of 20 to 90 ids that share beginnings."""
    rng = np.random.default_rng(seed)
    stem = rng.integers(8, 400, 40).tolist()
    return [
        stem[: rng.integers(0, 40)] + rng.integers(8, 400, rng.integers(20, 50)).tolist()
        for _ in range(count)
    ]


@pytest.mark.parametrize("cache", ["radix", "naive"])
@pytest.mark.parametrize(("chunk", "rows"), [(256, 16384), (7, 16384), (16, 320)])
def test_entries_are_what_one_pass_over_the_whole_gives(
    make_engine: MakeEngine, model: Llama, cache: str, chunk: int, rows: int
) -> None:
    engine = make_engine(cache, chunk=chunk, row_tokens=rows, max_batch=6)
    rng = np.random.default_rng(chunk)
    tasks = []
    for prompt in prompts(24, chunk):
        start = int(rng.integers(0, len(prompt) + 1))
        draws = [Draw(0.0, 1.0, 0, at) for at in range(rng.integers(1, 4))]
        probe = TokenProbe(start, top=2, tokens=(1, 9))
        tasks.append(EngineTask(prompt, draws, int(rng.integers(0, 9)), probe=probe))
    drain(engine, *tasks)
    for task in tasks:
        assert task.probe is not None
        start = task.probe.start
        assert [entry.token for entry in task.scored] == task.prompt[start + 1 :]
        for run in task.live:
            ids = run.ids[len(task.prompt) :]
            assert [entry.token for entry in run.probed] == ids
            whole = worth(model, run.ids)
            found = [entry.logprob for entry in (*task.scored, *run.probed)]
            expected = whole[start:] if start < len(task.prompt) else whole[len(task.prompt) - 1 :]
            assert found == pytest.approx(expected, abs=2e-4)
            assert all(entry.top[0][1] == entry.token for entry in run.probed)
            assert all([token for _, token in entry.asked] == [1, 9] for entry in run.probed)
    assert engine.rows.room == rows


def test_no_more_than_the_beginning_comes_from_the_cache(make_engine: MakeEngine) -> None:
    engine, prompt = make_engine(), list(range(10, 60))
    drain(engine, EngineTask(prompt, [GREEDY], 0))
    for start in (0, 17, 49):
        task = EngineTask(prompt, [GREEDY], 1, probe=TokenProbe(start))
        drain(engine, task)
        assert task.cached == start and len(task.scored) == 49 - start


@pytest.mark.parametrize("samples", [1, 3])
def test_a_prompt_without_an_answer_fills_the_cache(make_engine: MakeEngine, samples: int) -> None:
    engine, prompt = make_engine(), list(range(10, 60))
    draws = [Draw(1.0, 1.0, 5, at) for at in range(samples)]
    response = finished(engine, EngineTask(prompt, draws, 0)).response
    assert [(s.text, s.finish_reason) for s in response.samples] == [("", "length")] * samples
    assert response.usage.completion_tokens == engine.counters.decoded_tokens == 0
    after = EngineTask([*prompt, 61], [GREEDY], 1)
    drain(engine, after)
    assert after.cached == 50


def test_every_token_is_streamed_where_that_is_wanted(make_engine: MakeEngine) -> None:
    engine = make_engine()
    task = EngineTask(list(range(10, 30)), [GREEDY], 12, stream=True, each=True, ignore_end=True)
    engine.submit(task)
    pieces, texts = [], ""
    while not engine.idle:
        for outcome in engine.step():
            if isinstance(outcome, AnswerPiece):
                pieces.append((outcome.tokens, outcome.finish))
                texts += outcome.text
    assert pieces == [(at, "") for at in range(1, 12)] + [(12, "length")]
    assert texts == task.live[0].sample().text


def test_an_aborted_task_ends_with_what_it_has(make_engine: MakeEngine) -> None:
    engine = make_engine()
    task = EngineTask(list(range(10, 30)), [GREEDY] * 2, 500, stream=True, ignore_end=True)
    waiting = EngineTask([9] * 900, [GREEDY], 5)
    engine.submit(task)
    for _ in range(10):
        engine.step()
    engine.submit(waiting)
    engine.abort(task)
    engine.abort(waiting)
    ends = [outcome for outcome in engine.step() if isinstance(outcome, Finished)]
    assert [end.task for end in ends] == [task, waiting]
    decoded = engine.counters.decoded_tokens
    assert ends[0].response.usage.completion_tokens == decoded > 10
    assert [s.finish_reason for s in ends[0].response.samples] == ["abort"] * 2
    assert ends[1].response.usage.completion_tokens == 0
    assert engine.idle and engine.counters.aborts == 2 and engine.counters.abort_steps == 0
    engine.abort(task)
    assert engine.step() == [] and engine.counters.aborts == 2


def test_the_end_waits_for_the_fewest_tokens(make_engine: MakeEngine) -> None:
    engine: BatchEngine = make_engine()
    end = engine.tokenizer.end
    for prompt in prompts(12, 3):
        draw = Draw(3.0, 1.0, 1, 0)
        (ids,) = drain(engine, EngineTask(prompt, [draw], 60, min_tokens=30))[0]
        assert end not in ids[:30]


def test_a_cache_is_flushed_when_nothing_uses_it(make_engine: MakeEngine) -> None:
    engine = make_engine()
    drain(engine, *(EngineTask(prompt, [GREEDY], 3) for prompt in prompts(9, 1)))
    engine.submit(EngineTask([9] * 40, [GREEDY], 3))
    assert not engine.flush() and engine.cache.report().tokens > 0
    while not engine.idle:
        engine.step()
    assert engine.flush()
    report = engine.cache.report()
    assert (report.tokens, report.nodes, report.free_blocks) == (0, 0, report.blocks)
