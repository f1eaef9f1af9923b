"""Prompts in parts: the same text, the same digest, and the same parts in each turn."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from appl.backend import Border, Request, Reuse, Sampling
from appl.prompt import Messages
from appl.prompt.message import Message
from appl_backends.litellm import messages_of
from appl_backends.prompt_cache import CachePlan, key_of, parts_of, plan_for
from appl_backends.prompt_cache.anthropic import RULE
from appl_backends.prompt_cache.openai import BREAKPOINTS, PREFIXES, rule_of
from tests.bill.world import claude_body, openai_body

LONG = "word " * 2000


def request(*texts: str, reuse: Reuse | None = None) -> Request:
    """A request whose messages have these *texts*, the user's and the model's in turn."""
    roles = ("user", "assistant")
    messages = Messages.of(Message(roles[at % 2], text) for at, text in enumerate(texts))
    return Request("/ask.0/gen.0", 0, "", messages, Sampling(), reuse=reuse)


def border(message: int, offset: int, **more: Any) -> Border:
    return Border(message, offset, b"", 2000, **{"to_come": 1, **more})


def texts_in(body: Any) -> list[str]:
    """The texts of the messages in *body*, with their parts put together."""
    contents = [message["content"] for message in body["messages"]]
    return [c if isinstance(c, str) else "".join(part["text"] for part in c) for c in contents]


@pytest.mark.parametrize("write", [openai_body, claude_body])
@pytest.mark.parametrize("seed", range(20))
def test_parts_say_what_the_whole_says(write: Any, seed: int) -> None:
    dice = Random(seed)
    texts = [LONG[: dice.randint(5, 9000)] + "é𝄞" * dice.randint(0, 3) for _ in range(3)]
    borders = [
        border(at, dice.randint(0, len(text)), sent=dice.randint(0, 1))
        for at, text in enumerate(texts)
        for _ in range(dice.randint(0, 3))
    ]
    reuse = Reuse(tuple(borders), dice.choice([True, False, None]), None, dice.randint(0, 2))
    cut, uncut = request(*texts, reuse=reuse), request(*texts)
    assert texts_in(write(cut)) == texts == texts_in(write(uncut))
    assert cut.digest == uncut.digest


def test_a_text_is_cut_where_it_is_said() -> None:
    assert parts_of("abcdef", (2, 3)) == ["ab", "c", "def"] and parts_of("abc", ()) == ["abc"]


def test_a_message_is_cut_in_the_same_way_in_each_turn() -> None:
    first = request(LONG + "a", reuse=Reuse((border(0, len(LONG)),), True))
    before = openai_body(first)["messages"]
    assert first.messages is not None
    grown = Messages(Messages(first.messages, Message("assistant", "b")), Message("user", "c"))
    again = Reuse((border(0, 5000), border(0, len(LONG))), True, begun=1)
    second = Request("/ask.0/gen.1", 1, "", grown, Sampling(), reuse=again)
    assert openai_body(second)["messages"][0] == before[0]


def test_what_nobody_reads_is_not_written() -> None:
    body = openai_body(request(LONG, reuse=Reuse((), False)))
    assert body["prompt_cache_options"] == {"mode": "explicit"}
    assert "prompt_cache_breakpoint" not in str(body["messages"])
    assert claude_body(request(LONG, reuse=Reuse((), False)))["messages"][0]["content"] == LONG


def test_a_chain_is_left_to_the_provider() -> None:
    body = openai_body(request(LONG, reuse=Reuse((), True)))
    assert "prompt_cache_options" not in body and body["messages"][0]["content"] == LONG
    (message,) = claude_body(request(LONG, reuse=Reuse((), True)))["messages"]
    assert message["content"][-1]["cache_control"] == {"type": "ephemeral"}


def test_without_knowledge_a_body_is_what_it_was() -> None:
    body = openai_body(request(LONG))
    assert body.keys() == {"model", "messages", "prompt_cache_key"}


def test_a_beginning_that_comes_again_after_minutes_is_kept_for_an_hour() -> None:
    reuse = Reuse((border(0, len(LONG), gap=900.0),), False)
    messages = messages_of(
        request(LONG + "a", reuse=reuse).messages,
        marks=True,
        plan=plan_for(request(LONG + "a", reuse=reuse), RULE),
    )
    assert messages[0]["content"][0]["cache_control"] == {"type": "ephemeral", "ttl": "1h"}
    assert reuse.needs_an_hour


def test_a_slow_chat_is_kept_for_an_hour_as_a_whole() -> None:
    reuse = Reuse((border(0, 5000),), True, gap=900.0, begun=1)
    first = request(LONG, reuse=Reuse((), True))
    claude_body(first)
    assert first.messages is not None
    grown = Messages(Messages(first.messages, Message("assistant", "b")), Message("user", "c"))
    found = str(claude_body(Request("/a.0/gen.1", 1, "", grown, Sampling(), reuse=reuse)))
    assert found.count("cache_control") == found.count("'ttl': '1h'") == 2


def test_no_more_is_marked_than_a_provider_takes() -> None:
    borders = tuple(border(0, 5000 + at) for at in range(10))
    for reuse in (Reuse(borders, True), Reuse(borders, False), Reuse(borders, None, None, 0)):
        body = openai_body(request(LONG, reuse=reuse))
        implicit = "prompt_cache_options" not in body
        assert str(body["messages"]).count("prompt_cache_breakpoint") == 4 - implicit
        assert str(claude_body(request(LONG, reuse=reuse))).count("cache_control") == 4


@pytest.mark.parametrize(
    ("model", "rule"),
    [
        ("gpt-5.6", BREAKPOINTS),
        ("gpt-5.6-luna", BREAKPOINTS),
        ("gpt-5.10", BREAKPOINTS),
        ("gpt-6", BREAKPOINTS),
        ("openai/gpt-6.1-mini", BREAKPOINTS),
        ("ft:gpt-5.6:mine", BREAKPOINTS),
        ("gpt-5.5", PREFIXES),
        ("gpt-5-mini", PREFIXES),
        ("gpt-4o", PREFIXES),
        ("gpt-35-turbo", PREFIXES),
        ("o3", PREFIXES),
        ("mine", PREFIXES),
    ],
)
def test_a_model_has_the_rule_of_its_version(model: str, rule: object) -> None:
    assert rule_of(model) is rule


def test_an_earlier_model_gets_no_marks() -> None:
    reuse = Reuse((border(0, 5000),), False)
    assert openai_body(request(LONG, reuse=reuse), "gpt-5-mini").keys() == {
        "model", "messages", "prompt_cache_key",
    }  # fmt: skip


def test_a_server_without_a_rule_gets_a_key_alone() -> None:
    reuse = Reuse((border(0, 5000),), False)
    found = request(LONG, reuse=reuse)
    assert plan_for(found, None) == CachePlan(key_of(found.messages), {})
    assert key_of(None) == "appl"
