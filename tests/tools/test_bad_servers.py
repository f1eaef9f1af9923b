"""MCP servers that misbehave: each call and each start ends, and with an error that has a type.

Whether an end came at once or at the deadline is told by its words: no test looks at a clock.
"""

from __future__ import annotations

import asyncio
import base64
import json
import random
import sys
from pathlib import Path
from typing import Any

import pytest

from appl import gen, mcp as appl_mcp
from appl.errors import InvalidOption, ToolError, ToolServerError
from appl.prompt import ToolMessage
from appl.testing import Echo, Scripted, calling, running
from tests.drawn import counts

from .bad_server import PARAMETERS

SERVER = Path(__file__).with_name("bad_server.py")
NONE = "its answer is no message"


def serve(way: str = "well", **options: Any) -> appl_mcp.MCPServer:
    return appl_mcp.stdio(sys.executable, ["-S", SERVER, way], **options)


def asked(*ways: str) -> Scripted:
    return Scripted([calling(("act", {"way": way})) for way in ways])


def called(server: appl_mcp.MCPServer) -> ToolMessage:
    (found,) = gen(messages="go", tools=[server]).run_tool_calls()
    return found


def outcomes(server: appl_mcp.MCPServer, ways: Any) -> dict[str, ToolMessage]:
    """What each way of answering comes to, in one conversation with one server."""
    with running(asked(*ways)), server:
        return {way: called(server) for way in ways}


def test_what_is_odd_but_clear_is_an_answer() -> None:
    ways = ["well", "id as text", "carriage return", "twice", "remarks", "well", "progress", "well"]
    found = outcomes(serve(), [way for way in ways if way != "progress"])
    assert {message.content for message in found.values()} == {"well"}
    assert not any(message.has_error for message in found.values())


AT_ONCE = {
    "surrogate": NONE, "cut": NONE, "brackets": NONE, "digits": NONE, "bytes": NONE, "nul": NONE,
    "parts": f"{NONE}: it has more than 1000000 parts", "number": NONE, "list": NONE, "null": NONE,
    "long": f"{NONE}: it has more than 16 MiB", "no version": NONE, "version": NONE, "neither": NONE,
    "wrong id": "it answered with the id 10000", "text id": "it answered with the id 'other'",
    "error of text": NONE, "error without code": NONE, "long error": "no no no",
    "no content": "another form", "content of text": "another form",
    "strange block": "another form", "text of number": "another form", "many wrong": "another form",
    "image": "its image is none", "no image": "its image is none", "audio": "its audio is none",
    "half id": NONE, "batch": NONE,
    "structured": "does not fit its own schema", "evil": "does not fit its own schema",
}  # fmt: skip


def test_an_answer_that_is_none_ends_its_call_at_once_and_nothing_else() -> None:
    found = outcomes(serve(), [*AT_ONCE, "well"])
    assert found.pop("well").content == "well"
    for way, said in AT_ONCE.items():
        message = found[way]
        assert message.has_error and said in message.content, (way, message.content)
        assert "no answer within" not in message.content
        assert message.content.startswith("act failed: ToolServerError: the MCP server"), way
        assert len(message.content) < 3000 and message.content.isprintable(), way


@pytest.mark.long
def test_an_answer_of_200_mebibytes_ends_its_call_at_once() -> None:
    found = outcomes(serve(), ["very long", "well", "endless", "well"])
    assert "more than 16 MiB" in found["very long"].content
    assert "onnection closed" in found["endless"].content


def test_what_a_server_says_has_failed_is_an_error_of_the_tool() -> None:
    found = outcomes(serve(), ["failed", "blob"])
    assert found["failed"].has_error and not found["blob"].has_error
    assert "aGVsbG8=" in found["blob"].content


@pytest.mark.parametrize(
    "way", ["nothing", "null id", "progress", "asking", "noise", "endless line"]
)
def test_an_answer_that_does_not_come_ends_at_the_deadline(way: str) -> None:
    message = outcomes(serve(call_timeout=0.4), [way])[way]
    assert message.has_error and (
        "no answer within 0.4 s" in message.content or "closed" in message.content
    )


def test_an_answer_that_comes_too_late_is_nobodys() -> None:
    found = outcomes(serve(call_timeout=1), ["late", "well"])
    assert "no answer within 1 s" in found["late"].content
    assert found["well"].content == "well"


@pytest.mark.parametrize("way", ["dies", "closes"])
def test_a_server_that_goes_away_fails_this_call_and_the_next(way: str) -> None:
    found = outcomes(serve(), [way, "well"])
    assert all(
        message.has_error and "onnection closed" in message.content for message in found.values()
    )


def test_a_server_that_reads_no_more_holds_nobody() -> None:
    """Its pipe is full, and what comes after waits: the deadline holds for writing too."""
    with running(asked("deaf", "x" * (1 << 20))), serve(call_timeout=0.4) as server:
        for _ in range(2):
            assert "no answer within 0.4 s" in called(server).content


def test_calls_of_one_server_end_each_by_itself() -> None:
    ways = ["nothing", "surrogate", "well", "long error", "well"]
    answer = calling(*[("act", {"way": way}) for way in ways])
    with running(Scripted([answer])), serve(call_timeout=2) as server:
        found = gen(messages="go", tools=[server]).run_tool_calls(parallel=True)
    assert [message.has_error for message in found] == [True, True, False, True, False]
    assert NONE in found[1].content and "no answer within 2 s" in found[0].content


# -- starting

STARTS = {
    "no start": "no answer within", "start of surrogates": NONE, "start of text": "",
    "start of another version": "", "dies at start": "onnection closed",
    "endless pages": "more than 200 pages", "pages in a circle": "leads back to a page",
    "list of surrogates": NONE, "no list": "no answer within", "20000 tools": "more than 10000 tools",
    "no tools": "another form", "tools of text": "another form", "tool of text": "another form",
    "no name": "another form", "name of number": "another form", "schema of text": "another form",
    "no schema": "another form", "17 MiB": "more than 16 MiB", "cursor of number": "another form",
}  # fmt: skip


@pytest.mark.parametrize("way", STARTS)
def test_a_start_that_is_none_is_an_error(way: str) -> None:
    timeout = 0.5 if way in ("no start", "no list") else 60
    refused = pytest.raises(ToolServerError, match="cannot be started")
    with running(Echo()), refused as caught, serve(way, timeout=timeout):
        pass
    assert STARTS[way] in str(caught.value), str(caught.value)


@pytest.mark.parametrize("way", ["empty name", "reserved name", "two names"])
def test_a_name_that_no_tool_can_have_is_an_error(way: str) -> None:
    with running(Echo()), pytest.raises(ToolError), serve(way):
        pass


@pytest.mark.parametrize("way", ["banner", "long description", "well"])
def test_a_start_that_is_only_odd_is_one(way: str, capsys: pytest.CaptureFixture[str]) -> None:
    with running(asked("well")), serve(way) as server:
        assert len(server) == 1
    assert len(capsys.readouterr().err) < 500


def test_thousands_of_tools_are_read_without_reading_their_schemas(
    capsys: pytest.CaptureFixture[str],
) -> None:
    answer = calling(("t8999", {"a": "b"}), ("t8999", {"a": "aa"}))
    with running(Scripted([answer])), serve("9000 tools", timeout=60) as server:
        assert len(server) == 9000
        found = gen(messages="go", tools=[server["t8999"]]).run_tool_calls()
    assert "does not match" in found[0].content and found[1].content == '{"a": "aa"}'
    assert "and 8980 more" in capsys.readouterr().err


def test_a_server_that_will_not_end_is_ended() -> None:
    with running(asked("well")), serve("stays") as server:
        assert called(server).content == "well"


# -- schemas

PARTS = {
    "remote": "the reference 'http://127.0.0.1:9/schema'", "file": "the reference 'file:///etc/passwd'",
    "nowhere": "the reference '#/$defs/none'", "text": "the reference '#/description'",
    "lookahead": "the pattern '^(?=.*x)'", "names": "the pattern '^(?=x)'", "wrong": "'type'",
    "tuple": "'items'", "large": "a schema of more than 256 KiB",
}  # fmt: skip


def test_a_schema_that_cannot_be_checked_whole_is_checked_where_it_can(
    capsys: pytest.CaptureFixture[str],
) -> None:
    kinds = [kind for kind in PARAMETERS if kind != "doubling"]
    wrong: dict[str, Any] = {kind: {"n": "text"} for kind in kinds}
    good: dict[str, Any] = {
        kind: {"n": 1, "a": ["x"]} for kind in kinds if kind not in ("plain", "names")
    }
    script = [calling(*each.items()) for each in (wrong, good, good)]
    with running(Scripted(script)), serve("schemas") as server:
        found = gen(messages="go", tools=[server]).run_tool_calls()
        for kind, message in zip(kinds, found, strict=True):
            assert message.has_error or kind == "large", kind
            assert "n: 'text' is not of type 'integer'" in message.content or kind == "large"
        for _ in range(2):
            found = gen(messages="go", tools=[server]).run_tool_calls()
            assert [json.loads(message.content) for message in found] == [*good.values()]
    err = capsys.readouterr().err
    for kind, part in PARTS.items():
        assert err.count(f"the arguments of {kind} are not checked here against {part}") == 1, (
            kind,
            err,
        )
    assert "arguments of plain" not in err


def test_alternatives_that_hold_themselves_take_no_exponential_time() -> None:
    value: Any = {"k": 3}
    for _ in range(60):
        value = {"l": value, "k": 2}
    with (
        running(Scripted([calling(("doubling", {"n": 1, "a": value}))])),
        serve("schemas") as server,
    ):
        assert called(server).content.startswith("doubling was not called: a: ")


# -- effects


def test_what_a_server_says_of_effects_is_not_believed_and_what_the_user_says_is() -> None:
    for options, effect in (
        ({}, "effect"), ({"pure": ["act"]}, "pure"), ({"idempotent": True}, "idempotent"),
        ({"pure": True, "idempotent": ["act"]}, "pure"), ({"pure": False}, "effect"),
    ):  # fmt: skip
        with running(Echo()), serve(**options) as server:
            assert server["act"].effect == effect


def test_a_name_that_is_no_tool_or_no_name_is_refused() -> None:
    with (
        running(Echo()),
        pytest.raises(InvalidOption, match="did you mean 'act'"),
        serve(pure=["atc"]),
    ):
        pass
    for wrong in ("act", 1, [2]):
        with pytest.raises(InvalidOption, match="takes True, or a list of names"):
            serve(pure=wrong)


# -- over HTTP


class Http:
    """A server over HTTP, of which every answer is written by hand."""

    def __init__(self, way: str) -> None:
        self._way, self.port = way, 0

    async def __aenter__(self) -> str:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        port = self._server.sockets[0].getsockname()[1]
        return f"http://127.0.0.1:{port}/mcp"

    async def __aexit__(self, *error: object) -> None:
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                sizes = [
                    line
                    for line in head.lower().split(b"\r\n")
                    if line.startswith(b"content-length")
                ]
                body = await reader.readexactly(int(sizes[0].split(b":")[1])) if sizes else b"{}"
                await self._answer(json.loads(body), writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    async def _answer(self, asked: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        number, method = asked.get("id"), asked.get("method")
        result: Any = {"tools": [{"name": "act", "inputSchema": {"type": "object"}}]}
        if method == "initialize":
            result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                      "serverInfo": {"name": "bad", "version": "1"}}  # fmt: skip
        elif method == "tools/call":
            writer.write(HTTP[self._way].replace(b"ID", str(number).encode()))
            if self._way in CLOSING:
                writer.close()
            await writer.drain()
            return
        body = json.dumps({"jsonrpc": "2.0", "id": number, "result": result}).encode()
        if method == "server/discover":
            body = json.dumps(
                {"jsonrpc": "2.0", "id": number, "error": {"code": -32601, "message": "no"}}
            ).encode()
        status = b"202 Accepted" if number is None else b"200 OK"
        writer.write(http(b"" if number is None else body, status=status))
        await writer.drain()


def http(
    body: bytes, kind: bytes = b"application/json", status: bytes = b"200 OK", more: bytes = b""
) -> bytes:
    size = b"content-length: %d\r\n" % len(body.replace(b"ID", b"9"))
    return b"HTTP/1.1 %b\r\ncontent-type: %b\r\n%b%b\r\n%b" % (status, kind, size, more, body)


SSE = b"text/event-stream"
GOOD = b'{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"well"}]}}'
SAID = b'{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"%b"}]}}'
HTTP = {
    "well": http(GOOD),
    "events": http(b"data: " + GOOD + b"\n\n", SSE),
    "surrogate": http(SAID % b"\\ud800"),
    "surrogate event": http(b"data: " + SAID % b"\\ud800" + b"\n\n", SSE),
    "wrong id": http(GOOD.replace(b"ID", b"77777")),
    "long": http(SAID % (b"x" * (17 << 20))),
    "long event": http(b"data: " + SAID % (b"x" * (17 << 20)) + b"\n\n", SSE),
    "page": http(b"<html>", b"text/html"),
    "busy": http(b"busy", b"text/plain", b"503 Busy"),
    "gone": http(b"", b"text/plain", b"404 Gone"),
    "accepted": http(b"", status=b"202 Accepted"),
    "elsewhere": http(b"", status=b"307 Go", more=b"location: http://127.0.0.1:9/\r\n"),
    "compressed": http(b"\x1f\x8b", more=b"content-encoding: gzip\r\n"),
    "brackets": http(b"[" * 3000),
    "empty": http(b""),
    "no events": http(b": hello\n\n", SSE),
    "cut": b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 500\r\n\r\n{",
    "no http": b"hello\r\n\r\n",
    "nothing": b"",
    "slow": b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 500\r\n\r\n{",
}
CLOSING = {"no events", "cut", "no http"}
LATE = {"nothing", "slow"}


@pytest.mark.parametrize("way", HTTP)
async def test_over_http_each_call_ends_too(way: str, capfd: pytest.CaptureFixture[str]) -> None:
    async with Http(way) as url:
        server = appl_mcp.MCPServer(url, call_timeout=0.5 if way in LATE else 60)
        with running(Scripted([calling(("act", {}))])):
            async with server:
                (found,) = await gen(messages="go", tools=[server]).run_tool_calls()
    if way in ("well", "events"):
        assert found.content == "well"
    else:
        assert found.has_error and "ToolServerError" in found.content
        assert ("no answer within" in found.content) == (way in LATE), found.content
    assert len(capfd.readouterr().err.splitlines()) == 2  # what it offers


async def test_the_address_of_a_server_is_shown_without_its_secrets() -> None:
    async with Http("well") as url:
        secret = url.replace("//", "//user:hush@") + "?key=hush"
        server = appl_mcp.MCPServer(secret)
        assert "hush" not in server.name
    with running(Echo()), pytest.raises(ToolServerError) as caught:
        async with server:
            pass
    assert "hush" not in str(caught.value)


# -- drawn from a seed

WELL = b'{"jsonrpc": "2.0", "id": ID, "result": {"content": [{"type": "text", "text": "a"}]}}'
PIECES = [
    b"", b"\\ud800", b"9" * 5000, b"[" * 300, b"null", b"{}", b"[]", b'"', b"\0", b"\xff", b"1e999",
    b"-1", b"ID", b'"id": ID', b",", b'"result"', b"NaN", b"true", b"\n", b"\xef\xbb\xbf", b" " * 9000,
]  # fmt: skip


def damaged(dice: random.Random) -> bytes:
    """A good answer, of which parts are replaced, cut, doubled or put elsewhere."""
    data = WELL
    for _ in range(dice.choice([1, 1, 2, 4])):
        start, end = sorted(dice.randrange(len(data) + 1) for _ in range(2))
        if dice.random() < 0.5:
            end = min(end, start + dice.randrange(12))
        data = data[:start] + dice.choice([*PIECES, data[start:end] * 2]) + data[end:]
    return data + b"\n"


@counts(1, 60, "rounds")
def test_drawn_damage_to_answers_ends_each_call(rounds: int) -> None:
    dice = random.Random(11)
    for _ in range(rounds):
        ways = ["raw " + base64.b64encode(damaged(dice)).decode() for _ in range(100)]
        script = [
            calling(*[("act", {"way": way}) for way in ways]),
            calling(("act", {"way": "well"})),
        ]
        with running(Scripted(script)), serve(call_timeout=1) as server:
            found = gen(messages="go", tools=[server]).run_tool_calls(parallel=True)
            assert len(found) == 100 and called(server).content == "well"
        failed = [message.content for message in found if message.has_error]
        assert len(failed) > 50 and all("ToolServerError" in said for said in failed)
