"""Tools, calls, futures and messages as APPL 0.2 has them."""

from __future__ import annotations

import pickle
import warnings
from typing import Any

import pytest

from appl import CallFuture, UserMessage, as_tool, call, gen, ppl
from appl.errors import InvalidOption, UnknownOption
from appl.testing import Scripted, calling, running
from appl.types import ToolCall


@pytest.fixture(autouse=True)
def _quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def total(first: int, second: int = 2) -> int:
    """Add numbers.

    Both of them.

    Args:
        first: the first one

    Returns:
        the sum

    Raises:
        ValueError: never
    """
    return first + second


def test_a_future_is_called_for_its_value() -> None:
    with running(Scripted([])):
        future = CallFuture(total, 1, second=3, lazy_eval=True)
        assert future() == future.val == future.result() == 4
        assert isinstance(future, CallFuture) and isinstance(call(total, 1), CallFuture)
        assert call(lambda: total)(1) == 3


def test_a_tool_call_may_name_its_args() -> None:
    made = ToolCall(id="1", name="f", args="{}")
    assert made == ToolCall("1", "f", "{}") == ToolCall.from_dict(made.get_dict())
    assert pickle.loads(pickle.dumps(made)) == made and made.args == "{}"
    with pytest.raises(InvalidOption, match="takes arguments once"):
        ToolCall("1", "f", "{}", args="{}")
    with pytest.raises(InvalidOption, match="takes arguments once"):
        ToolCall("1", "f")


def test_a_message_knows_its_role_and_its_dict() -> None:
    message = UserMessage("hi")
    assert (message.is_user, message.is_ai, message.is_system, message.is_tool) == (
        True, False, False, False,
    )  # fmt: skip
    assert message.get_dict() == {"role": "user", "content": "hi"}


def test_the_message_of_an_answer_is_printed_as_its_text(capsys: Any) -> None:
    with running(Scripted(["hello"])):
        print(gen(messages="x").message)
    assert capsys.readouterr().out == "hello\n"


def test_a_tool_says_what_its_function_takes_and_returns() -> None:
    tool = as_tool(total, second=5)
    assert tool.params.model_json_schema()["properties"] == {
        "first": {"description": "the first one", "title": "First", "type": "integer"}
    }
    assert tool.returns(returns=3).returns == 3
    assert tool.raises == [{"type": "ValueError", "desc": "never"}]
    assert (tool.short_desc, tool.long_desc, tool.examples, tool.info) == (
        "Add numbers.", "Both of them.", [], {},
    )  # fmt: skip
    assert tool.to_str().startswith("def total(first: int, second: int = 2) -> int:\n")
    with pytest.raises(AttributeError, match="object has no attribute 'parms'"):
        tool.parms


def test_a_filter_over_the_list_chooses_the_calls() -> None:
    @ppl
    def program() -> Any:
        "go"
        answer = gen(tools=[total])
        return [m.content for m in answer.run_tool_calls(filter_fn=lambda calls: calls[1:])]

    calls = calling(("total", {"first": 1}), ("total", {"first": 2}))
    with running(Scripted([calls, calls])):
        assert program() == ["4"]
        answer = gen(messages="go", tools=[total])
        with pytest.raises(UnknownOption, match="no option 'filtr'; did you mean 'filter'"):
            answer.run_tool_calls(filtr=None)


def test_a_response_format_of_json_is_any_object() -> None:
    with running(Scripted(['{"a": 1}', '{"a": 2}'])):
        assert gen(messages="x", response_format="json") == {"a": 1}
        assert gen(messages="x", response_format={"type": "json_object"}) == {"a": 2}
