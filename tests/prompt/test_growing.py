"""Long messages that go on: what they render to, and what their versions share."""

from __future__ import annotations

import gc
from typing import Any

from hypothesis import given, strategies as st

from appl import AIMessage, AIRole, Image, UserMessage, gen, ppl
from appl.prompt import (
    USER,
    VOICES,
    Format,
    Level,
    Message,
    Messages,
    Prompt,
    Rope,
    ToolCall,
    Voice,
)
from appl.prompt.message import LONG
from appl.testing import Scripted, running

CAT = Image("https://example.com/cat.png")
DOCUMENT = "word " * LONG


def tip(prompt: Prompt) -> Any:
    assert prompt.tip is not None
    return prompt.tip


parts = st.sampled_from(["", "a", "b\nc", "\n", "x" * (LONG - 3), "y" * LONG]) | st.just(CAT)
levels = [None, Level(None, Format(sep=", ", indent="  ")), Level(None, Format(indent="> "))]
items = st.lists(
    st.tuples(
        st.sampled_from(["system", "user", "assistant"]),
        parts,
        st.booleans(),
        st.sampled_from(levels),
        st.sampled_from(["", "read", "copied"]),
    ),
    max_size=12,
)


@given(items)
def test_reading_and_copying_on_the_way_changes_nothing(said: list[Any]) -> None:
    stepwise, at_once = Prompt(), Prompt()
    for role, part, starts, level, then in said:
        voice = Voice(role, None, level)
        stepwise.say(voice, part, starts)
        at_once.say(voice, part, starts)
        if then == "read":
            tip(stepwise).messages()
        if then == "copied":
            stepwise = stepwise.copy()
    if said:
        one, other = tip(stepwise).messages(), tip(at_once).messages()
        assert list(one) == list(other)
        assert one.digest == other.digest == Messages.of(other).digest  # type: ignore[union-attr]
        assert (one.needs, one.size) == (other.needs, len(one.message.content))


def test_branches_of_a_long_message_share_its_text() -> None:
    prompt = Prompt()
    prompt.say(USER, DOCUMENT)
    branches = [prompt.copy() for _ in range(3)]
    for i, branch in enumerate(branches):
        branch.say(USER, f"question {i}")
    links = [tip(branch).messages() for branch in branches]
    assert [link.message for link in links] == [
        UserMessage(f"{DOCUMENT}\nquestion {i}") for i in range(3)
    ]
    assert len({id(link.rope.base) for link in links}) == 1
    assert links[0].rope.base.added is DOCUMENT


def test_a_version_that_nobody_holds_takes_no_room() -> None:
    prompt, links = Prompt(), []
    prompt.say(USER, DOCUMENT)
    for i in range(10):
        prompt.say(USER, f"part {i}")
        links.append(tip(prompt).messages())
    held = links[3].message
    assert held is links[3].message
    del held
    gc.collect()
    longs = [
        each
        for each in gc.get_objects()
        if issubclass(type(each), Message) and each.content.startswith(DOCUMENT + "\npart")
    ]
    assert [each.content[len(DOCUMENT) :] for each in longs] == ["\npart 0"]
    assert links[9].message.content.endswith("part 8\npart 9")


def test_an_answer_that_calls_tools_ends_a_long_message() -> None:
    calls = (ToolCall("c", "f", "{}"),)
    prompt = Prompt()
    prompt.say(VOICES["assistant"], DOCUMENT)
    tip(prompt).messages()

    class Answer:
        def prompt_ready(self) -> bool:
            return True

        def prompt_text(self) -> str:
            return "thus"

        def prompt_source(self) -> object:
            return self

        def prompt_message(self) -> Message:
            return AIMessage("thus", tool_calls=calls)

    prompt.say(VOICES["assistant"], Answer())
    prompt.say(VOICES["assistant"], "after")
    link = tip(prompt).messages()
    assert list(link) == [AIMessage(f"{DOCUMENT}\nthus", tool_calls=calls), AIMessage("after")]


def test_a_program_with_many_calls_in_one_message_sends_what_it_says() -> None:
    answers = [f"answer {i} " + "z" * 500 for i in range(30)]

    @ppl
    def steps() -> None:
        "go"
        with AIRole():
            for i in range(30):
                f"Step {i}: {gen()}"

    with running(Scripted(answers)) as seen:
        steps()
    expected = ""
    for i, request in enumerate(seen.requests):
        expected += ("\n" if i else "") + f"Step {i}: "
        assert list(request.messages) == [UserMessage("go"), AIMessage(expected)]
        expected += answers[i]


def test_ropes_are_texts() -> None:
    rope: Rope | None = None
    for text in ("ab\n", "", "cd", ""):
        rope = Rope(rope, text)
        assert rope.ends_line == str(rope).endswith("\n")
        assert rope.size == len(str(rope))
    assert [rope.tail(n) for n in (0, 1, 3, 9)] == ["", "d", "\ncd", "ab\ncd"]  # type: ignore[union-attr]


def test_a_rope_of_very_many_pieces_is_read_without_recursion() -> None:
    rope = Rope(None, "x")
    for _ in range(50_000):
        rope = Rope(rope, "y")
    assert len(str(rope)) == rope.size == 50_001
    del rope
