"""MCP servers as sources of tools: a real server process over standard input and output."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from appl import gen, gen_with_tools, mcp as appl_mcp, ppl
from appl.errors import RunError, ToolError, ToolServerError
from appl.testing import Echo, calling, running

from .support import again, recorded, script, texts, until_told

SERVER = Path(__file__).with_name("mcp_server.py")


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log.txt"


@pytest.fixture
def serve(log: Path) -> Any:
    def made(**options: Any) -> appl_mcp.MCPServer:
        return appl_mcp.stdio(sys.executable, [SERVER], env={"LOG": str(log)}, **options)

    return made


def started(log: Path) -> list[int]:
    """The ids of the servers that were started."""
    lines = log.read_text().splitlines() if log.exists() else []
    return [int(line.split()[1]) for line in lines if line.startswith("started ")]


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return sys.platform != "linux" or "Z" not in Path(f"/proc/{pid}/stat").read_text().split()


def test_a_server_lists_its_tools_and_answers_calls(serve, log):
    calls = [
        ("add", {"a": 1, "b": 2}),
        ("mirror", {"point": {"x": 1, "y": 2}}),
        ("dotted_name", {}),
        ("fail", {"why": "because"}),
        ("add", {"a": "x"}),
        ("add", {"a": 1, "c": 2}),
        ("picture", {}),
    ]
    with running(script(calling(*calls))), serve() as server:
        tool = server["add"]
        assert (tool.name, tool.description) == ("add", "Add two numbers.")
        assert {tool.effect for tool in server} == {"effect"}  # whatever the server says
        assert tool.parameters["properties"]["b"]["default"] == 1
        found = gen(messages="go", tools=[server]).run_tool_calls()
    assert texts(found)[:4] == [
        "3",
        '{\n  "x": 2,\n  "y": 1\n}',
        "dots",
        found[3].content,
    ]
    assert "because" in found[3].content
    assert [m.has_error for m in found] == [False, False, False, True, True, True, False]
    assert found[4].content == "add was not called: a: 'x' is not of type 'integer'"
    assert 'unknown argument "c"' in found[5].content
    assert [part.mime for part in found[6].parts if not isinstance(part, str)] == ["image/png"]
    (pid,) = started(log)
    assert not alive(pid)


async def test_in_a_coroutine_too(serve, log):
    with running(until_told(("add", {"a": 4}))):
        async with serve(prefix="my_") as server:
            assert [tool.name for tool in server.tools][:2] == ["my_add", "my_mirror"]
            (unknown,) = await gen(messages="go", tools=[server]).run_tool_calls()
            assert unknown.content.startswith('there is no tool "add" (there are: my_add, my_')
            plain = [tool.renamed(tool.name.removeprefix("my_")) for tool in server]
            assert await gen_with_tools(messages="go", tools=plain) == "done"
    assert [alive(pid) for pid in started(log)] == [False]


def test_a_replay_starts_no_server(serve, log, tmp_path):
    path = tmp_path / "a.trace"

    @ppl
    def f() -> Any:
        "go"
        with serve() as server:
            (answer := gen(tools=[server]))
            answer.run_tool_calls()
            return str(gen(tools=server.tools, tool_choice="none"))

    assert recorded(path, until_told(("log", {"line": "x"}), ("add", {"a": 1})), f) == "done"
    assert again(path, f) == "done"
    lines = log.read_text().splitlines()
    assert len(started(log)) == 1 and lines.count("x") == 1


def test_a_server_that_cannot_be_started_says_why(tmp_path):
    for command, args, why in (
        (str(tmp_path / "nothing"), [], "No such file"),
        (sys.executable, ["-c", "pass"], "losed"),
    ):
        refused = pytest.raises(ToolServerError, match=f"cannot be started: .*{why}")
        with running(Echo()), refused, appl_mcp.stdio(command, args):
            pass


def test_a_server_that_does_not_answer_is_given_up(log):
    code = "import os, sys; print('started', os.getpid(), file=open(sys.argv[1], 'w', 1)); sys.stdin.read()"
    mute = appl_mcp.stdio(sys.executable, ["-c", code, log], timeout=0.5)
    refused = pytest.raises(ToolServerError, match=r"cannot be started: no answer within 0\.5 s")
    with running(Echo()), refused, mute:
        pass
    assert not any(alive(pid) for pid in started(log))


def test_a_call_that_takes_too_long_is_answered_for_and_cancelled(serve, log):
    backend = script(*[calling(("hang", {}))] * 2, calling(("add", {"a": 1})))
    with running(backend), serve(call_timeout=3) as server:  # and enough for one that answers
        (late,) = gen(messages="go", tools=[server]).run_tool_calls()
        assert late.has_error
        assert late.content.startswith("hang failed: ToolServerError: the MCP server")
        (late,) = gen(messages="go", tools=[server]).run_tool_calls(timeout=0.1)
        assert late.content == "hang did not finish within 0.1 s"
        assert texts(gen(messages="go", tools=[server]).run_tool_calls()) == ["2"]
    assert not any(alive(pid) for pid in started(log))


def test_a_server_that_dies_fails_its_calls(serve, log):
    backend = script(calling(("die", {})), calling(("add", {"a": 1})))
    with running(backend), serve() as server:
        for name in ("die", "add"):
            (failed,) = gen(messages="go", tools=[server]).run_tool_calls()
            assert failed.has_error
            assert failed.content.startswith(f"{name} failed: ToolServerError: the MCP server")
    assert not any(alive(pid) for pid in started(log))


async def test_a_program_that_is_cancelled_takes_its_server_with_it(serve, log):
    called = asyncio.Event()

    async def main() -> None:
        async with serve() as server:
            answer = gen(messages="go", tools=[server])
            await answer
            called.set()
            await answer.run_tool_calls()

    with running(script(calling(("hang", {})))):
        task = asyncio.get_running_loop().create_task(main())
        await called.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert [alive(pid) for pid in started(log)] == [False]


def test_outside_of_its_block_a_server_has_no_tools(serve):
    server = serve()
    with pytest.raises(RunError, match="is not open: use it inside its block"):
        gen(messages="x", tools=[server])


async def test_the_block_of_a_coroutine_is_async(serve):
    with running(Echo()), pytest.raises(RunError, match="write `async with`"), serve():
        pass


@pytest.mark.parametrize("names", [("read.file", "read_file"), ("a" * 64 + "x", "a" * 64 + "y")])
def test_two_tools_whose_names_become_one_are_an_error(names: tuple[str, str]) -> None:
    """The second would stand for the first, whatever the user has seen of that."""
    library = pytest.importorskip("mcp.server.mcpserver")
    made = library.MCPServer("double")
    for name in names:
        made.tool(name=name)(lambda: 1)
    said = "two tools of the MCP server"
    with running(Echo()), pytest.raises(ToolError, match=said) as caught:
        appl_mcp.MCPServer(made, name="double").__enter__()
    assert all(repr(name) in str(caught.value) for name in names)
