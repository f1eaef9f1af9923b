"""Hostile servers: whatever one answers, a call has an answer or a typed error, and nothing else.

The parsing of OpenAI's answers, whole and streamed, and of HTTP errors is fed bytes in this process;
SGLang's client, its probe and litellm are asked over real sockets. Redirects, silence and long
bodies go over sockets with every client.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import re
import socket
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from appl import gen, ppl
from appl.backend import Chunk, Request, Response, Sample, Usage
from appl.backend.check import check_response, checked
from appl.backend.http import errors_of_http
from appl.errors import BackendError, BackendRefused, BackendTimeout, MalformedResponse
from appl.testing import Fake, Fault, Policy, Retries, running
from appl_backends.anthropic.answer import BlocksAssembly, BlocksReader
from appl_backends.embedded import WEIGHTS
from appl_backends.http.events import EventParser
from appl_backends.openai import OpenAI
from appl_backends.openai.answer import ChatReader, json_in
from appl_backends.openai.responses.answer import ItemsAssembly, ItemsReader
from appl_backends.openai.streamed import Assembly
from appl_backends.sglang import SGLang
from appl_backends.sglang.probe import probe, tokens_of
from appl_backends.sglang.wire import Wire
from tests.drawn import counts
from tests.faults.storm import CLIENTS
from tests.providers.asking import JSON, KEY, STREAM, closing, request
from tests.servers.mutations import damaged, mutated, written
from tests.servers.right import (
    CHAT,
    EVENTS,
    FACTS,
    MESSAGE,
    MESSAGE_EVENTS,
    NATIVE,
    RESPONSE,
    RESPONSE_EVENTS,
    sse,
)  # fmt: skip
from tests.wire.servers import FaultServer

HEADERS = (
    {}, {"Retry-After": "9" * 400}, {"Retry-After": "-1"}, {"Retry-After": "nan"},
    {"Retry-After": "Mon, 99999999999999999999 Jan 2000 00:00:00 GMT"}, {"Retry-After": "1e999"},
    {"x-ratelimit-reset": "9" * 500 + "s"}, {"Location": "http://u:p@[::bad/?k=v"},
    {"retry-after-ms": "x"}, {"Content-Type": "text/html"},
)  # fmt: skip
CANARY = "cccc-canary-0123456789"
counted = {"parsed": 0, "socket": 0}


def verdict(made: Callable[[], Response], asked: Request) -> str:
    """What came of one answer: ``ok``, or the name of a typed error."""
    counted["parsed"] += 1
    try:
        check_response(made(), "server")
    except BackendError as error:
        return type(error).__name__
    return "ok"


READERS: dict[str, tuple[Any, Any, Any, Any]] = {
    "chat": (ChatReader, Assembly, CHAT, EVENTS),
    "responses": (ItemsReader, ItemsAssembly, RESPONSE, RESPONSE_EVENTS),
    "messages": (BlocksReader, BlocksAssembly, MESSAGE, MESSAGE_EVENTS),
}
"""What reads the answers of an interface, whole and streamed, and a right one of both kinds."""


def streamed(kind: str, events: bytes, asked: Request) -> Response:
    """The answer in the bytes of a stream, cut into pieces."""
    reader, assembled, *_ = READERS[kind]
    chunks: list[Chunk] = []
    found, assembly = EventParser("server"), assembled(reader(asked, "server"), chunks.append)
    for at in range(0, len(events), 1 << 16):
        if any([assembly.take(event) for event in found.feed(events[at : at + (1 << 16)])]):
            break
    return assembly.response()  # type: ignore[no-any-return]


def streams_with_one_wrong_event(events: tuple[Any, ...]) -> Iterator[bytes]:
    """The stream of *events*, of which one event is wrong in one way."""
    right = [written(event) for event in events]
    for number, event in enumerate(events):
        for wrong in mutated(event):
            yield sse([*right[:number], wrong, *right[number + 1 :]])


def parsed(kind: str, size: int) -> int:
    """Feed a client's parsing of bytes with all mutations and *size* damaged answers each."""
    before, asked, seen = counted["parsed"], request("q", tools=("{}",)), set()
    reader, _, whole, right = READERS[kind]
    for body in (*mutated(whole), *damaged(written(whole), 1, size)):
        seen.add(
            verdict(
                lambda body=body: reader(asked, "server").response(json_in(body, "server")), asked
            )
        )
    events = sse([written(event) for event in right])
    for body in (*streams_with_one_wrong_event(right), *damaged(events, 2, size)):
        seen.add(verdict(lambda body=body: streamed(kind, body, asked), asked))
    assert {"ok", "MalformedResponse"} <= seen
    return counted["parsed"] - before


def errors(bodies: tuple[bytes, ...]) -> int:
    """Make errors of all statuses, with hostile headers; how many."""
    number = 0
    for status in range(300, 600):
        for headers in HEADERS:
            body = bodies[number % len(bodies)]
            error = errors_of_http(status, headers, body, "server", secrets=(CANARY,))
            assert isinstance(error, BackendError) and CANARY not in str(error)
            number += 1
    return number


@pytest.mark.parametrize("kind", READERS)
@counts(500, 8_000)
def test_bytes_of_hostile_servers_are_answers_or_typed_errors(kind: str, count: int) -> None:
    bodies = (b"", b"[" * 50_000, CANARY.encode(), b'{"error": {"code": "\xb2", "message": {}}}')
    total = parsed(kind, count) + errors(bodies)
    assert total >= 4_000 + 2 * count, total


def test_an_answer_that_is_nested_deeply_is_malformed() -> None:
    for depth in (101, 5_000, 50_000):
        body = b'{"choices": ' + b"[" * depth + b"]" * depth + b"}"
        assert (
            verdict(
                lambda body=body: ChatReader(request("q"), "x").response(json_in(body, "x")),
                request("q"),
            )
            == "MalformedResponse"
        )


@pytest.mark.long
@pytest.mark.parametrize("kind", READERS)
def test_many_more_bytes_of_hostile_servers(kind: str) -> None:
    assert parsed(kind, 100_000) >= 200_000


async def outcomes(client: str, faults: list[Fault], stream: bool) -> list[str]:
    """What comes of each fault, asked over a socket."""
    model = "openai/fault" if client == "litellm" else "fault"
    asked, found = request("q", model=model), []
    with FaultServer(faults, model_path=str(WEIGHTS)) as server:
        async with closing(CLIENTS[client](server)) as backend:
            for _ in faults:
                try:
                    emit = (lambda chunk: None) if stream else None
                    check_response(await backend.complete(asked, emit), "server")
                    found.append("ok")
                except BackendError as error:
                    found.append(type(error).__name__)
    counted["socket"] += len(found)
    return found


def wholes(bodies: Iterator[bytes]) -> list[Fault]:
    return [Fault("wrong", 200, JSON, body) for body in bodies]


async def test_sglang_answers_over_a_socket_are_typed() -> None:
    found = await outcomes("sglang", wholes(mutated(NATIVE)), False)
    found += await outcomes("sglang", wholes(damaged(written(NATIVE), 3, 500)), False)
    events = (sse([each]) for each in mutated(NATIVE))
    found += await outcomes("sglang", [Fault("wrong", 200, STREAM, each) for each in events], True)
    assert len(found) >= 1_400 and {"ok", "MalformedResponse"} <= set(found)


@counts(29, 5, "step")
async def test_litellm_answers_over_a_socket_are_typed(step: int) -> None:
    bodies = [*mutated(CHAT)]
    found = await outcomes("litellm", wholes(iter(bodies[::step])), False)
    assert len(found) >= 1000 / step and {"ok", "MalformedResponse"} <= set(found)


class Facts(FaultServer):
    """Says of itself what it is given, and nothing at all at *silent* paths."""

    said: Any = FACTS
    silent: frozenset[str] = frozenset()

    def _asked(self, link: Any, method: str, path: str, headers: Any, body: bytes) -> None:
        if path in self.silent:
            return
        if path in FACTS and path in self.said:
            head = f"HTTP/1.1 200 X\r\nContent-Length: {len(self.said[path])}\r\n\r\n"
            link.send(head.encode() + self.said[path], "whole")
            return
        super()._asked(link, method, path, headers, body)


async def test_what_a_server_says_of_itself_is_read_or_a_typed_error() -> None:
    right = {path: written(value) for path, value in FACTS.items()}
    number = 0
    with Facts() as server:
        wire = Wire(server.url, None, None, 4, 5.0)
        for path, value in FACTS.items():
            for body in mutated(value):
                server.said, number = {**right, path: body}, number + 1
                try:
                    await probe(wire)
                    await tokens_of(wire, "x")
                except BackendError:
                    pass
        await wire.aclose()
    assert number >= 600


# -- redirects


@pytest.mark.parametrize("client", ["openai", "litellm", "sglang"])
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_no_client_follows_a_redirect(client: str, stream: bool) -> None:
    with FaultServer() as other:
        for status in (301, 302, 303, 307, 308):
            for target in (f"{other.url}/v1/chat/completions?key={CANARY}", "/elsewhere"):
                fault = Fault("moved", status, {"Location": target}, b"")
                with FaultServer([fault], model_path=str(WEIGHTS)) as server:
                    async with closing(CLIENTS[client](server)) as backend:
                        model = "openai/fault" if client == "litellm" else "fault"
                        with pytest.raises(BackendRefused, match="not followed") as caught:
                            emit = (lambda chunk: None) if stream else None
                            await backend.complete(request("q", model=model), emit)
                said, port = str(caught.value), server.url.rpartition(":")[2]
                assert CANARY not in said and KEY not in said and port in said
                assert target.partition("?")[0] in said and len(server.asks) == 1
        assert not other.asks and not other.connections


@pytest.mark.parametrize("client", ["openai", "litellm", "sglang"])
async def test_no_library_tries_again_by_itself(client: str) -> None:
    failed = Fault("failed", 500, {**JSON, "x-should-retry": "true"}, b'{"error": {}}')
    with FaultServer(lambda ask: failed, model_path=str(WEIGHTS)) as server:
        async with closing(CLIENTS[client](server)) as backend:
            model = "openai/fault" if client == "litellm" else "fault"
            with pytest.raises(BackendError):
                await backend.complete(request("q", model=model), None)
        assert len(server.asks) == 1


# -- silence


@pytest.mark.parametrize("path", ["/model_info", "/server_info", "/tokenize", "/v1/models"])
def test_a_silent_probe_ends_at_the_deadline_of_the_call(path: str) -> None:
    @ppl
    def ask() -> str:
        "hello"
        return str(gen(timeout=1.0))

    with Facts(model_path=str(WEIGHTS)) as server:
        server.said, server.silent = {}, frozenset({path})
        with running(CLIENTS["sglang"](server)):
            since = time.monotonic()
            with pytest.raises(BackendTimeout):
                str(ask())
            assert time.monotonic() - since < 2.0


async def test_a_question_about_the_server_has_a_deadline_of_its_own() -> None:
    with Facts() as server:
        server.said, server.silent = {}, frozenset({"/model_info"})
        wire = Wire(server.url, None, None, 4, 5.0)
        since = time.monotonic()
        with pytest.raises(BackendTimeout, match="did not answer /model_info"):
            await wire.within(0.2, wire.exchange("GET", "/model_info", b""), "/model_info")
        assert time.monotonic() - since < 1.2
        await wire.aclose()


class Deaf:
    """A server that takes no more connections: the queue of those that wait is full."""

    def __enter__(self) -> str:
        self._listening = socket.socket()
        self._listening.bind(("127.0.0.1", 0))
        self._listening.listen(0)
        self._waiting = [socket.socket() for _ in range(4)]
        for each in self._waiting:
            each.setblocking(False)
            each.connect_ex(self._listening.getsockname())
        return f"http://127.0.0.1:{self._listening.getsockname()[1]}"

    def __exit__(self, *error: object) -> None:
        for each in (*self._waiting, self._listening):
            each.close()


@pytest.mark.parametrize("client", ["openai", "sglang"])
async def test_making_a_connection_has_a_deadline(client: str) -> None:
    with Deaf() as url:
        made: dict[str, Callable[[], Any]] = {
            "openai": lambda: OpenAI(base_url=f"{url}/v1", api_key=KEY, connect=0.3),
            "sglang": lambda: SGLang(url=url, connect_timeout=0.3),
        }
        async with closing(made[client]()) as backend, asyncio.timeout(8):
            with pytest.raises(BackendTimeout) as caught:
                await backend.complete(request("q"), None)
        assert caught.value.deadline == "connect"


# -- the seam


ONCE = Policy(retries=Retries(attempts=1, patience_s=0.0))


class Odd(Fake):
    """A backend of a user, whose answers have a wrong field."""

    wrong: Any = None

    async def complete(self, request: Request, emit: Any = None) -> Any:
        found = await super().complete(request, emit)
        return self.wrong(found) if callable(self.wrong) else self.wrong


def changed(**fields: Any) -> Callable[[Response], Response]:
    def change(found: Response) -> Response:
        for name, value in fields.items():
            holder = found if hasattr(found, name) and name != "text" else found.samples[0]
            object.__setattr__(holder, name, value)
        return found

    return change


WRONG: dict[str, Any] = {
    "nothing": None, "a number": 5, "a text": "text", "text": changed(text=5),
    "no samples": changed(samples=()), "samples": changed(samples=None),
    "count": changed(usage=Usage(1, 1, 2**70)),
    "usage of texts": changed(usage=Usage("1", 1)),  # type: ignore[arg-type]
    "usage": changed(usage=None), "cost": changed(cost=2**70), "model": changed(model=5),
    "logprobs": changed(logprobs=5), "scores": changed(scores=(float("nan"),)),
    "finish_reason": changed(finish_reason=None), "tool_calls": changed(tool_calls=(5,)),
}  # fmt: skip


@pytest.mark.parametrize("wrong", WRONG)
def test_no_backend_stops_a_run_by_its_answer(wrong: str) -> None:
    @ppl
    def ask(word: str) -> str:
        f"{word}"
        return str(gen())

    backend = Odd(lambda request: "fine")
    with running(backend, policy=ONCE):
        backend.wrong = WRONG[wrong]
        with pytest.raises(MalformedResponse, match="an answer that is none"):
            str(ask("one"))
        backend.wrong = lambda found: found
        assert str(ask("two")) == "fine"


def test_an_answer_is_checked_once_unless_it_was_changed() -> None:
    right = checked(Response((Sample("a", "stop"),)))
    check_response(right, "server")
    wrong: Any = 5
    for changes in ({"model": wrong}, {"samples": (Sample(wrong, "stop"),)}, {"cost": -1}):
        with pytest.raises(MalformedResponse):
            check_response(replace(right, **changes), "server")


def test_an_answer_that_a_backend_of_a_user_gives_twice_is_checked_twice() -> None:
    calls: Any = []
    given = Response((Sample("a", "stop", tool_calls=calls),))
    check_response(given, "server")
    calls.append(5)
    with pytest.raises(MalformedResponse, match="a tool call must be a ToolCall"):
        check_response(given, "server")


# -- encoding


@pytest.mark.parametrize("client", ["openai", "litellm", "sglang"])
async def test_a_compressed_answer_is_refused_by_every_client(client: str) -> None:
    right = NATIVE if client == "sglang" else CHAT
    faults = [
        Fault(coding, 200, {**JSON, "Content-Encoding": coding}, packed)
        for coding, packed in (
            ("gzip", gzip.compress(written(right))), ("deflate", zlib.compress(written(right))),
        )
    ]  # fmt: skip
    assert set(await outcomes(client, faults, False)) == {"MalformedResponse"}


# -- size


def peak_mb() -> float:
    """The most memory of this process since ``clear_refs``."""
    found = re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1]) / 1024


@pytest.mark.parametrize("client", ["openai", "litellm", "sglang"])
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_a_body_is_read_up_to_the_limit_and_no_further(client: str, stream: bool) -> None:
    long = Fault("long", 200, STREAM if stream else JSON, b'{"choices": "' + b"x" * (17 << 20))
    with FaultServer([long], model_path=str(WEIGHTS)) as server:
        async with closing(CLIENTS[client](server)) as backend:
            model = "openai/fault" if client == "litellm" else "fault"
            with pytest.raises(MalformedResponse, match="an answer of more than 16 MiB"):
                emit = (lambda chunk: None) if stream else None
                await backend.complete(request("q", model=model), emit)


@pytest.mark.parametrize("client", ["openai", "litellm", "sglang"])
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_a_long_body_is_refused_within_bounded_memory(client: str, stream: bool) -> None:
    long = b'{"choices": "' + b"x" * (20 << 20)
    many = b"[" + b"[]," * 3_000_000 + b"1]"
    failed = json.dumps({"error": {"message": f"{CANARY} " * 100_000}}).encode()
    kind = STREAM if stream else JSON
    faults = [
        Fault("first", 500, JSON, b"{}"), Fault("long", 200, kind, long),
        Fault("many", 200, kind, many), Fault("failed", 400, JSON, failed),
    ]  # fmt: skip
    await outcomes(client, faults[:1], stream)
    Path("/proc/self/clear_refs").write_text("5")
    idle = peak_mb()
    found = await outcomes(client, faults[1:], stream)
    assert found == ["MalformedResponse", "MalformedResponse", "BackendRefused"]
    assert peak_mb() - idle < 200
