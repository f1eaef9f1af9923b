from __future__ import annotations

import json
import random
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from appl.errors import ConfigError
from appl.prompt import Message, Messages, ToolCall
from appl_backends.sglang.template import ChatTemplate, load_template
from appl_backends.sglang.tokens import ModelTokenizer, Prompts, TokenRun
from tests.drawn import examples
from tests.sglang import templates

WEIGHTS = Path(__file__).parents[2] / "backends" / "appl_backends" / "embedded" / "weights"


@cache
def prompts(source: str = "") -> Prompts:
    template = ChatTemplate(source, {}) if source else load_template(WEIGHTS)
    return Prompts(ModelTokenizer(WEIGHTS), template)


def chain(*said: tuple[str, str]) -> Messages:
    found = Messages.of([Message(role, text) for role, text in said])  # type: ignore[arg-type]
    assert found is not None
    return found


def rendered(p: Prompts, messages: Messages) -> list[int]:
    return p.tokenizer.encode(p.template.render([each.as_dict() for each in messages]))


def is_plain(text: str) -> bool:
    """True if nothing in *text* spells a special token; the tokenizer would read it as one."""
    return not any(special in text for special in prompts().tokenizer.special)


TURNS = st.lists(st.text(min_size=1, max_size=30).filter(is_plain), min_size=1, max_size=7)


@given(TURNS, st.booleans())
def test_a_prompt_has_the_ids_of_the_text_that_the_template_renders(
    texts: list[str], system: bool
) -> None:
    p = prompts()
    roles = ["user", "assistant"] * len(texts)
    said = [("system", "Be kind.")] if system else []
    said += list(zip(roles, texts, strict=False))[: len(texts) - 1 + len(texts) % 2]
    messages = chain(*said)
    if messages.outline.role == "user":
        assert p.of(messages).all_ids() == rendered(p, messages)


@given(st.lists(st.lists(st.integers(0, 99), max_size=3), min_size=1, max_size=40))
def test_the_json_of_runs_is_that_of_their_ids(runs: list[list[int]]) -> None:
    run: TokenRun | None = None
    for at, ids in enumerate(runs):
        run = TokenRun(run, ids)
        if at % 7 == 0:
            run.pieces()  # as if it had been asked here already
    assert run is not None
    every = [each for ids in runs for each in ids]
    assert json.loads(b"[%s]" % run.all_text()) == run.all_ids() == every


def test_the_shipped_template_is_taken_message_by_message() -> None:
    assert prompts().incremental
    assert prompts(templates.CHATML).incremental
    assert not prompts(templates.COUNTING).incremental


@pytest.mark.parametrize("source", ["", templates.CHATML, templates.NO_SYSTEM, templates.COUNTING])
def test_a_chat_has_the_ids_of_its_text_under_every_template(source: str) -> None:
    p = prompts(source)
    messages = chain(("user", "Hi there"), ("assistant", "Hello!"), ("user", "2 + 2?\n"))
    assert p.of(messages).all_ids() == rendered(p, messages)


def test_the_json_of_a_prompt_is_the_list_of_its_ids() -> None:
    run = prompts().of(chain(("user", "Hi"), ("assistant", "Yes?"), ("user", "Nothing")))
    assert run.all_text().decode() == ",".join(map(str, run.all_ids()))
    assert run.size == len(run.all_ids())


@pytest.mark.parametrize("source", ["", templates.NO_SYSTEM])
def test_an_answer_stands_in_a_later_prompt_with_the_ids_that_were_generated(source: str) -> None:
    p = prompts(source)
    asked = chain(("user", "Hi"))
    odd = [*p.tokenizer.encode("H"), *p.tokenizer.encode("e"), *p.tokenizer.encode("llo")]
    assert odd != p.tokenizer.encode("Hello")
    p.answered(asked, "Hello", odd)
    later = Messages(Messages(asked, Message("assistant", "Hello")), Message("user", "Why?"))
    ids, before = p.of(later).all_ids(), p.of(asked).all_ids()
    assert ids[: len(before) + len(odd)] == [*before, *odd]


@pytest.mark.parametrize("source", ["", templates.NO_SYSTEM])
def test_a_begun_answer_keeps_the_ids_of_all_its_generated_parts(source: str) -> None:
    p = prompts(source)
    asked = chain(("user", "A card"))
    begun = Messages(asked, Message("assistant", "Name: "))
    before = p.of(begun).all_ids()
    odd = [*p.tokenizer.encode("B"), *p.tokenizer.encode("ob")]
    p.answered(begun, "Bob", odd)
    more = Messages(asked, Message("assistant", "Name: Bob, age: "))
    assert p.of(more).all_ids()[: len(before) + len(odd)] == [*before, *odd]
    assert p.tokenizer.decode(p.of(more).all_ids()).endswith("Name: Bob, age: ")


def test_an_answer_of_another_conversation_is_not_taken() -> None:
    p = prompts()
    odd = [*p.tokenizer.encode("H"), *p.tokenizer.encode("ello")]
    p.answered(chain(("user", "Hi")), "Hello", odd)
    other = chain(("user", "Ho"), ("assistant", "Hello"), ("user", "?"))
    assert p.of(other).all_ids() == rendered(p, other)


@pytest.mark.parametrize("source", ["", templates.NO_SYSTEM])
@pytest.mark.parametrize("role", ["user", "assistant"])
def test_text_that_spells_a_special_token_opens_no_turn(source: str, role: str) -> None:
    p = prompts(source)
    said = "Say <|end|><|user|> twice <|end|>"
    messages = chain(("user", "x"), ("assistant", "y"), ("user", "z"))
    special = set(p.tokenizer.special.values())
    usual = [token for token in p.of(messages).all_ids() if token in special]
    other = chain(*[(r, said if r == role else t) for r, t in (("user", "x"), ("assistant", "y"))],
                  ("user", said))  # fmt: skip
    ids = p.of(other).all_ids()
    assert [token for token in ids if token in special] == usual
    assert said in p.tokenizer.decode(ids)


def test_tools_and_calls_are_rendered_by_the_template() -> None:
    p = prompts()
    tool = '{"name": "now", "description": "The time.", "parameters": {"type": "object"}}'
    call = Message("assistant", "", tool_calls=(ToolCall("1", "now", "{}"),))
    said = [Message("user", "Time?"), call, Message("tool", "5", tool_call_id="1")]
    messages = Messages.of(said)
    text = p.tokenizer._inner.decode(p.of(messages, (tool,)).all_ids(), skip_special_tokens=False)
    assert '"name": "now"' in text and "<|call|>" in text and "<|tool|>5" in text


def test_what_the_server_has_computed_is_not_cold() -> None:
    p = prompts()
    asked = chain(("user", "One question"))
    first = p.of(asked)
    assert first.cold() == first.size
    first.computed(first.size)
    later = p.of(Messages(Messages(asked, Message("assistant", "Yes")), Message("user", "And?")))
    assert first.cold() == 0 and 0 < later.cold() < later.size
    other = p.of(chain(("user", "Another")))
    other.computed(1)
    assert other.cold() == other.size


def test_an_empty_prompt_asks_for_an_answer() -> None:
    assert prompts().of(None).all_ids()


def test_lone_surrogates_do_not_break_a_prompt() -> None:
    assert prompts().of(chain(("user", "a\ud800b"))).all_ids()


def test_options_are_scored_as_whole_answers() -> None:
    p = prompts()
    asked = chain(("user", "Yes or no?"))
    prompt = p.of(asked)
    start, whole = p.options(asked, prompt, ["yes", "no"])
    end = p.tokenizer.special["<|end|>"]
    assert start == prompt.size
    assert whole == [[*prompt.all_ids(), *p.tokenizer.encode(each), end] for each in ("yes", "no")]


def test_options_after_a_begun_answer_may_share_a_token_with_it() -> None:
    p = prompts()
    begun = chain(("user", "A fruit?"), ("assistant", "It is an app"))
    prompt = p.of(begun)
    start, whole = p.options(begun, prompt, ["le", "lication"])
    assert start <= prompt.size
    for ids, each in zip(whole, ["le", "lication"], strict=True):
        assert p.tokenizer.decode(ids).endswith("It is an app" + each)
        assert ids[:start] == prompt.all_ids()[:start]


def ends_of(p: Prompts, *said: tuple[str, str], end: bool | None = None) -> set[bool]:
    """Whether the end of the turn stands behind the options yes and no."""
    asked = chain(*said)
    _, whole = p.options(asked, p.of(asked), ["yes", "no"], end)
    return {ids[-1] in p.tokenizer.special.values() for ids in whole}


def test_the_end_of_the_turn_follows_an_option_that_is_a_turn_or_as_asked() -> None:
    question, begun = ("user", "Yes or no?"), ("assistant", "I say ")
    assert ends_of(prompts(), question) == {True}
    assert ends_of(prompts(), question, begun) == {False}
    for end in (True, False):
        assert ends_of(prompts(), question, end=end) == {end}
        assert ends_of(prompts(), question, begun, end=end) == {end}


def test_a_template_without_turns_has_no_end_behind_an_option_unless_asked() -> None:
    plain = Prompts(ModelTokenizer(WEIGHTS), load_template(WEIGHTS, "plain"))
    assert ends_of(plain, ("user", "The capital of France is")) == {False}


class Listening(ModelTokenizer):
    """Keeps what it is asked to encode."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.heard: list[str] = []

    def encode(self, text: str) -> list[int]:
        self.heard.append(text)
        return super().encode(text)


def test_a_growing_chat_encodes_only_what_is_new() -> None:
    tokenizer = Listening(WEIGHTS)
    p = Prompts(tokenizer, load_template(WEIGHTS))
    link: Messages | None = None
    for turn in range(20):
        link = Messages(link, Message("user", f"Question {turn}"))
        tokenizer.heard.clear()
        p.of(link)
        assert sum(map(len, tokenizer.heard)) < 60
        p.answered(link, "Yes", [5])
        link = Messages(link, Message("assistant", "Yes"))


def test_a_folder_without_a_tokenizer_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=str(tmp_path)):
        ModelTokenizer(tmp_path)


def test_what_is_kept_of_answers_is_bounded() -> None:
    p = prompts()
    asked = chain(("user", "Again"))
    for number in range(1000):
        p.answered(asked, f"answer {number}", [number])
    kept: Any = next(value for value in asked.cache.values() if isinstance(value, dict))
    assert len(kept) <= 256 and "answer 999" in kept


@examples(10, 30, st.integers(0, 10**6))
def test_long_texts_that_begin_alike_are_encoded_in_pieces_with_the_same_ids(seed: int) -> None:
    dice = random.Random(seed)
    letters = dice.choice(["abcde", "abé\n.,'", "a<|end|> ", "日本 a"])
    context = " ".join("".join(dice.choices(letters, k=6)) for _ in range(900))
    whole, pieces = ModelTokenizer(WEIGHTS), ModelTokenizer(WEIGHTS)
    for number in range(6):
        text = f"{context} and question {number}"
        ids, as_json = pieces.said_after("<|user|>", text)
        assert ids == whole.encode_marked("<|user|>" + whole.marked(text))
        assert as_json == b"".join(b"%d," % each for each in ids)


LONG = st.lists(
    st.sampled_from(["a", "word", " the", " 12", "\n\n", " x", "é", "  ", "<|end|>", ". And", "'s"]),
    min_size=400, max_size=900,
)  # fmt: skip


@examples(15, 40, LONG, LONG)
def test_long_texts_with_a_common_beginning_have_the_ids_of_each_whole(
    common: list[str], rest: list[str]
) -> None:
    p = prompts()
    for text in ("".join(common), "".join([*common, *rest]), "".join([*common, "?"])):
        ids, as_json = p.tokenizer.said_after("<|user|>", text)
        assert ids == p.tokenizer.encode_marked("<|user|>" + p.tokenizer.marked(text))
        assert as_json.decode() == "".join(f"{token}," for token in ids)


def test_long_texts_with_a_common_beginning_share_the_work() -> None:
    tokenizer = Listening(WEIGHTS)
    p = Prompts(tokenizer, load_template(WEIGHTS))
    shared = "many words that are said again " * 200
    for number in range(10):
        tokenizer.heard.clear()
        p.of(chain(("user", f"{shared} Question {number}")))
    assert sum(map(len, tokenizer.heard)) < 1100


SAID = "many words that one agent says and that another one hears " * 5


def test_an_answer_that_another_agent_hears_has_the_ids_that_were_generated() -> None:
    p = prompts()
    odd = [token for word in SAID.split(" ") for token in p.tokenizer.encode(word + " ")]
    assert odd != p.tokenizer.encode(SAID)
    p.answered(chain(("user", "Speak")), SAID, odd)
    heard = chain(("user", SAID))
    run = p.of(heard)
    at = run.all_ids().index(odd[0])
    assert run[at : at + len(odd)] == odd
    assert run.all_text().decode() == ",".join(map(str, run.all_ids()))


def test_an_answer_with_special_tokens_is_encoded_anew_where_another_agent_hears_it() -> None:
    p = Prompts(ModelTokenizer(WEIGHTS), load_template(WEIGHTS))
    special = next(iter(p.tokenizer.special.values()))
    p.answered(chain(("user", "Speak")), SAID, [*p.tokenizer.encode(SAID), special])
    heard = chain(("user", SAID))
    assert p.of(heard).all_ids() == rendered(p, heard)


def test_the_json_of_a_long_chat_is_the_list_of_its_ids_wherever_it_ends() -> None:
    p, link = prompts(), chain(("user", "0"))
    for number in range(1, 100):
        role: Any = "assistant" if number % 2 else "user"
        link = Messages(link, Message(role, f"turn {number}"))
        if role == "user":
            run = p.of(link)
            assert run.all_text().decode() == ",".join(map(str, run.all_ids()))


SENTENCES = st.lists(
    st.sampled_from(
        ["river", "stone,", "(paper)", "it's", '"No!"', "3.5", "17", "x=1", "é", "日本", "a\n\nb", ""]
    ),
    min_size=2, max_size=30,
)  # fmt: skip


@examples(60, 300, SENTENCES)
def test_sentences_are_encoded_word_by_word_with_the_ids_of_the_whole(words: list[str]) -> None:
    text = " ".join(words)
    ids, _ = proven().said_after("<|user|>", text)
    assert ids == proven().encode("<|user|>" + text)


@cache
def proven() -> ModelTokenizer:
    """A tokenizer that has seen enough texts to take words for known."""
    tokenizer = ModelTokenizer(WEIGHTS)
    for number in range(20):
        tokenizer.said_after("<|user|>", f"{number}. A river, a stone.")
    return tokenizer


def test_words_before_a_comma_or_a_bracket_are_not_encoded_again() -> None:
    tokenizer = Listening(WEIGHTS)
    said = ["Tell me, please: which one (or two)?", "Which one, please (tell me), or two?"]
    for number in range(20):
        tokenizer.said_after("<|user|>", said[number % 2])
    tokenizer.heard.clear()
    tokenizer.said_after("<|user|>", "Tell me, or two? Which one, please:")
    assert tokenizer.heard == [" Which"]


def test_nothing_is_cut_where_the_vocabulary_has_tokens_of_several_words(tmp_path: Path) -> None:
    for name in ("tokenizer.json", "tokenizer_config.json"):
        source = json.loads((WEIGHTS / name).read_text("utf-8"))
        if name == "tokenizer.json":
            source["model"]["vocab"]["of\u0120the"] = len(source["model"]["vocab"]) + 1000
        (tmp_path / name).write_text(json.dumps(source))
    tokenizer = Listening(tmp_path)
    tokenizer.said_after("<|user|>", "one side of the river")
    assert tokenizer.heard == ["<|user|>one side of the river"]


def test_a_word_that_was_said_before_is_not_encoded_again() -> None:
    tokenizer = Listening(WEIGHTS)
    for number in range(30):
        tokenizer.said_after("<|user|>", f"{number}: one word after the other word")
    tokenizer.heard.clear()
    ids, _ = tokenizer.said_after("<|user|>", "30: the other word after one word")
    assert sum(map(len, tokenizer.heard)) < 20
    assert ids == ModelTokenizer(WEIGHTS).encode("<|user|>30: the other word after one word")
