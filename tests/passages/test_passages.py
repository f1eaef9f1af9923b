"""Passages in an order that prompts share: nothing is lost, beginnings are alike, replays agree."""

from __future__ import annotations

import random
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest

from appl import gen, passages, ppl
from appl.backend import Request
from appl.errors import InvalidOption
from appl.runtime.prompts.passages import SharedOrder
from appl.testing import Fake, Run, running
from appl.tracing import Recorder, Replayer, Rerunner, profile_data

TEXTS = [f"passage {number}" for number in range(12)]


def found(count: int, seed: int = 1) -> list[list[str]]:
    """What a search finds: the first texts are found for most questions, in any order."""
    dice = random.Random(seed)
    weights = [1 / (rank + 1) for rank in range(len(TEXTS))]
    lists: list[list[str]] = []
    for _ in range(count):
        taken: dict[str, None] = {}
        while len(taken) < 4:
            taken[dice.choices(TEXTS, weights)[0]] = None
        lists.append(list(taken))
    return lists


def fake() -> Fake:
    return Fake(lambda request: "yes")


def shared(lists: list[list[str]]) -> list[list[str]]:
    with running(fake()):
        return [passages(texts, order="shared") for texts in lists]


def common(lists: list[list[str]]) -> int:
    """The passages that a cache without limits has of a beginning that came before."""
    return sum(
        max((_alike(one, before) for before in lists[:number]), default=0)
        for number, one in enumerate(lists)
    )


def _alike(one: list[str], other: list[str]) -> int:
    return len([*takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False))])


def test_the_given_order_is_the_usual_one() -> None:
    with running(fake()):
        assert passages(["b", "a", "c"]) == ["b", "a", "c"]


def test_shared_order_keeps_every_passage() -> None:
    lists = found(100)
    assert [sorted(one) for one in shared(lists)] == [sorted(one) for one in lists]


def test_prompts_with_the_same_passages_have_one_order() -> None:
    one, other = shared([["a", "b", "c"], ["c", "b", "a"]])
    assert one == other == ["a", "b", "c"]


def test_what_earlier_prompts_began_with_comes_first() -> None:
    assert shared([["a", "b"], ["x", "b", "a"]])[1] == ["a", "b", "x"]


def test_shared_order_shares_more_than_any_fixed_order() -> None:
    lists = found(200)
    naive = [sorted(one) for one in lists]
    assert common(shared(lists)) >= 1.3 * common(lists)
    assert common(shared(lists)) >= common(naive)


def test_equal_passages_stay_as_many_as_they_were() -> None:
    assert shared([["a", "a", "b"], ["b", "a", "a"]])[1].count("a") == 2


def test_passages_may_be_any_values() -> None:
    rows = [(2, "b"), (1, "a")]
    with running(fake()):
        assert passages(rows, order="shared") == rows


@pytest.mark.parametrize("wrong", ["shred", None, 3])
def test_an_unknown_order_is_an_error(wrong: Any) -> None:
    with running(fake()), pytest.raises(InvalidOption, match="given, shared"):
        passages(["a"], order=wrong)


def test_a_text_alone_is_no_list() -> None:
    with running(fake()), pytest.raises(InvalidOption, match="list of texts"):
        passages("abc", order="shared")


def test_an_answer_is_no_list_whether_it_is_there_yet_or_not() -> None:
    with running(fake()):
        answer = short()
        for _ in range(2):
            with pytest.raises(InvalidOption, match="list of texts"):
                passages(answer, order="shared")
            str(answer)


class CountedKey(bytes):
    """A key that counts how often any is looked up."""

    lookups = 0

    def __hash__(self) -> int:
        CountedKey.lookups += 1
        return bytes.__hash__(self)


def test_a_long_run_does_not_slow_down_its_next_prompt() -> None:
    order = SharedOrder()
    for number in range(2000):
        order.note([CountedKey(b"%d" % number), CountedKey(b"next")])
    CountedKey.lookups = 0
    assert order.order([CountedKey(b"new"), CountedKey(b"next"), CountedKey(b"7")]) == [2, 1, 0]
    assert CountedKey.lookups < 100


@ppl
def short() -> Any:
    "Say"
    return gen()


@ppl
def ask(texts: list[str]) -> Any:
    for passage in passages(texts, order="shared"):
        f"{passage}"
    "What is true?"
    return gen()


class Counted:
    """A backend that counts what it is asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self._fake = Fake(self._answer)
        self.profile = self._fake.profile

    def _answer(self, request: Request) -> str:
        assert request.messages is not None
        self.asked.append(request.messages.message.content)
        return "yes"

    async def complete(self, request: Request, emit: Any = None) -> Any:
        return await self._fake.complete(request, emit)

    async def aclose(self) -> None:
        pass


def recorded(path: Path, backend: Any, lists: list[list[str]], world: Any = None) -> None:
    recorder = Recorder(path, {"profile": profile_data(backend.profile)}, durability="process")
    with Run(backend, instruments=[*([world] if world else []), recorder], world=world):
        for texts in lists:
            str(ask(texts))
    recorder.close()


def test_a_replay_has_the_recorded_order(tmp_path: Path) -> None:
    lists = found(20)
    recorded(tmp_path / "a.trace", Counted(), lists)
    replayer = Replayer(tmp_path / "a.trace")
    with Run(replayer.backend, instruments=[replayer], world=replayer):
        for texts in lists:
            assert str(ask(texts)) == "yes"
    replayer.finish()


def test_a_rerun_asks_for_what_the_edit_changes(tmp_path: Path) -> None:
    lists, backend = found(20), Counted()
    recorded(tmp_path / "a.trace", backend, lists)
    backend.asked.clear()
    edited = [*lists[:5], ["passage 0", "another"], *lists[6:]]
    rerunner = Rerunner(tmp_path / "a.trace")
    recorded(tmp_path / "b.trace", backend, edited, rerunner)
    assert len(backend.asked) == 1 and "another" in backend.asked[0]
