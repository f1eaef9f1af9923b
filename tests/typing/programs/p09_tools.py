"""Tools, and an agent that calls them."""

from __future__ import annotations

from typing import assert_type

from appl import Tool, as_tool, gen, gen_with_tools, ppl
from appl.prompt import ToolCall, ToolMessage


def search(query: str, limit: int = 3) -> list[str]:
    return [query] * limit


@ppl
def agent(task: str) -> str:
    f"{task}"
    return gen_with_tools(tools=[search], max_steps=5)


@ppl
def count(task: str) -> int:
    f"{task}"
    return gen_with_tools(tools=search, response_format=int)


answer = gen(tools=[search, as_tool(search)])
assert_type(answer.tool_calls, tuple[ToolCall, ...])
assert_type(answer.run_tool_calls(timeout=3), list[ToolMessage])
assert_type(as_tool(search), Tool)
assert_type(agent("x"), str)
assert_type(count("x"), int)
gen(tools=[5])  # type: ignore[list-item]
