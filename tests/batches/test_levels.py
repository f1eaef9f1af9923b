"""Calls go out in one batch a level, are answered like any others, and cost half."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from pathlib import Path
from typing import Any

import pytest

import appl
from appl import gen, ppl
from appl.errors import BackendRefused, BudgetExceeded, ConfigError, InDoubtBatch, RunWaiting
from appl.parts.batching.batch import BatchQuestion
from appl.parts.batching.gathering import parts
from appl.session import Session, resumed
from appl.tracing import Trace
from tests.batches.lives import MODELS, hurried, quiet
from tests.batches.programs import KINDS, Kind, Shape, answer_to, ask, chain
from tests.batches.twins import Faults, Twin


def settings(twin: Twin, **more: Any) -> dict[str, Any]:
    given = {"backends": {"twin": twin.settings()}, "model": MODELS[twin.kind], "ctl": False}
    return {"batch": True, "retries": {"attempts": 3}, **given, **more}


@contextmanager
def recording(twin: Twin, path: Path, plan: Any = None, **more: Any) -> Iterator[Session]:
    """A run whose calls go out in batches to *twin*."""
    with appl.record(path, home=path.parent, **settings(twin, **more)) as session:
        hurried(session, **(plan or {}))
        yield session


@contextmanager
def going_on(twin: Twin, path: Path, plan: Any = None, **more: Any) -> Iterator[Session]:
    given = {"backends": {"twin": twin.settings()}, "ctl": False, "home": path.parent}
    with resumed(path, say=quiet, **given, **more) as session:
        hurried(session, **(plan or {}))
        yield session


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run.trace"


@pytest.mark.parametrize("kind", KINDS)
def test_each_level_is_one_batch_at_half_the_price(kind: Kind, path: Path) -> None:
    with Twin(kind) as twin, recording(twin, path):
        shape = Shape(1, (3, 3, 3, 3), merges=True)
        assert shape.run() == shape.told()
    assert len(twin.batches) == 4 and twin.cost * 2 == twin.whole
    assert not twin.problems and not twin.at_once and not twin.files
    assert {call.response.usage.tier for call in Trace.open(path).calls if call.response} == {
        "batch"
    }


def test_chains_of_other_lengths_share_the_batches_of_their_levels(path: Path) -> None:
    with Twin("messages") as twin, recording(twin, path):
        Shape(1, (1, 2, 3), merges=False).run()
    assert [len(made.items) for made in twin.batches.values()] == [3, 2, 1]


def test_each_model_of_openai_has_a_batch_of_its_own(path: Path) -> None:
    @ppl
    def ask_model(text: str, model: str) -> str:
        f"{text}"
        return str(gen(model, max_tokens=9))

    with Twin("chat") as twin, recording(twin, path):
        list(appl.map(ask_model, ["a", "b", "c"], ["twin/gpt-5", "twin/gpt-5-mini", "twin/gpt-5"]))
    assert sorted(len(made.items) for made in twin.batches.values()) == [1, 2] and not twin.problems


@pytest.mark.parametrize("kind", KINDS)
def test_what_cannot_wait_is_asked_at_once(kind: Kind, path: Path) -> None:
    @ppl
    def urgent(text: str) -> str:
        f"{text}"
        return str(gen(max_tokens=100, timeout=30))

    with Twin(kind) as twin, recording(twin, path):
        assert list(appl.map(lambda each, f: f(each), ["x", "y"], [urgent, ask])) == [
            answer_to("x"),
            answer_to("y"),
        ]
    assert (dict(twin.at_once), dict(twin.answered)) == ({"x": 1}, {"y": 1})


def test_items_that_fail_or_expire_go_into_the_next_batch(path: Path) -> None:
    for faults in (Faults(fails=1), Faults(expires=1)):
        for kind in KINDS:
            trace = path.with_name(f"{kind}{faults.fails}.trace")
            with Twin(kind, faults=faults) as twin, recording(twin, trace):
                assert ask("x") == answer_to("x")
            assert len(twin.batches) == 2 and twin.cost * 2 == twin.whole


@pytest.mark.parametrize("kind", KINDS)
def test_an_item_that_is_refused_raises_as_a_call_would(kind: Kind, path: Path) -> None:
    with (
        Twin(kind, faults=Faults(refused=1)) as twin,
        recording(twin, path),
        pytest.raises(BackendRefused),
    ):
        ask("x")
    assert len(twin.batches) == 1 and not twin.cost


@pytest.mark.parametrize("kind", KINDS)
def test_after_the_deadline_the_rest_is_asked_at_once(kind: Kind, path: Path) -> None:
    with Twin(kind) as twin, recording(twin, path, {"within_s": 0.3}):
        twin.held = True
        assert ask("x") == answer_to("x")
        assert ask("y") == answer_to("y")
    assert dict(twin.at_once) == {"x": 1, "y": 1} and [
        made.cancelled for made in twin.batches.values()
    ] == [True]


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_ends_as_waiting_and_goes_on_with_the_same_batch(kind: Kind, path: Path) -> None:
    shape = Shape(1, (2, 2), merges=False)
    with Twin(kind) as twin:
        twin.held = True
        with pytest.raises(RunWaiting) as caught, recording(twin, path, {"stay_s": 0.05}):
            shape.run()
        assert {entry.kind for entry in caught.value.waits} == {"batch"} and len(
            caught.value.waits
        ) == 2
        with pytest.raises(RunWaiting), going_on(twin, path, {"stay_s": 0.05}):
            shape.run()
        twin.release()
        with going_on(twin, path) as session:
            assert shape.run() == shape.told()
        assert session.gathering is not None
    assert len(twin.batches) == 2 and twin.cost * 2 == twin.whole and not twin.files
    assert [batch.state for batch in Trace.open(path).batches.values()] == ["removed", "removed"]


def test_a_private_run_goes_on_with_its_batches(path: Path) -> None:
    with Twin("chat") as twin:
        twin.held = True
        plan = {"stay_s": 0.05}
        with pytest.raises(RunWaiting), recording(twin, path, plan, privacy="redacted"):
            ask("x")
        twin.release()
        with going_on(twin, path):
            assert ask("x") == answer_to("x")
    assert len(twin.batches) == 1 and not twin.sent_twice


def test_a_replay_and_a_rerun_ask_nobody(path: Path) -> None:
    shape = Shape(3, (2, 1), merges=True)
    with Twin("responses") as twin:
        with recording(twin, path):
            shape.run()
        asked = len(twin.requests)
        with appl.session.replayed(path):
            assert shape.run() == shape.told()
        again = path.with_name("again.trace")
        given = {"home": path.parent, "backends": {"twin": twin.settings()}}
        with appl.session.rerun(path, say=quiet, into=again, **given):
            assert shape.run() == shape.told()
    assert len(twin.requests) == asked


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_whose_sending_is_not_answered_is_found_again(kind: Kind, path: Path) -> None:
    with Twin(kind, faults=Faults(lost=1)) as twin, recording(twin, path, {"doubt_s": 5}):
        assert ask("x") == answer_to("x")
    assert len(twin.batches) == 1 and not twin.sent_twice


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_that_cannot_be_found_is_in_doubt_until_the_user_decides(
    kind: Kind, path: Path
) -> None:
    root = "/v1/messages/batches" if kind == "messages" else "/v1/batches"
    shape = Shape(5, (1, 1, 1), merges=False)
    with Twin(kind) as twin:
        real = twin.answer
        twin.answer = lambda method, target, *rest: (  # type: ignore[method-assign]
            (0, None) if (method, target) == ("POST", root) else real(method, target, *rest)
        )
        for opened in (recording, going_on):
            with pytest.raises(InDoubtBatch, match="--rerun") as caught, opened(twin, path):
                shape.run()
        twin.answer = real  # type: ignore[method-assign]
        with going_on(twin, path, rerun=[caught.value.key]):
            assert shape.run() == shape.told()
    assert len(twin.batches) == 1 and not twin.files


def test_the_user_may_say_which_batch_it_is(path: Path) -> None:
    with Twin("messages", faults=Faults(lost=1)) as twin:
        real = twin.answer
        twin.answer = lambda method, target, *rest: (  # type: ignore[method-assign]
            (200, {"data": [], "has_more": False})
            if "limit" in target
            else real(method, target, *rest)
        )
        with pytest.raises(InDoubtBatch) as caught, recording(twin, path):
            ask("x")
        with going_on(twin, path, assume={caught.value.key: next(iter(twin.batches))}):
            assert ask("x") == answer_to("x")
    assert len(twin.batches) == 1


def test_a_budget_reserves_at_the_price_of_batches(path: Path) -> None:
    price = {"prompt": 1000.0, "answer": 1000.0}
    prices = {"twin/gpt-5-mini": {**price, "batch": {name: it / 2 for name, it in price.items()}}}
    with Twin("chat") as twin:
        # 100 tokens of an answer and some of a prompt: 0.05 and more at half the price.
        with recording(twin, path, budget={"cost": 0.06}, prices=prices):
            assert ask("x") == answer_to("x")
        cost = sum(call.response.cost or 0 for call in Trace.open(path).calls if call.response)
        assert cost == 14 * 500
        with (
            recording(
                twin,
                path.with_name("2.trace"),
                {"within_s": 60},
                budget={"cost": 0.06},
                prices=prices,
            ),
            pytest.raises(BudgetExceeded),
        ):  # it may have to be asked at the usual price
            ask("x")


def test_a_level_is_split_at_the_limits_of_the_provider() -> None:
    class Item:
        body = b"x" * 100

    questions: list[Any] = [type("Q", (), {"item": Item})() for _ in range(7)]
    assert [len(part) for part in parts(questions, 3, 10**6)] == [3, 3, 1]
    assert [len(part) for part in parts(questions, 100, 800)] == [2, 2, 2, 1]
    assert BatchQuestion.__slots__


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (
            {"backends": {}, "model": "embedded"},
            "openai.* and 'anthropic'|'openai' and 'anthropic'",
        ),
        ({"trace": False}, "trace"),
        ({"stream": True}, "stream"),
    ],
)
def test_what_does_not_go_with_batches_is_refused(more: Any, said: str, path: Path) -> None:
    with (
        Twin("chat") as twin,
        pytest.raises(ConfigError, match=said),
        appl.record(home=path.parent, **settings(twin, **more)),
    ):
        ask("x")


def test_a_run_around_a_part_has_its_batches(path: Path) -> None:
    with Twin("chat") as twin, recording(twin, path):
        assert appl.run(chain, "x", 2) == answer_to(f"about {answer_to('about x')}")
    assert len(twin.batches) == 2


@contextmanager
def configured(twin: Twin, folder: Path) -> Iterator[None]:
    """A program whose settings name *twin*, in a folder of its own."""
    kind = twin.settings()["type"]
    text = f"""
        model = "{MODELS[twin.kind]}"
        ctl = false
        [backends.twin]
        type = "{kind}"
        base_url = "{twin.url}"
        api_key = {{ env = "TWIN_KEY" }}
    """
    (folder / "appl.toml").write_text("\n".join(map(str.strip, text.splitlines())))
    os.environ["TWIN_KEY"] = "k-123456"
    with chdir(folder):
        yield
    del os.environ["TWIN_KEY"]


def test_a_run_or_a_map_alone_may_be_in_batches(tmp_path: Path) -> None:
    with Twin("messages") as twin, configured(twin, tmp_path):
        assert appl.run(chain, "x", 2, batch=True) == answer_to(f"about {answer_to('about x')}")
        assert list(appl.map(ask, ["a", "b"], batch="6h")) == [answer_to("a"), answer_to("b")]
        assert ask("c") == answer_to("c")
    assert len(twin.batches) == 3 and dict(twin.at_once) == {"c": 1}


def test_a_map_of_a_coroutine_may_be_in_batches(tmp_path: Path) -> None:
    async def both() -> list[str]:
        return list(await appl.map(ask, ["a", "b"], batch=True))

    with Twin("messages") as twin, configured(twin, tmp_path):
        assert asyncio.run(both()) == [answer_to("a"), answer_to("b")]
    assert len(twin.batches) == 1
