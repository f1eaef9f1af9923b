"""Functions as MCP tools, asked by the official client."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import AsyncIterator

import httpx2
from mcp import Client, StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

from .conftest import PROGRAM, Home, Served


@contextlib.asynccontextmanager
async def on_stdio(home: Home) -> AsyncIterator[Client]:
    words = ["-m", "appl", "serve", str(PROGRAM), "--mcp", "--grace", "0.1"]
    command = StdioServerParameters(
        command=sys.executable, args=words, env=home.environment(), cwd=str(home.folder)
    )
    async with Client(stdio_client(command)) as client:
        yield client


@contextlib.asynccontextmanager
async def over_http(server: Served) -> AsyncIterator[Client]:
    async with httpx2.AsyncClient(headers=server.headers, timeout=60) as http:
        target = streamable_http_client(f"{server.url}/mcp", http_client=http)
        async with Client(target) as client:
            yield client


async def test_functions_are_tools_with_the_schemas_of_their_types(home: Home) -> None:
    async with on_stdio(home) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert {"ask", "plan", "appl_run"} <= tools.keys()
        assert tools["ask"].description == "Answer one question."
        assert tools["ask"].input_schema["required"] == ["question"]
        trip = {"city": "rome", "days": 2}
        found = await client.call_tool("plan", {"trip": trip, "by": 2})
        assert found.structured_content == {"city": "ROME", "days": 4}
        assert [found.meta["appl/run"]] == home.runs()
        wrong = await client.call_tool("plan", {"trip": {"city": "rome", "days": "many"}})
        assert wrong.is_error and "trip.days" in wrong.content[0].text


async def test_a_call_is_found_again_by_its_run_and_by_its_key_after_a_crash(home: Home) -> None:
    server, key = home.start("--mcp-http"), {"appl/key": "7"}
    home.model.holds = lambda question: True
    async with over_http(server) as client:
        with contextlib.suppress(Exception):
            await client.call_tool("ask", {"question": "q"}, 0.5, meta=key)
    home.model.until(1, "first q")
    server.kill()
    home.model.holds = lambda question: False
    async with over_http(home.start("--mcp-http")) as client:
        found = await client.call_tool("ask", {"question": "q"}, meta=key)
        assert found.structured_content == {"result": home.model.server.answer("first q")}
        (name,) = home.runs()
        again = await client.call_tool("appl_run", {"run": name})
        assert again.structured_content == found.structured_content
    assert home.model.paid == {"first q": 1}


async def test_a_tool_that_asks_a_person_says_so_and_names_its_run(home: Home) -> None:
    async with on_stdio(home) as client:
        found = await client.call_tool("refund", {"order": 3})
        assert found.is_error and "Refund order 3?" in found.content[0].text
        assert found.structured_content["run"] == found.meta["appl/run"]
