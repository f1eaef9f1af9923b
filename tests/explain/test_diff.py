from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from appl import AIRole, gen, ppl
from appl.backend import Request
from appl.testing import said
from appl.tracing import Trace
from appl.tracing.explaining import RunDifference, compare

from .support import Answer, recorded


@ppl
def chat(questions: list[str]) -> list[str]:
    "You are terse."
    answers = []
    for question in questions:
        f"{question}"
        with AIRole():
            (answer := gen())
        answers.append(answer)
    return answers


@ppl
def leaf(text: str) -> str:
    f"Sum up {text}"
    return gen()


@ppl
def tree(texts: list[str], temperature: float | None = None) -> str:
    parts = [leaf(text) for text in texts]
    "Join these:"
    for part in parts:
        f"- {part}"
    return gen(temperature=temperature)


@ppl
def loud(text: str) -> str:
    f"Sum up {text}"
    first = str(gen()).upper()
    f"Once more: {first}!"
    return gen()


def echo(request: Request) -> str:
    return f"<{request.digest.hex()[:6]}>"


def told(found: list[RunDifference]) -> list[str]:
    return [f"{each.how} {each.address}" for each in found]


def test_a_run_and_itself_have_no_differences(tmp_path: Path) -> None:
    run = recorded(tmp_path / "a.trace", tree, echo, ["one", "two"])
    found = compare(run, run)
    assert (found.differences, found.same) == ([], 3)


def test_an_edited_leaf_is_the_one_cause_and_what_holds_its_answer_follows(tmp_path: Path) -> None:
    a = recorded(tmp_path / "a.trace", tree, echo, [f"text {i}" for i in range(9)])
    b = recorded(tmp_path / "b.trace", tree, echo, [f"text {i}{'!' * (i == 4)}" for i in range(9)])
    found = compare(a, b)
    assert told(found.causes()) == ["changed /tree.0/leaf.4/gen.0"]
    (join,) = found.consequences()
    assert (join.address, join.causes, join.through) == (
        "/tree.0/gen.0", ["/tree.0/leaf.4/gen.0"], "prompt",
    )  # fmt: skip
    (part, answer) = found.causes()[0].parts
    assert part.lines() == ["  - Sum up text 4", "  + Sum up text 4!"]
    assert answer.name == "answer"
    assert found.same == 8


def test_a_line_that_all_prompts_share_is_told_once(tmp_path: Path) -> None:
    a = recorded(tmp_path / "a.trace", chat, echo, ["one", "two", "three"])
    b = recorded(tmp_path / "b.trace", chat, echo, ["uno", "two", "three"])
    found = compare(a, b)
    assert told(found.causes()) == ["changed /chat.0/gen.0"]
    assert told(found.consequences()) == ["changed /chat.0/gen.1", "changed /chat.0/gen.2"]
    assert [found.root(each) for each in found.consequences()] == ["/chat.0/gen.0"] * 2


def test_another_answer_to_the_same_question_is_a_cause(tmp_path: Path) -> None:
    def other(request: Request) -> str:
        return "else" if "text 1" in said(request) and "Join" not in said(request) else "same"

    a = recorded(tmp_path / "a.trace", tree, lambda _: "same", ["text 0", "text 1"])
    b = recorded(tmp_path / "b.trace", tree, other, ["text 0", "text 1"])
    found = compare(a, b)
    assert told(found.causes()) == ["changed /tree.0/leaf.1/gen.0"]
    assert [part.name for part in found.causes()[0].parts] == ["answer"]
    assert told(found.consequences()) == ["changed /tree.0/gen.0"]
    assert not compare(a, b, ["answers"]).differences


def test_an_answer_that_went_through_python_is_followed_when_the_programs_are_the_same(
    tmp_path: Path,
) -> None:
    a = recorded(tmp_path / "a.trace", loud, lambda _: "quiet", "it")
    answers = iter(["loud", "quiet"])
    b = recorded(tmp_path / "b.trace", loud, lambda _: next(answers), "it")
    found = compare(a, b)
    assert told(found.causes()) == ["changed /loud.0/gen.0"]
    (after,) = found.consequences()
    assert (after.causes, after.through) == (["/loud.0/gen.0"], "program")


def test_short_answers_are_told_apart_from_other_text_by_where_they_come_from(
    tmp_path: Path,
) -> None:
    def number(digit: str) -> Answer:
        return lambda request: digit if "text 1" in said(request) else "1"

    a = recorded(tmp_path / "a.trace", tree, number("1"), ["text 0", "text 1", "text 2"])
    b = recorded(tmp_path / "b.trace", tree, number("2"), ["text 0", "text 1", "text 2"])
    found = compare(a, b)
    assert told(found.causes()) == ["changed /tree.0/leaf.1/gen.0"]
    assert [each.causes for each in found.consequences()] == [["/tree.0/leaf.1/gen.0"]]


def test_a_call_more_moves_the_others(tmp_path: Path) -> None:
    a = recorded(tmp_path / "a.trace", tree, echo, ["one", "two"])
    b = recorded(tmp_path / "b.trace", tree, echo, ["zero", "one", "two"])
    found = compare(a, b)
    moved = [(each.was, each.address) for each in found.differences if each.how == "moved"]
    assert moved == [
        ("/tree.0/leaf.0/gen.0", "/tree.0/leaf.1/gen.0"),
        ("/tree.0/leaf.1/gen.0", "/tree.0/leaf.2/gen.0"),
    ]
    assert "added /tree.0/leaf.0/gen.0" in told(found.differences)


def test_settings_explain_what_they_set(tmp_path: Path) -> None:
    def run(name: str, temperature: float) -> Trace:
        made = {"settings": {"temperature": temperature}}
        return recorded(tmp_path / name, tree, lambda _: "x", ["one"], temperature, **made)

    found = compare(run("a.trace", 0.1), run("b.trace", 0.2))
    assert told(found.causes()) == ["changed setting temperature"]
    (join,) = found.consequences()
    assert (join.address, join.through) == ("/tree.0/gen.0", "settings")


def test_a_seed_that_was_drawn_and_then_given_is_no_difference(tmp_path: Path) -> None:
    def run(name: str, given: int | None, effective: int) -> Trace:
        made = {"settings": {"seed": given}, "seed": effective}
        return recorded(tmp_path / name, tree, lambda _: "x", ["one"], **made)

    first, again, other = run("a.trace", None, 7), run("b.trace", 7, 7), run("c.trace", 8, 8)
    assert compare(first, again).differences == []
    assert told(compare(first, other).differences) == ["changed setting seed"]


def test_other_programs_and_arguments_come_first(tmp_path: Path) -> None:
    def run(name: str, digest: str, word: str) -> Trace:
        entry = {"kind": "cli", "file": "/x/p.py", "directory": "/x", "argv": [word]}
        programs = {"/x/p.py": digest}
        return recorded(tmp_path / name, leaf, echo, word, entry=entry, programs=programs)

    found = compare(run("a.trace", "b2:00", "one"), run("b.trace", "b2:01", "two"))
    assert told(found.causes()) == [
        "changed file p.py", "changed arguments", "changed /leaf.0/gen.0"
    ]  # fmt: skip
    ignored = compare(run("a.trace", "b2:00", "one"), run("b.trace", "b2:01", "one"), ["program"])
    assert not ignored.differences


def test_an_unknown_aspect_is_refused(tmp_path: Path) -> None:
    run = recorded(tmp_path / "a.trace", leaf, echo, "it")
    with pytest.raises(ValueError, match="no aspect 'words'"):
        compare(run, run, ["words"])


@settings(max_examples=25, deadline=None)
@given(edited=st.integers(0, 7), by=st.text("ab ", min_size=1, max_size=3))
def test_each_seeded_edit_is_the_first_cause(
    tmp_path_factory: pytest.TempPathFactory, edited: int, by: str
) -> None:
    folder = tmp_path_factory.mktemp("runs")
    texts = [f"text number {i}" for i in range(8)]
    a = recorded(folder / "a.trace", tree, echo, texts)
    texts[edited] += f"; {by}"
    found = compare(a, recorded(folder / "b.trace", tree, echo, texts))
    assert told(found.causes()) == [f"changed /tree.0/leaf.{edited}/gen.0"]
    assert told(found.consequences()) == ["changed /tree.0/gen.0"]


@settings(max_examples=15, deadline=None)
@given(edited=st.integers(0, 5))
def test_each_seeded_edit_of_a_chat_is_the_first_cause(
    tmp_path_factory: pytest.TempPathFactory, edited: int
) -> None:
    folder = tmp_path_factory.mktemp("runs")
    texts = [f"question {i}" for i in range(6)]
    a = recorded(folder / "a.trace", chat, echo, texts)
    texts[edited] += "?"
    found = compare(a, recorded(folder / "b.trace", chat, echo, texts))
    assert told(found.causes()) == [f"changed /chat.0/gen.{edited}"]
    assert len(found.consequences()) == 5 - edited
