from __future__ import annotations

import json
from pathlib import Path

import pytest

from appl.errors import ConfigError, Unsupported
from appl.prompt import Message, ToolCall
from appl_backends.sglang.template import (
    ChatTemplate,
    as_data,
    conversations,
    layout_of,
    load_template,
    tools_as_data,
)
from tests.sglang import templates

TOKENS = {"bos_token": "<s>", "eos_token": "</s>"}


@pytest.mark.parametrize(
    "source", [templates.CHATML, templates.DEFAULT_SYSTEM, templates.TRIMMED, templates.FORGETFUL]
)
def test_a_layout_writes_what_the_template_renders(source: str) -> None:
    template = ChatTemplate(source, TOKENS)
    layout = layout_of(template)
    assert layout is not None
    for messages in conversations():
        assert layout.text(messages) == template.render([each.as_dict() for each in messages])


def test_roles_whose_text_is_trimmed_are_found() -> None:
    layout = layout_of(ChatTemplate(templates.TRIMMED, TOKENS))
    assert layout is not None and layout.trimmed == {"system", "user", "assistant"}


@pytest.mark.parametrize("source", [templates.NO_SYSTEM, templates.COUNTING, templates.THINKING])
def test_a_template_that_looks_at_more_than_two_messages_has_no_layout(source: str) -> None:
    assert layout_of(ChatTemplate(source, TOKENS)) is None


def test_a_message_that_the_template_would_change_does_not_fit() -> None:
    layout = layout_of(ChatTemplate(templates.FORGETFUL, TOKENS))
    assert layout is not None
    assert layout.written(Message("assistant", "4")) == "4"
    assert layout.written(Message("assistant", "<think>2+2</think>4")) is None
    assert layout.written(Message("user", " ")) is None
    assert layout.written(Message("user", "x", name="Eve")) is None


def test_what_the_template_refuses_is_said_in_its_words() -> None:
    template = ChatTemplate(templates.NO_SYSTEM, TOKENS)
    with pytest.raises(Unsupported, match="no system role"):
        template.render([{"role": "system", "content": "x"}])


def test_a_template_cannot_reach_out_of_its_sandbox() -> None:
    template = ChatTemplate("{{ messages.__class__.__base__.__subclasses__() }}", {})
    with pytest.raises(Unsupported):
        template.render([])


def test_arguments_of_calls_and_schemas_of_tools_are_data() -> None:
    said = as_data(Message("assistant", "", tool_calls=(ToolCall("1", "f", '{"a": 1}'),)))
    assert said["tool_calls"][0]["function"]["arguments"] == {"a": 1}
    assert tools_as_data(['{"name":"f"}']) == [{"type": "function", "function": {"name": "f"}}]


def test_json_in_a_template_is_written_as_it_is() -> None:
    template = ChatTemplate("{{ tools | tojson }}", {})
    assert template.render([], tools=[{"a": "<ü>"}]) == '[{"a": "<ü>"}]'


def _folder(path: Path, **config: object) -> Path:
    (path / "tokenizer_config.json").write_text(json.dumps(config))
    return path


def test_the_template_is_found_where_models_keep_it(tmp_path: Path) -> None:
    folder = _folder(tmp_path, chat_template="inline", eos_token={"content": "</s>"})
    assert load_template(folder).source == "inline"
    assert load_template(folder).tokens == {"eos_token": "</s>"}
    (tmp_path / "chat_template.jinja").write_text("of the file")
    assert load_template(folder).source == "of the file"


def test_of_several_templates_the_one_for_tools_is_used_with_tools(tmp_path: Path) -> None:
    named = [{"name": "default", "template": "d"}, {"name": "tool_use", "template": "t"}]
    template = load_template(_folder(tmp_path, chat_template=named))
    assert (template.render([]), template.render([], tools=[{}])) == ("d", "t")


def test_a_model_without_a_template_needs_one(tmp_path: Path) -> None:
    folder = _folder(tmp_path)
    with pytest.raises(ConfigError, match='template="plain"'):
        load_template(folder)
    plain = load_template(folder, "plain")
    assert plain.render([{"role": "user", "content": "Once upon"}]) == "Once upon"
    with pytest.raises(ConfigError, match="neither"):
        load_template(folder, "nowhere.jinja")
