"""The prompt chain: what it renders to, what it waits for, what copies share."""

from __future__ import annotations

import pytest

from appl.prompt import (
    USER,
    VOICES,
    Formatted,
    Lazy,
    Message,
    Messages,
    Prompt,
    PromptNode,
    SystemMessage,
    UserMessage,
    as_message,
    formatted,
)


class Later:
    """A lazy part that a test makes ready."""

    def __init__(self) -> None:
        self.answer: str | Exception | None = None

    def prompt_ready(self) -> bool:
        return self.answer is not None

    def prompt_text(self) -> str:
        if isinstance(self.answer, Exception):
            raise self.answer
        assert self.answer is not None, "asked before it was ready"
        return self.answer

    def prompt_source(self) -> object:
        return self


def tip(prompt: Prompt) -> PromptNode:
    assert prompt.tip is not None
    return prompt.tip


def shown(prompt: Prompt) -> list[tuple[str, str]]:
    return [(message.role, message.content) for message in tip(prompt).messages()]


def test_items_of_one_role_are_joined_by_their_separator() -> None:
    prompt = Prompt()
    prompt.say(USER, "a")
    prompt.say(USER, "b")
    assert shown(prompt) == [("user", "a\nb")]


def test_parts_of_one_item_are_joined_without_separator() -> None:
    prompt = Prompt()
    prompt.say(USER, "a")
    prompt.say(USER, "b", starts=False)
    assert shown(prompt) == [("user", "ab")]


def test_a_new_role_starts_a_new_message_without_separator() -> None:
    prompt = Prompt()
    prompt.say(USER, "q")
    prompt.say(VOICES["assistant"], "The author is ")
    assert shown(prompt) == [("user", "q"), ("assistant", "The author is ")]


def test_rendering_in_steps_gives_what_rendering_at_once_gives() -> None:
    stepwise, at_once = Prompt(), Prompt()
    for role, text in [("user", "a"), ("user", "b"), ("assistant", "c"), ("user", "d")]:
        stepwise.say(VOICES[role], text)  # type: ignore[index]
        tip(stepwise).messages()
        at_once.say(VOICES[role], text)  # type: ignore[index]
    assert shown(stepwise) == shown(at_once)
    assert tip(stepwise).messages().digest == tip(at_once).messages().digest


def test_late_system_text_moves_to_the_front() -> None:
    prompt = Prompt()
    prompt.say(USER, "q")
    prompt.say(VOICES["system"], "be brief")
    prompt.say(USER, "r")
    prompt.say(VOICES["system"], "be kind")
    assert shown(prompt) == [("system", "be brief\nbe kind"), ("user", "q\nr")]


def test_a_copy_shares_its_beginning_and_nothing_later() -> None:
    prompt = Prompt()
    prompt.say(USER, "shared")
    other = prompt.copy()
    prompt.say(USER, "mine")
    other.say(USER, "yours")
    assert shown(prompt) == [("user", "shared\nmine")]
    assert shown(other) == [("user", "shared\nyours")]
    assert tip(prompt).parent is tip(other).parent


def test_two_branches_share_their_rendered_messages_as_one_object() -> None:
    prompt = Prompt()
    prompt.say(USER, "question")
    shared = tip(prompt).messages()
    left, right = prompt.copy(), prompt.copy()
    left.say(VOICES["assistant"], "l")
    right.say(VOICES["assistant"], "r")
    assert tip(left).messages().parent is shared
    assert tip(right).messages().parent is shared


def test_a_prompt_waits_for_the_nearest_missing_part_first() -> None:
    prompt, first, second = Prompt(), Later(), Later()
    prompt.say(USER, first)
    prompt.say(USER, "x")
    prompt.say(USER, second)
    assert list(tip(prompt).waiting()) == [second, first]
    assert tip(prompt).first_waiting() is second
    second.answer = "2"
    assert tip(prompt).first_waiting() is first
    first.answer = "1"
    assert tip(prompt).first_waiting() is None
    assert shown(prompt) == [("user", "1\nx\n2")]


def test_the_holes_of_a_prompt_stay_its_edges_after_they_are_filled() -> None:
    prompt, part = Prompt(), Later()
    prompt.say(USER, part)
    prompt.say(USER, "x")
    part.answer = "1"
    assert tip(prompt).first_waiting() is None
    assert list(tip(prompt).holes()) == [part]


def test_a_failed_part_raises_where_the_prompt_is_rendered() -> None:
    prompt, part = Prompt(), Later()
    prompt.say(USER, part)
    part.answer = ValueError("no answer")
    with pytest.raises(ValueError, match="no answer"):
        tip(prompt).messages()


def test_a_very_long_chain_neither_recurses_nor_repeats_work() -> None:
    prompt = Prompt()
    parts = []
    for index in range(20_000):
        part = Later()
        part.answer = str(index)
        parts.append(part)
        prompt.say(VOICES["user" if index % 2 else "assistant"], part)
        assert tip(prompt).first_waiting() is None
        tip(prompt).messages()
    assert len(tip(prompt).messages()) == 20_000


def test_digests_tell_roles_contents_and_boundaries_apart() -> None:
    chains = [
        Messages.of([Message("user", "ab")]),
        Messages.of([Message("user", "a"), Message("user", "b")]),
        Messages.of([Message("assistant", "ab")]),
        Messages.of([Message("user", "a\x00b")]),
        Messages.of([Message("user", "a\ud800b")]),
    ]
    assert len({chain.digest for chain in chains if chain}) == len(chains)


def test_equal_conversations_have_equal_digests_however_they_were_built() -> None:
    prompt = Prompt()
    prompt.say(VOICES["system"], "s")
    prompt.say(USER, "q", starts=True)
    direct = Messages.of([SystemMessage("s"), UserMessage("q")])
    assert direct is not None
    assert tip(prompt).messages().digest == direct.digest


def test_ten_megabytes_and_odd_characters_pass_unchanged() -> None:
    text = "x" * 10_000_000 + "\x00\ud800\u202e\x1b[2J"
    prompt = Prompt()
    prompt.say(USER, text)
    assert shown(prompt) == [("user", text)]


def test_a_lazy_part_takes_conversion_and_format_spec_when_it_is_there() -> None:
    part = Later()
    lazy = Formatted(part, "r", ">6")
    assert isinstance(lazy, Lazy)
    assert not lazy.prompt_ready()
    part.answer = "ab"
    assert lazy.prompt_text() == formatted("ab", "r", ">6") == "  'ab'"
    assert lazy.prompt_source() is part


def test_a_message_of_an_unknown_role_says_which_roles_there_are() -> None:
    with pytest.raises(ValueError, match="system, user, assistant, tool"):
        as_message({"role": "bot", "content": "x"})


def test_a_message_of_each_kind_knows_its_role() -> None:
    assert as_message({"role": "user", "content": "x"}) == Message("user", "x")
    assert (SystemMessage("s").role, UserMessage("u").role) == ("system", "user")
