from __future__ import annotations

import json
from typing import Any

import pytest

from appl.backend import Sampling
from appl.errors import Unsupported
from appl_backends.sglang.tools import STYLES, Style, offer_of, style_of

STYLE = {style.name: style for style in STYLES}
WEATHER: dict[str, Any] = {
    "name": "weather",
    "description": "",
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
    },
}
ARGUMENTS = {"city": "Rom", "days": 3}
WRITTEN = {
    "hermes": '<tool_call>\n{"name": "weather", "arguments": {"city": "Rom", "days": 3}}\n</tool_call>',
    "mistral": '[TOOL_CALLS] [{"name": "weather", "arguments": {"city": "Rom", "days": 3}}]',
    "appl": '<|call|>{"name": "weather", "arguments": {"city": "Rom", "days": 3}}',
    "llama": '<|python_tag|>{"name": "weather", "parameters": {"city": "Rom", "days": 3}}',
    "coder": "<tool_call>\n<function=weather>\n<parameter=city>\nRom\n</parameter>\n"
    "<parameter=days>\n3\n</parameter>\n</function>\n</tool_call>",
}


@pytest.mark.parametrize("name", WRITTEN)
def test_a_call_is_read_as_the_model_writes_it(name: str) -> None:
    style = STYLE[name]
    text = "Let me look.\n" + WRITTEN[name]
    assert style.calls(text, {"weather": WEATHER}) == [("weather", ARGUMENTS)]
    assert style.content(text) == "Let me look."


@pytest.mark.parametrize("name", ["hermes", "appl", "coder"])
def test_several_calls_are_read_in_their_order(name: str) -> None:
    text = WRITTEN[name] + "\n" + WRITTEN[name].replace("Rom", "Bonn")
    found = STYLE[name].calls(text, {"weather": WEATHER})
    assert [given["city"] for _, given in found] == ["Rom", "Bonn"]


def test_several_calls_in_one_list() -> None:
    one = json.loads(WRITTEN["mistral"].removeprefix("[TOOL_CALLS]"))[0]
    assert len(STYLE["mistral"].calls(f"[TOOL_CALLS]{json.dumps([one, one])}", {})) == 2


def test_the_newer_way_of_mistral_names_the_tool_first() -> None:
    text = '[TOOL_CALLS]weather[ARGS]{"city": "Rom"}'
    assert STYLE["mistral"].calls(text, {}) == [("weather", {"city": "Rom"})]


def test_a_llama_may_leave_out_the_mark() -> None:
    text = '{"name": "weather", "parameters": {"city": "Rom"}}'
    assert STYLE["llama"].calls(text, {}) == [("weather", {"city": "Rom"})]
    assert STYLE["llama"].calls("no call {", {}) == []


@pytest.mark.parametrize(
    "text", ["plain text", "<tool_call>\n{\"name\": \"wea", "<tool_call>nothing", '<tool_call>{"a": 1}']
)  # fmt: skip
def test_what_cannot_be_read_as_a_call_stays_text(text: str) -> None:
    offer = offer_of(Sampling(tools=(json.dumps(WEATHER),)), STYLE["hermes"], b"", False)
    assert offer is not None
    assert offer.read(text, 0) == (text, ())


def test_the_style_is_the_one_of_the_template() -> None:
    def name(template: str) -> str | None:
        found: Style | None = style_of(template)
        return found.name if found is not None else None

    assert name("{{ tools }} <tool_call>") == "hermes"
    assert name("{{ tools }} <tool_call> <function=x>") == "coder"
    assert name("{{ tools }} [TOOL_CALLS]") == "mistral"
    assert name("{{ tools }} <|call|>") == "appl"
    assert name("{{ tools }} <|python_tag|>") == "llama"
    assert name("{{ messages }} <tool_call>") is None


@pytest.mark.parametrize("name", WRITTEN)
def test_an_answer_that_must_be_a_call_reads_as_one(name: str) -> None:
    sampling = Sampling(tools=(json.dumps(WEATHER),), tool_choice="required")
    offer = offer_of(sampling, STYLE[name], b"q", False)
    assert offer is not None and offer.must
    rest = WRITTEN[name].removeprefix("<|python_tag|>").removeprefix(offer.opening())
    text, (call,) = offer.read(offer.opening() + rest, 0)
    assert (text, call.name, json.loads(call.arguments)) == ("", "weather", ARGUMENTS)


def test_calls_get_ids_from_what_was_asked() -> None:
    sampling = Sampling(tools=(json.dumps(WEATHER),))
    ids = {
        offer.read(WRITTEN["hermes"], number)[1][0].id
        for content in (b"one", b"two")
        for number in (0, 1)
        if (offer := offer_of(sampling, STYLE["hermes"], content, False)) is not None
    }
    assert len(ids) == 4


def test_one_named_tool_is_the_only_one_offered() -> None:
    other = {**WEATHER, "name": "other"}
    tools = (json.dumps(WEATHER), json.dumps(other))
    offer = offer_of(Sampling(tools=tools, tool_choice="other"), STYLE["hermes"], b"", False)
    assert (
        offer is not None
        and '"other"' in str(offer.schema())
        and '"weather"' not in str(offer.schema())
    )


def test_what_cannot_be_offered_is_refused() -> None:
    tools = (json.dumps(WEATHER),)
    with pytest.raises(Unsupported, match="knows no tools"):
        offer_of(Sampling(tools=tools), None, b"", False)
    with pytest.raises(Unsupported, match="begun"):
        offer_of(Sampling(tools=tools, tool_choice="required"), STYLE["hermes"], b"", True)
    with pytest.raises(Unsupported, match="no tool here"):
        offer_of(Sampling(tools=tools, tool_choice="x"), STYLE["hermes"], b"", False)
    assert offer_of(Sampling(tools=tools, tool_choice="none"), None, b"", False) is None
