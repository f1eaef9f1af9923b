"""What stands before items: labels, and the levels that count them."""

from __future__ import annotations

import pytest

from appl.prompt import USER, Format, Indexing, Level, Prompt, Voice

NUMBERED = Format("\n", Indexing("number"))


def labels(method: str | None, *positions: int, **how: object) -> list[str]:
    return [Indexing(method, **how).label(position) for position in positions]  # type: ignore[arg-type]


def said(prompt: Prompt) -> str:
    assert prompt.tip is not None
    return "|".join(message.content for message in prompt.tip.messages() or ())


@pytest.mark.parametrize(
    ("method", "first", "second"),
    [
        ("number", "1. ", "2. "),
        ("lower", "a. ", "b. "),
        ("letter", "a. ", "b. "),
        ("upper", "A. ", "B. "),
        ("Letter", "A. ", "B. "),
        ("roman", "i. ", "ii. "),
        ("Roman", "I. ", "II. "),
        ("star", "* ", "* "),
        ("dash", "- ", "- "),
        ("sharp2", "## ", "## "),
        ("##", "## ", "## "),
        ("sharp", "sharp ", "sharp "),
        ("•", "• ", "• "),
        ("", "", ""),
        (None, "", ""),
    ],
)
def test_every_method_has_its_labels(method: str | None, first: str, second: str) -> None:
    assert labels(method, 0, 1) == [first, second]


def test_letters_go_on_as_the_columns_of_a_sheet_do() -> None:
    assert labels("lower", 25, 26, 51, 52, 701, 702) == [
        "z. ", "aa. ", "az. ", "ba. ", "zz. ", "aaa. ",
    ]  # fmt: skip


def test_roman_numerals_subtract() -> None:
    assert labels("Roman", 3, 8, 39, 1993, 3998) == [
        "IV. ",
        "IX. ",
        "XL. ",
        "MCMXCIV. ",
        "MMMCMXCIX. ",
    ]


def test_a_list_may_start_later_and_look_otherwise() -> None:
    assert labels("number", 0, 1, ind=4, prefix="(", suffix=") ") == ["(5) ", "(6) "]
    assert labels("dash", 0, suffix="") == ["-"]
    assert labels("dash", 0, prefix=" ") == [" - "]


def test_a_list_does_not_start_before_its_beginning() -> None:
    with pytest.raises(ValueError, match="starts at 0 or later"):
        Indexing("number", ind=-1)


def test_a_level_is_known_by_its_entry_not_by_its_format() -> None:
    prompt = Prompt()
    for _ in range(2):
        voice = Voice("user", None, Level(None, NUMBERED))
        prompt.say(voice, "a")
        prompt.say(voice, "b")
    assert said(prompt) == "1. a\n2. b\n1. a\n2. b"


def test_rendering_on_the_way_changes_nothing() -> None:
    outer = Level(None, NUMBERED)
    inner = Level(outer, Format("; ", Indexing("dash"), indent="  "))
    texts = [(None, "p"), (outer, "a"), (inner, "b"), (inner, "c"), (outer, "d"), (None, "q")]
    at_once, stepwise = Prompt(), Prompt()
    for level, text in texts:
        at_once.say(Voice("user", None, level), text)
        stepwise.say(Voice("user", None, level), text)
        said(stepwise)
    assert said(at_once) == said(stepwise) == "p\n1. a\n  - b; - c\n2. d\nq"


def test_two_prompts_that_share_a_list_go_on_by_themselves() -> None:
    voice = Voice("user", None, Level(None, NUMBERED))
    prompt = Prompt()
    prompt.say(voice, "a")
    assert said(prompt) == "1. a"
    one, other = prompt.copy(), prompt.copy()
    one.say(voice, "b")
    other.say(voice, "c")
    assert (said(one), said(other)) == ("1. a\n2. b", "1. a\n2. c")


def test_a_list_that_was_interrupted_goes_on() -> None:
    voices = [Voice("user", None, Level(None, NUMBERED)) for _ in range(2)]
    at_once, stepwise = Prompt(), Prompt()
    for text in "abcdef":
        voice = voices["ace".count(text)]
        at_once.say(voice, text)
        stepwise.say(voice, text)
        said(stepwise)
    assert said(at_once) == said(stepwise) == "1. a\n1. b\n2. c\n2. d\n3. e\n3. f"


def test_a_list_that_was_left_long_ago_begins_again() -> None:
    first = Voice("user", None, Level(None, NUMBERED))
    prompt = Prompt()
    prompt.say(first, "a")
    for _ in range(40):
        prompt.say(Voice("user", None, Level(None, NUMBERED)), "b")
    prompt.say(first, "c")
    assert said(prompt).endswith("1. b\n1. c")


def test_a_list_between_plain_texts_begins_with_its_first_number() -> None:
    prompt = Prompt()
    prompt.say(USER, "before")
    prompt.say(Voice("user", None, Level(None, NUMBERED)), "a")
    prompt.say(USER, "between")
    prompt.say(Voice("user", None, Level(None, NUMBERED)), "b")
    assert said(prompt).splitlines() == ["before", "1. a", "between", "1. b"]


def test_text_that_only_begins_after_a_line_end_is_indented() -> None:
    prompt = Prompt()
    voice = Voice("user", None, Level(None, Format("", indent="  ")))
    for text in ("a\n", "b", "c"):
        prompt.say(voice, text)
    assert said(prompt) == "  a\n  bc"


def test_the_first_text_of_a_message_begins_a_line() -> None:
    prompt, joined = Prompt(), Level(None, Format(""))
    prompt.say(Voice("user", None, joined), "")
    prompt.say(Voice("user", None, Level(joined, Format("", indent="  "))), "a")
    assert said(prompt) == "  a"


def test_plain_text_shares_one_voice() -> None:
    prompt = Prompt()
    prompt.say(USER, "a")
    assert prompt.tip is not None and prompt.tip.voice is USER
