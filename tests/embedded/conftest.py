"""A tiny random model for the whole session, and engines on it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from appl_backends.embedded import Embedded
from appl_backends.embedded.blas_threads import BlasThreads
from appl_backends.embedded.cache import PrefixCache
from appl_backends.embedded.engine import BatchEngine
from appl_backends.embedded.model import Llama
from appl_backends.embedded.naive import NaiveCache
from appl_backends.embedded.radix import RadixCache
from appl_backends.embedded.task import EngineTask, Finished
from appl_backends.embedded.tokenizer import Tokenizer

from .tiny import make_model

MakeEngine = Callable[..., BatchEngine]


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_model(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(scope="session")
def model(folder: Path) -> Llama:
    return Llama.load(folder)


@pytest.fixture(scope="session")
def tokenizer(folder: Path) -> Tokenizer:
    return Tokenizer(folder)


@pytest.fixture
def make_engine(model: Llama, tokenizer: Tokenizer) -> MakeEngine:
    def make(cache: str = "radix", blocks: int = 512, **settings: int) -> BatchEngine:
        kept: PrefixCache = RadixCache(model.shape, blocks) if cache == "radix" else NaiveCache()
        return BatchEngine(model, tokenizer, kept, **settings)

    return make


@pytest.fixture
async def backend(folder: Path):
    made = Embedded(weights=folder)
    yield made
    await made.aclose()


def drain(engine: BatchEngine, *tasks: EngineTask) -> list[list[list[int]]]:
    """Submit *tasks*, run until all are done: the generated ids of every sample of every task."""
    for task in tasks:
        engine.submit(task)
    while not engine.idle:
        for outcome in engine.step():
            assert not isinstance(outcome, Exception)
    return [[run.ids[len(task.prompt) :] for run in task.live] for task in tasks]


def finished(engine: BatchEngine, task: EngineTask) -> Finished:
    """Run *task* alone and return its outcome."""
    engine.submit(task)
    outcomes = []
    while not engine.idle:
        outcomes += engine.step()
    (last,) = [outcome for outcome in outcomes if isinstance(outcome, Finished)]
    return last


@pytest.fixture(scope="session", autouse=True)
def one_blas_thread():
    with BlasThreads(1):
        yield
