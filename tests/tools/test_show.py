"""``appl trace show``: the tools that were called, between the calls of the models."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from appl import gen, ppl
from appl.cli import main
from appl.testing import calling

from .support import recorded, script


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@ppl
def program() -> Any:
    "1 + 2?"
    (answer := gen(tools=[add]))
    answer.run_tool_calls()
    return gen(tools=[add], tool_choice="none")


@pytest.fixture
def trace(tmp_path: Path) -> str:
    path = tmp_path / "a.trace"
    calls = calling(("add", {"a": 1, "b": 2}), ("add", {"a": "x\x1b[2J", "b": 2}))
    assert recorded(path, script(calls, "3"), program) == "3"
    return str(path)


def shown(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["trace", "show", *words]) == 0
    return capsys.readouterr().out


def test_a_run_shows_tools_in_their_places(trace: str, capsys: Any) -> None:
    out = shown(capsys, trace)
    assert "tools    2 called, 1 failed" in out
    rows = out[out.index("\n/") :].strip().splitlines()
    assert [row.split()[0] for row in rows] == ["/program.0", "gen.0", "add.0", "add.1", "gen.1"]
    rows = rows[1:]
    assert '[call call_0: add({"a": 1, "b": 2})]' in rows[0]
    assert rows[1].endswith('add({"a": 1, "b": 2}) -> 3')
    assert "-> failed: add was not called: a: Input should be a valid integer" in rows[2]
    assert "\x1b" not in out


def test_one_tool_call_is_shown_whole(trace: str, capsys: Any) -> None:
    out = shown(capsys, trace, "/program.0/add.0")
    assert "/program.0/add.0  answered" in out
    assert f"tool     add, effect, {__file__}:" in out
    assert '[arguments]\n{"a": 1, "b": 2}' in out
    assert "[tool, answers call_0]\n3" in out


def test_a_call_shows_the_tools_by_name_and_what_was_called(trace: str, capsys: Any) -> None:
    first = shown(capsys, trace, "/program.0/gen.0")
    assert 'tools=["add"]' in first
    assert '[answer: tool_calls]\n[call call_0: add({"a": 1, "b": 2})]' in first
    second = shown(capsys, trace, "/program.0/gen.1")
    assert 'tool_choice="none"' in second and "[tool, answers call_1, failed]" in second


def test_as_json(trace: str, capsys: Any) -> None:
    data = json.loads(shown(capsys, trace, "--json"))
    assert [used["address"] for used in data["tools"]] == ["/program.0/add.0", "/program.0/add.1"]
    one = json.loads(shown(capsys, trace, "/program.0/add.0", "--json"))
    assert (one["name"], one["effect"], one["outcome"]) == ("add", "effect", "answered")
    assert one["result"] == {"role": "tool", "content": "3", "tool_call_id": "call_0"}
    assert one["has_error"] is False
