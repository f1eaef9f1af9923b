"""An MCP server that does wrong what it is told to do wrong; run as a script: ``bad_server.py WAY``.

It speaks by hand, so that it can say what no library would. ``WAY`` is how it starts and lists its
tools; the tool ``act`` is called with the way in which it answers.
"""

from __future__ import annotations

import base64
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

OUT = sys.stdout.buffer
EVIL = "^(a+)+$"
DEEP: Any = {"$ref": "#/$defs/x"}
PARAMETERS: dict[str, Any] = {
    "plain": {"properties": {"way": {"type": "string"}}},
    "remote": {"properties": {"a": {"$ref": "http://127.0.0.1:9/schema"}}},
    "file": {"properties": {"a": {"$ref": "file:///etc/passwd"}}},
    "nowhere": {"properties": {"a": {"$ref": "#/$defs/none"}}},
    "text": {"description": "x", "properties": {"a": {"$ref": "#/description"}}},
    "lookahead": {"properties": {"a": {"pattern": "^(?=.*x)"}}},
    "names": {"patternProperties": {"^(?=x)": {}}, "additionalProperties": False},
    "wrong": {"properties": {"a": {"type": "words", "minLength": "many"}}},
    "tuple": {"properties": {"a": {"items": [{"type": "string"}]}}},
    "large": {"properties": {"a": {"enum": ["x" * 1000] * 300}}},
    "doubling": {
        "properties": {"a": {"$ref": "#/$defs/x"}},
        "$defs": {"x": {"anyOf": [
            {"properties": {"l": DEEP, "k": {"const": 1}}, "required": ["k"]},
            {"properties": {"l": DEEP, "k": {"const": 2}}, "required": ["k"]},
        ]}},
    },
}  # fmt: skip


def send(data: bytes) -> None:
    OUT.write(data)
    OUT.flush()


def say(message: Any) -> None:
    send(json.dumps(message).encode() + b"\n")


def answer(number: Any, result: Any) -> None:
    say({"jsonrpc": "2.0", "id": number, "result": result})


def content(*blocks: Any, **more: Any) -> dict[str, Any]:
    return {"content": list(blocks), "isError": False, **more}


def text(said: Any) -> dict[str, Any]:
    return content({"type": "text", "text": said})


def tool(name: str, schema: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "description": "", "inputSchema": schema, **more}


def parameters(kind: str) -> dict[str, Any]:
    needs = {"n": {"type": "integer"}}
    schema = PARAMETERS[kind]
    properties = {**schema.get("properties", {}), **needs}
    return {"type": "object", **schema, "properties": properties, "required": ["n"]}


# -- ways to answer a call; each gets the id, and its head as JSON

Way = Callable[[Any], None]
HEAD = b'{"jsonrpc":"2.0","id":%d,"result":'


def raw(body: bytes, end: bytes = b"}\n") -> Way:
    return lambda number: send(HEAD % number + body + end)


def block(**block: Any) -> Way:
    return lambda number: answer(number, content(block))


def pouring(data: bytes, times: int) -> Way:
    def act(_: Any) -> None:
        for _ in range(times):
            send(data)

    return act


def late(number: Any) -> None:
    time.sleep(1.5)
    answer(number, text("late"))


def closed(_: Any) -> None:
    OUT.close()
    os.close(1)
    time.sleep(600)


def twice(number: Any) -> None:
    answer(number, text("well"))
    answer(number, text("again"))


def remarks(number: Any) -> None:
    send(b"now\n\n{\n")
    say({"level": "info"})
    answer(number, text("well"))


def progress(number: Any) -> None:
    for step in range(2000):
        told = {"progressToken": number, "progress": step}
        say({"jsonrpc": "2.0", "method": "notifications/progress", "params": told})
        say({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "\x1b[2J"}})


def asking(_: Any) -> None:
    for number in range(2000):
        say({"jsonrpc": "2.0", "id": f"s{number}", "method": "sampling/createMessage",
             "params": {"messages": [], "maxTokens": 1}})  # fmt: skip


WAYS: dict[str, Way] = {
    "well": lambda number: answer(number, text("well")),
    "id as text": lambda number: answer(str(number), text("well")),
    "carriage return": lambda number: send(HEAD % number + json.dumps(text("well")).encode() + b"}\r\n"),
    "twice": twice,
    "remarks": remarks,
    "surrogate": raw(b'{"content":[{"type":"text","text":"\\ud800"}],"isError":false}'),
    "cut": raw(b'{"content":[', b"\n"),
    "brackets": raw(b"[" * 3000, b"\n"),
    "digits": raw(b'{"content":[],"structuredContent":{"n":' + b"9" * 5000 + b"}}"),
    "bytes": raw(b'{"content":"\xff\xfe"}'),
    "nul": raw(b'{"content":"\0"}'),
    "parts": lambda number: answer(number, {"content": [[]] * 1_000_000}),
    "number": raw(b"5"),
    "list": raw(b"[]"),
    "null": raw(b"null"),
    "long": lambda number: answer(number, text("x" * (17 << 20))),
    "very long": lambda number: answer(number, text("x" * (200 << 20))),
    "no version": lambda number: say({"id": number, "result": text("x")}),
    "version": lambda number: say({"jsonrpc": "1.0", "id": number, "result": text("x")}),
    "neither": lambda number: say({"jsonrpc": "2.0", "id": number}),
    "wrong id": lambda number: answer(number + 1_000_000, text("x")),
    "text id": lambda number: answer("other", text("x")),
    "error of text": lambda number: say({"jsonrpc": "2.0", "id": number, "error": "no"}),
    "error without code": lambda number: say({"jsonrpc": "2.0", "id": number, "error": {"message": "no"}}),
    "long error": lambda number: say(
        {"jsonrpc": "2.0", "id": number, "error": {"code": 1, "message": "\x1b[2J" + "no " * 400_000}}),
    "no content": lambda number: answer(number, {}),
    "content of text": lambda number: answer(number, {"content": "text"}),
    "strange block": block(type="hologram", data="x"),
    "text of number": block(type="text", text=5),
    "many wrong": lambda number: answer(number, {"content": [{"type": "x"}] * 50_000}),
    "image": block(type="image", data="!!!", mimeType="image/png"),
    "no image": block(type="image", data="aGVsbG8=", mimeType=""),
    "audio": block(type="audio", data="aGVsbG8=", mimeType="image/png"),
    "blob": block(type="resource", resource={"uri": "file:///x", "blob": "aGVsbG8="}),
    "failed": lambda number: answer(number, {"content": [], "isError": True}),
    "structured": lambda number: answer(number, content(structuredContent={"s": 5})),
    "evil": lambda number: answer(number, content(structuredContent={"s": "a" * 40 + "!"})),
    "batch": lambda number: say([{"jsonrpc": "2.0", "id": number, "result": text("x")}]),
    "null id": lambda number: answer(None, text("x")),
    "half id": lambda number: answer(number + 0.5, text("x")),
    "nothing": lambda number: None,
    "late": late,
    "progress": progress,
    "asking": asking,
    "noise": pouring(b"noise\n" * 1000, 1000),
    "endless line": pouring(b"x" * 65_536, 500),
    "endless": pouring(b"x" * 65_536, 5_000),
    "deaf": lambda number: time.sleep(600),
    "dies": lambda number: os._exit(3),
    "closes": closed,
}  # fmt: skip


# -- ways to start, and to list tools


def usual(way: str) -> list[dict[str, Any]]:
    act = tool("act", {"type": "object", "properties": {"way": {"type": "string"}}})
    act["outputSchema"] = {
        "type": "object", "properties": {"s": {"type": "string", "pattern": EVIL}}
    }  # fmt: skip
    act["annotations"] = {"readOnlyHint": True, "idempotentHint": True}
    return [act]


def many(count: int) -> list[dict[str, Any]]:
    schema = {"type": "object", "properties": {"a": {"type": "string", "pattern": "^a+$"}}}
    return [tool(f"t{number}", schema) for number in range(count)]


LISTS: dict[str, Callable[[], Any]] = {
    "20000 tools": lambda: {"tools": many(20_000)},
    "9000 tools": lambda: {"tools": many(9_000)},
    "no tools": lambda: {},
    "tools of text": lambda: {"tools": "tools"},
    "tool of text": lambda: {"tools": ["tool"]},
    "no name": lambda: {"tools": [{"inputSchema": {"type": "object"}}]},
    "name of number": lambda: {"tools": [tool(5, {"type": "object"})]},  # type: ignore[arg-type]
    "schema of text": lambda: {"tools": [tool("x", "object")]},
    "no schema": lambda: {"tools": [{"name": "x"}]},
    "empty name": lambda: {"tools": [tool("", {"type": "object"})]},
    "reserved name": lambda: {"tools": [tool("auto", {"type": "object"})]},
    "two names": lambda: {"tools": [tool("a.b", {"type": "object"}), tool("a_b", {"type": "object"})]},
    "17 MiB": lambda: {"tools": [tool("x", {"type": "object", "description": "x" * (17 << 20)})]},
    "long description": lambda: {"tools": [
        tool("x", {"type": "object"}, description="\x1b[2J" + "x" * 100_000)]},
    "cursor of number": lambda: {"tools": [], "nextCursor": 5},
    "schemas": lambda: {"tools": [tool(kind, parameters(kind)) for kind in PARAMETERS]},
}  # fmt: skip
SURROGATE = b'{"jsonrpc":"2.0","id":%d,"result":{"x":"\\ud800"}}\n'


def listed(way: str, number: int, cursor: str | None) -> None:
    at = int(cursor or 0)
    if way == "endless pages":
        answer(number, {"tools": many(1), "nextCursor": str(at + 1)})
    elif way == "pages in a circle":
        answer(number, {"tools": many(1), "nextCursor": str((at + 1) % 3)})
    elif way == "list of surrogates":
        send(SURROGATE % number)
    elif way == "no list":
        return
    elif way in LISTS:
        answer(number, LISTS[way]())
    else:
        answer(number, {"tools": usual(way)})


def initialized(way: str, number: int) -> None:
    info = {"capabilities": {"tools": {}}, "serverInfo": {"name": "bad", "version": "1"}}
    if way == "start of surrogates":
        send(SURROGATE % number)
    elif way == "start of another version":
        answer(number, {"protocolVersion": "1999-01-01", **info})
    elif way == "start of text":
        answer(number, "hello")
    elif way == "dies at start":
        sys.exit(1)
    elif way != "no start":
        answer(number, {"protocolVersion": "2025-06-18", **info})


def acted(way: str, number: Any) -> None:
    if way.startswith("raw "):
        send(base64.b64decode(way[4:]).replace(b"ID", b"%d" % number))
    else:
        WAYS[way](number)


def handled(way: str, message: dict[str, Any]) -> None:
    number, method = message.get("id"), message.get("method")
    params = message.get("params", {})
    if method == "initialize":
        initialized(way, int(number or 0))
    elif method == "tools/list":
        listed(way, int(number or 0), params.get("cursor"))
    elif method == "tools/call" and params["name"] == "act":
        acted(params["arguments"]["way"], number)
    elif method == "tools/call":
        answer(number, text(json.dumps(params["arguments"])))
    elif method == "server/discover":
        say({"jsonrpc": "2.0", "id": number, "error": {"code": -32601, "message": "unknown"}})


def main(way: str) -> None:
    if way == "stays":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if way == "banner":
        send(b"Server version 1.0\n{not json\n\xff\xfe\n")
    for line in sys.stdin:
        handled(way, json.loads(line))
    if way == "stays":
        time.sleep(600)


if __name__ == "__main__":
    main(sys.argv[1])
