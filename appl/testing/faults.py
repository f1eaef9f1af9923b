"""An HTTP server that fails on demand, to test clients and programs against bad networks.

A ``FaultServer`` answers like an OpenAI-compatible server (``/v1/chat/completions``,
``/v1/embeddings``) and like SGLang (``/generate``), streamed or not, on a free port of the loopback
interface, from a thread with a loop of its own. Before each answer it asks its script which fault
to inject::

    with FaultServer(drawn(seed=1, share=0.5)) as server:
        with running(OpenAI(base_url=server.openai_url)):
            assert ask("…") == server.answer("…")
    assert set(server.answered.values()) == {1}          # no call was answered twice

Invariant: an answer depends on the question alone, never on the clock; nothing sleeps.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import json
import random
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from email.utils import formatdate
from typing import Any, Literal, Self

from appl.testing.vectors import bag_of_words

__all__ = ["FAULTS", "Ask", "Fault", "FaultServer", "drawn"]

End = Literal["whole", "close", "reset", "hang"]


@dataclass(frozen=True, slots=True)
class Fault:
    """One way in which an HTTP server fails.

    It answers with *status*, *headers* and *body*; without a body, with the first *share* of the
    right answer (0: not even a status line). Then it *ends*: normally (``whole``), by closing or
    resetting the connection, or not at all (``hang``). ``spoilt`` changes the right answer itself:
    ``empty`` leaves out the choices, ``endless`` the finish reason and what else would tell that
    it is whole: the end mark of a stream, else the text; ``error`` puts an error into it, ``cut``
    ends a stream properly, but early, else the JSON of the body. ``dated`` adds ``Retry-After`` as
    an HTTP date that is now.
    """

    name: str
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    share: float = 1.0
    ends: End = "whole"
    spoilt: Literal["", "empty", "endless", "error", "cut"] = ""
    dated: bool = False


def _busy(name: str, headers: Mapping[str, str], message: str = "slow down") -> Fault:
    body = json.dumps({"error": {"message": message, "code": "rate_limit_exceeded"}}).encode()
    return Fault(f"429 {name}", 429, headers, body, dated=name == "date")


def _broken(status: int, headers: Mapping[str, str] | None = None) -> Fault:
    name = f"{status} {'with Retry-After' if headers else ''}".strip()
    return Fault(name, status, headers or {}, b'{"error": {"message": "it failed inside"}}')


_PAGE = b"<!DOCTYPE html><html><head><title>Sign in</title></head><body>Sign in</body></html>"

FAULTS: tuple[Fault, ...] = (
    _busy("bare", {}),
    _busy("seconds", {"Retry-After": "0"}),
    _busy("fraction", {"Retry-After": "0.002"}),
    _busy("date", {}),
    _busy("milliseconds", {"retry-after-ms": "2"}),
    _busy("reset", {"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "2ms"}),
    _busy("in words", {}, "Rate limit reached. Please try again in 2ms."),
    _broken(500),
    _broken(502),
    _broken(503),
    _broken(503, {"Retry-After": "0"}),
    _broken(504),
    _broken(529),
    Fault("reset before", share=0.0, ends="reset"),
    Fault("closed before", share=0.0, ends="close"),
    Fault("reset during", share=0.6, ends="reset"),
    Fault("closed during", share=0.6, ends="close"),
    Fault("half a head", share=0.02, ends="close"),
    Fault("cut", spoilt="cut"),
    Fault("page", headers={"Content-Type": "text/html"}, body=_PAGE),
    Fault("bad json", headers={"Content-Type": "application/json"}, body=b'{"id": "x", "cho'),
    Fault("nothing", headers={"Content-Type": "application/json"}, body=b""),
    Fault("no choices", spoilt="empty"),
    Fault("no finish reason", spoilt="endless"),
    Fault("error inside", spoilt="error"),
    Fault("slow head", share=0.0, ends="hang"),
    Fault("idle tokens", share=0.6, ends="hang"),
)
"""Every fault that a client may meet; after each, the same request can be sent again."""


@dataclass(frozen=True, slots=True)
class Ask:
    """A request as the server sees it; ``question`` is the same in every attempt at one call."""

    number: int
    path: str
    headers: Mapping[str, str]
    data: Any
    question: str

    @property
    def streams(self) -> bool:
        """True if the client wants a streamed answer."""
        return isinstance(self.data, dict) and bool(self.data.get("stream"))


Script = Callable[[Ask], Fault | None]


def drawn(seed: int, share: float, faults: Iterable[Fault] = FAULTS) -> Script:
    """A script that injects one of *faults* into *share* of all requests, drawn by *seed*."""
    among = tuple(faults)

    def script(ask: Ask) -> Fault | None:
        draw = random.Random(f"{seed}:{ask.number}")
        return draw.choice(among) if draw.random() < share else None

    return script


def echo(question: str) -> str:
    """The default answer: words made of a digest of the question."""
    digits = hashlib.blake2b(question.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
    return f"the answer is {digits[:8]} and {digits[8:]}"


class FaultServer:
    """The server; *script* gives the fault of every request by its number: a list will do.

    *answer* makes the text of an answer from the question. *outages* are numbers of requests at
    which the server dies with all its connections; after *outage_s* seconds it is back.
    *model_path* is the path of the tokenizer that SGLang's clients get, and *encode* makes the ids
    in their answers. ``answered`` counts the whole answers by question, ``embedded`` the texts that
    got a vector, which *vector* makes, ``injected`` the faults by name, ``connections`` the opened
    connections.
    """

    def __init__(
        self,
        script: Script | Iterable[Fault | None] = (),
        *,
        answer: Callable[[str], str] = echo,
        outages: Iterable[int] = (),
        outage_s: float = 0.02,
        model: str = "fault",
        model_path: str = "",
        encode: Callable[[str], list[int]] = lambda text: list(text.encode()),
        vector: Callable[[str], list[float]] = bag_of_words,
    ) -> None:
        self._script = script if callable(script) else _listed(script)
        self.answer, self.encode, self.vector = answer, encode, vector
        self.model, self.model_path = model, model_path
        self._outages, self._outage_s = frozenset(outages), outage_s
        self.asks: list[Ask] = []
        self.answered: Counter[str] = Counter()
        self.embedded: Counter[str] = Counter()
        self.injected: Counter[str] = Counter()
        self.deaths = self.connections = 0
        self._links: set[_FaultyConnection] = set()
        self._loop = asyncio.new_event_loop()
        self._server: asyncio.Server | None = None
        self._port = 0

    @property
    def url(self) -> str:
        """The server's URL for SGLang's clients."""
        return f"http://127.0.0.1:{self._port}"

    @property
    def openai_url(self) -> str:
        """The ``base_url`` for OpenAI's clients."""
        return f"{self.url}/v1"

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._loop.run_forever, name="faults", daemon=True)
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result()
        return self

    def __exit__(self, *error: object) -> None:
        self.kill()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def kill(self) -> None:
        """Die: stop listening, and reset every connection."""
        asyncio.run_coroutine_threadsafe(_called(self._die), self._loop).result()

    def revive(self) -> None:
        """Listen again, at the same port."""
        asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result()

    # -- on its loop

    async def _listen(self) -> None:
        if self._server is None:
            self._server = await self._loop.create_server(
                lambda: _FaultyConnection(self), "127.0.0.1", self._port, backlog=4096
            )
            self._port = self._server.sockets[0].getsockname()[1]

    def _die(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
        for link in list(self._links):
            link.reset()

    def _outage(self) -> None:
        self.deaths += 1
        self._die()
        self._loop.call_later(self._outage_s, lambda: self._loop.create_task(self._listen()))

    def _asked(
        self,
        link: _FaultyConnection,
        method: str,
        path: str,
        headers: Mapping[str, str],
        body: bytes,
    ) -> None:
        if method == "GET" or path in ("/abort_request", "/tokenize"):
            link.send(_json(self._facts(path)), "whole")
            return
        data = json.loads(body)
        ask = Ask(len(self.asks), path, headers, data, _question(data))
        self.asks.append(ask)
        if ask.number in self._outages:
            self._outage()
            return
        fault = self._script(ask)
        if fault is None:
            self.answered[ask.question] += 1
            if path.endswith("/embeddings"):
                self.embedded.update(data["input"])
        else:
            self.injected[fault.name] += 1
        link.send(*_reply(self, ask, fault))

    def _facts(self, path: str) -> Any:
        """The server's answer to questions about itself."""
        if path == "/v1/models":
            return {"object": "list", "data": [{"id": self.model, "object": "model"}]}
        if path in ("/model_info", "/get_model_info"):
            return {"model_path": self.model_path or self.model, "is_generation": True}
        if path in ("/server_info", "/get_server_info"):
            return {
                "version": "0.5.17",
                "served_model_name": self.model,
                "disable_radix_cache": False,
                "max_total_num_tokens": 100_000,
                "incremental_streaming_output": False,
            }
        return {}


async def _called(action: Callable[[], None]) -> None:
    action()


def _listed(faults: Iterable[Fault | None]) -> Script:
    remaining = iter(list(faults))
    return lambda _: next(remaining, None)


def _question(data: object) -> str:
    """The question, the same in every attempt: the last message, or the ids of the prompt."""
    if isinstance(data, dict) and data.get("messages"):
        content = data["messages"][-1].get("content")
        return content if isinstance(content, str) else json.dumps(content)
    if isinstance(data, dict) and isinstance(data.get("input"), list):
        return json.dumps(data["input"])
    if isinstance(data, dict) and "input_ids" in data:
        return json.dumps(data["input_ids"])
    return str(data.get("text", "")) if isinstance(data, dict) else ""


# -- what is sent


def _reply(server: FaultServer, ask: Ask, fault: Fault | None) -> tuple[bytes, End]:
    """The bytes to send, and the end of the connection."""
    if fault is not None and fault.body is not None:
        headers = dict(fault.headers)
        if fault.dated:
            headers["Retry-After"] = formatdate(time.time(), usegmt=True)
        return _http(fault.status, fault.body, headers), fault.ends
    spoilt = fault.spoilt if fault is not None else ""
    shape = _generate if ask.path == "/generate" else _chat
    shape = _embeddings if ask.path.endswith("/embeddings") else shape
    whole = shape(server, ask, spoilt)
    if fault is None:
        return whole, "whole"
    return whole[: int(len(whole) * fault.share)], fault.ends


def _http(status: int, body: bytes, headers: Mapping[str, str] | None = None) -> bytes:
    named = {"Content-Type": "application/json", **(headers or {}), "Content-Length": len(body)}
    head = "".join(f"{name}: {value}\r\n" for name, value in named.items())
    return f"HTTP/1.1 {status} X\r\n{head}\r\n".encode() + body


def _json(value: object, cut: bool = False) -> bytes:
    body = json.dumps(value).encode()
    return _http(200, body[: len(body) // 2] if cut else body)


def _events(events: list[Any], done: bool = True) -> bytes:
    """A stream of server-sent events, each a chunk of its own."""
    texts = [f"data: {json.dumps(event)}\n\n" for event in events]
    texts += ["data: [DONE]\n\n"] if done else []
    chunks = b"".join(b"%x\r\n%b\r\n" % (len(text), text.encode()) for text in texts)
    head = (
        b"HTTP/1.1 200 X\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    return head + chunks + b"0\r\n\r\n"


_ERROR = {"error": {"message": "it failed inside", "type": "server_error", "code": 500}}


def _pieces(text: str) -> list[str]:
    words = text.split(" ")
    return [word if not number else f" {word}" for number, word in enumerate(words)]


def _chat(server: FaultServer, ask: Ask, spoilt: str) -> bytes:
    """OpenAI's chat completion."""
    text, wanted = server.answer(ask.question), ask.data.get("n") or 1
    usage = {
        "prompt_tokens": 8,
        "completion_tokens": len(_pieces(text)) * wanted,
        "total_tokens": 0,
        "prompt_tokens_details": {"cached_tokens": 0},
    }
    common = {"id": f"chatcmpl-{ask.number}", "created": 0, "model": server.model}
    if ask.streams:
        return _chat_stream(
            text, wanted, {**common, "object": "chat.completion.chunk"}, usage, spoilt
        )
    if spoilt == "error":
        return _json(_ERROR)
    ended = None if spoilt == "endless" else "stop"
    content = "" if spoilt == "endless" else text
    message = {"role": "assistant", "content": content}
    scored = _logprobs(_pieces(content)) if ask.data.get("logprobs") else None
    choices = [
        {"index": index, "message": message, "finish_reason": ended, "logprobs": scored}
        for index in range(0 if spoilt == "empty" else wanted)
    ]
    answer = {**common, "object": "chat.completion", "choices": choices, "usage": usage}
    return _json(answer, cut=spoilt == "cut")


def _logprobs(pieces: Iterable[str]) -> dict[str, Any]:
    return {"content": [{"token": token, "logprob": -1.0, "top_logprobs": []} for token in pieces]}


def _chat_stream(
    text: str, wanted: int, common: Mapping[str, object], usage: Mapping[str, object], spoilt: str
) -> bytes:
    events: list[dict[str, Any]] = []
    pieces = _pieces(text)
    for index in range(0 if spoilt == "empty" else wanted):
        deltas = [{"role": "assistant", "content": ""}, *({"content": piece} for piece in pieces)]
        ends = [None] * len(deltas) + ["stop"]
        for delta, end in zip([*deltas, {}], ends, strict=True):
            choice = {"index": index, "delta": delta, "finish_reason": end, "logprobs": None}
            events.append({**common, "choices": [choice]})
    if spoilt == "endless":
        open_ones = (event for event in events if event["choices"][0]["finish_reason"] is None)
        return _events([*open_ones, {**common, "choices": [], "usage": usage}], done=False)
    if spoilt in ("cut", "error"):
        events = events[: len(events) // 2] + ([_ERROR] if spoilt == "error" else [])
        return _events(events, done=False)
    return _events([*events, {**common, "choices": [], "usage": usage}])


def _embeddings(server: FaultServer, ask: Ask, spoilt: str) -> bytes:
    """OpenAI's embeddings, as base64 of 32-bit floats where that is asked for."""
    if spoilt == "error":
        return _json(_ERROR)
    vectors = [server.vector(text)[: ask.data.get("dimensions")] for text in ask.data["input"]]
    data = [
        {"object": "embedding", "index": index, "embedding": _written(vector, ask.data)}
        for index, vector in enumerate(vectors if spoilt in ("", "cut") else ())
    ]
    tokens = sum(len(text.split()) for text in ask.data["input"])
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    answer = {"object": "list", "data": data, "model": server.model, "usage": usage}
    return _json(answer, cut=spoilt == "cut")


def _written(vector: list[float], data: Mapping[str, Any]) -> list[float] | str:
    if data.get("encoding_format") != "base64":
        return vector
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()


def _generate(server: FaultServer, ask: Ask, spoilt: str) -> bytes:
    """SGLang's own interface, whose streams repeat the whole text every time."""
    text = server.answer(ask.question)
    if spoilt == "error":
        return _events([_ERROR], done=False) if ask.streams else _json(_ERROR)
    if not ask.streams:
        answer = _native(server, ask, "" if spoilt == "endless" else text, spoilt != "endless")
        return _json([] if spoilt == "empty" else answer, cut=spoilt == "cut")
    pieces = _pieces(text)
    beginnings = ["".join(pieces[:count]) for count in range(1, len(pieces) + 1)]
    events = [
        _native(server, ask, beginning, beginning == text and not spoilt)
        for beginning in beginnings
    ]
    if spoilt in ("cut", "empty", "endless"):
        count = {"cut": len(events) // 2, "empty": 0, "endless": len(events)}[spoilt]
        return _events(events[:count], done=False)
    return _events(events)


def _native(server: FaultServer, ask: Ask, text: str, ended: bool) -> dict[str, Any]:
    ids = server.encode(text)
    meta = {
        "id": str(ask.data.get("rid") or ask.number),
        "prompt_tokens": 8,
        "completion_tokens": len(ids),
        "cached_tokens": 0,
        "e2e_latency": 0.0,
        "finish_reason": {"type": "stop", "matched": None} if ended else None,
    }
    return {"text": text, "output_ids": ids, "meta_info": meta}


# -- how it is sent


class _FaultyConnection(asyncio.Protocol):
    """One connection: requests come one after the other, each with its length."""

    def __init__(self, server: FaultServer) -> None:
        self._server = server
        self._came = b""
        self._transport: asyncio.Transport | None = None
        self._hangs = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._server.connections += 1
        self._server._links.add(self)

    def connection_lost(self, error: Exception | None) -> None:
        self._server._links.discard(self)

    def data_received(self, data: bytes) -> None:
        self._came += data
        while not self._hangs:
            head, end, rest = self._came.partition(b"\r\n\r\n")
            if not end:
                return
            first, *lines = head.decode("latin-1").split("\r\n")
            headers = {
                name.lower(): value.strip()
                for name, _, value in (line.partition(":") for line in lines)
            }
            length = int(headers.get("content-length", "0"))
            if len(rest) < length:
                return
            self._came = rest[length:]
            method, path, _ = first.split(" ")
            self._server._asked(self, method, path.partition("?")[0], headers, rest[:length])

    def send(self, data: bytes, ends: End) -> None:
        """Send *data*, then end the connection as *ends* says."""
        if self._transport is None or self._transport.is_closing():
            return
        self._transport.write(data)
        if ends == "close":
            self._transport.close()
        elif ends == "reset":
            self.reset()
        self._hangs = ends != "whole"

    def reset(self) -> None:
        """Break the connection off, so that the other side sees a reset."""
        if self._transport is None:
            return
        linked = self._transport.get_extra_info("socket")
        with contextlib.suppress(OSError):
            linked.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._transport.abort()
