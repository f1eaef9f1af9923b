"""What type checkers know of tools; checked by mypy and pyright, never run."""

from __future__ import annotations

from typing import Any, assert_type

from appl import Generation, SchemaTool, Secret, Text, Tool, as_tool, gen, gen_with_tools, mcp, ppl
from appl.prompt import ToolCall, ToolMessage


def add(a: int, b: int = 1, *, key: str = "") -> int:
    return a + b


async def fetch(url: str) -> str:
    return url


SCHEMA: dict[str, Any] = {"name": "find", "parameters": {"type": "object"}}


@ppl
def conversation(question: str) -> Text:
    f"{question}"
    answer = gen(tools=[add, fetch, as_tool(add, key=Secret("hush-hush")), SchemaTool(SCHEMA)])
    assert_type(answer.tool_calls, tuple[ToolCall, ...])
    assert_type(answer.run_tool_calls(timeout=3), list[ToolMessage])
    assert_type(answer.run_tool_calls(lambda call: call.name == "add"), list[ToolMessage])
    return gen(tools=add, tool_choice=add).result()


def loops() -> None:
    assert_type(as_tool(add), Tool)
    assert_type(gen_with_tools(messages="x", tools=[add, SCHEMA]), Generation)
    assert_type(gen_with_tools(messages="x", tools=add, response_format=int).result(), int)
    with mcp.stdio("python", ["server.py"]) as server:
        assert_type(server.tools, list[Tool])
        assert_type(gen_with_tools(messages="x", tools=[server, add]), Generation)


def wrong() -> None:
    gen_with_tools(messages="x", tools=[5])  # type: ignore[list-item]
    gen_with_tools(messages="x", tools=add, on_limit="stop")  # type: ignore[call-overload]
