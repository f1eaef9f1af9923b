"""Vectors of `Scripted` and `Echo`, with which programs that retrieve are tested."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given, strategies as st

from appl import embed, gen, ppl
from appl.errors import Unsupported
from appl.testing import Echo, Fake, Instant, Scripted, running

PASSAGES = ["the shop opens at nine", "a dog sleeps on the mat", "trains leave from platform two"]


def product(one: Any, other: Any) -> float:
    return sum(a * b for a, b in zip(one, other, strict=True))


def nearest(question: str) -> str:
    vectors = list(embed(PASSAGES))
    asked = embed(question).result()
    return max(zip(PASSAGES, vectors, strict=True), key=lambda pair: product(pair[1], asked))[0]


@ppl
def answer(question: str) -> str:
    f"{nearest(question)}\n\n{question}"
    return gen()


def test_a_program_that_retrieves_is_tested_without_a_model() -> None:
    with running(Scripted(["At nine.", "Two."])) as seen:
        assert answer("when opens the shop") == "At nine."
        assert answer("which platform have trains") == "Two."
    assert seen.prompts["/answer.0/gen.0"] == f"user: {PASSAGES[0]}\n\nwhen opens the shop"
    assert seen.prompts["/answer.1/gen.0"].startswith(f"user: {PASSAGES[2]}")


def test_a_script_by_address_or_as_a_function_is_not_asked_for_vectors() -> None:
    for script in ({"/answer.0/gen.0": "yes"}, lambda request: "yes"):
        with running(Scripted(script)):
            assert answer("when opens the shop") == "yes"


@given(st.lists(st.text(min_size=1), min_size=1, max_size=3), st.integers(1, 300))
def test_a_vector_is_of_its_text_alone_and_has_length_1(texts: list[str], size: int) -> None:
    with running(Echo()):
        together = list(embed(texts, dimensions=size))
    with running(Scripted([])):
        alone = [embed(text, dimensions=size).result() for text in texts]
    assert [list(each) for each in together] == [list(each) for each in alone]
    for vector in together:
        assert len(vector) == size and product(vector, vector) == pytest.approx(1, abs=1e-5)


def test_another_process_has_the_same_vectors() -> None:
    program = (
        "from appl import embed\nfrom appl.testing import Echo, running\n"
        "with running(Echo()):\n    print(list(embed('the red box').result()))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    with running(Echo()):
        assert done.stdout.strip() == str(list(embed("the red box").result()))


def test_texts_without_a_word_in_common_are_far_apart() -> None:
    with running(Echo()):
        one, same, other = embed(["The Red box", "box red the", "a dog barks"])
        assert len(one) == 256
    assert product(one, same) == pytest.approx(1) and product(one, other) == 0


@pytest.mark.parametrize("backend", [Instant(), Fake(lambda request: "yes")])
def test_backends_that_say_nothing_of_vectors_refuse(backend: Fake) -> None:
    with running(backend), pytest.raises(Unsupported):
        embed("a")
