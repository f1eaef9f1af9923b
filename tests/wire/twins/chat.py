"""A server that speaks OpenAI's chat interface: how it hears, refuses, fails and answers.

Each kind of server is a subclass with its rules, and with what its answers have of their own.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

from appl.testing import Fault
from appl.testing.faults import Ask

from .model import GO_ON, MARK, Call, Heard, Model, Said, pieces, written
from .rules import Asked, Refusal, Rule, first_refusal, parts_of

JSON = {"Content-Type": "application/json"}
STREAM = {"Content-Type": "text/event-stream"}
Key = tuple[str, int]
"""A question: its mark, and the number of messages that called tools since that."""


class Twin:
    """Refuses, fails and answers as a server does; what it said stands in ``said`` by question.

    *failing* is the share of questions whose first attempt fails. ``refused`` are the requests that
    the real one would refuse, ``asked`` counts the others by question, ``failed`` the failures.
    """

    name = ""
    rules: tuple[Rule, ...] = ()
    thinks = False
    cuts = True
    """True if it passes on arguments of calls that are no JSON."""

    def __init__(self, seed: int = 0, failing: float = 0.05) -> None:
        self.model = Model(seed, thinks=self.thinks, cuts=self.cuts)
        self.failing = failing
        self.said: dict[Key, list[Said]] = {}
        self.heard: dict[Key, Heard] = {}
        self.asked: Counter[Key] = Counter()
        self.failed: Counter[Key] = Counter()
        self.refused: list[tuple[Refusal, Asked]] = []

    def __call__(self, ask: Ask) -> Fault:
        """The answer to a request."""
        asked = Asked(ask.data, ask.path, ask.headers)
        refusal = first_refusal(self.rules, asked)
        if refusal is not None:
            self.refused.append((refusal, asked))
            return self.refuse(refusal)
        heard = self.hear(asked)
        key = heard.mark, heard.step
        self.asked[key] += 1
        self.heard[key] = heard
        draw = self.model.draw(heard, "failure")
        if self.asked[key] == 1 and draw.random() < self.failing:
            self.failed[key] += 1
            return self.fail(heard, draw)
        said = self.said[key] = self.model.answers(heard)
        return self.answer(heard, said, self.model.draw(heard, "style"))

    def forget(self) -> None:
        """Forget all questions."""
        for each in (self.said, self.heard, self.asked, self.failed):
            each.clear()

    def hear(self, asked: Asked) -> Heard:
        raise NotImplementedError

    def refuse(self, refusal: Refusal) -> Fault:
        raise NotImplementedError

    def fail(self, heard: Heard, draw: random.Random) -> Fault:
        """A failure that passes; a stream breaks off before it has any text."""
        found = self.failures()
        return draw.choice(found + self.broken_streams() if heard.streams else found)

    def failures(self) -> list[Fault]:
        raise NotImplementedError

    def broken_streams(self) -> list[Fault]:
        """Streams that break off."""
        return [Fault("cut", 200, STREAM, b": wait\n\n", ends="close")]

    def answer(self, heard: Heard, said: list[Said], draw: random.Random) -> Fault:
        raise NotImplementedError


def json_fault(status: int, payload: Any, **headers: str) -> Fault:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Fault(f"{status}", status, {**JSON, **named}, json.dumps(payload).encode())


class ChatTwin(Twin):
    """A server with OpenAI's chat interface."""

    model_name = "m"
    continues = False
    """True if it goes on from text of the assistant by itself, or when a field asks for it."""
    echoes_begun = False
    """True if its answer repeats the text that it went on from."""
    reasoning_field = "reasoning_content"
    done = True

    # -- how it hears

    def hear(self, asked: Asked) -> Heard:
        body = asked.body
        heard = Heard(streams=bool(body.get("stream")), n=body.get("n") or 1)
        for message in asked.messages:
            self._hear(message, heard)
        heard.tools = asked.tools
        choice = body.get("tool_choice") or "auto"
        heard.choice = choice["function"]["name"] if isinstance(choice, dict) else choice
        format = body.get("response_format") or {}
        heard.schema = (format.get("json_schema") or {}).get("schema")
        heard.any_object = format.get("type") == "json_object"
        stop = body.get("stop") or []
        heard.stop = [stop] if isinstance(stop, str) else stop
        heard.logprobs = bool(body.get("logprobs"))
        heard.regex = self.regex_of(body)
        self._hear_begun(asked, heard)
        return heard

    def _hear(self, message: dict[str, Any], heard: Heard) -> None:
        for part in parts_of(message):
            if part.get("type") == "text":
                heard.texts.append(part["text"])
                if message["role"] == "user":
                    heard.note_mark(part["text"])
            elif part.get("type") == "image_url":
                heard.images += 1
        for call in message.get("tool_calls") or ():
            heard.calls.append((call["function"]["name"], call["function"]["arguments"]))
        heard.step += bool(message.get("tool_calls"))

    def _hear_begun(self, asked: Asked, heard: Heard) -> None:
        last = asked.messages[-1]
        text = "".join(part.get("text", "") for part in parts_of(last))
        if last["role"] == "assistant" and not last.get("tool_calls"):
            heard.begun = text
        elif text.startswith(GO_ON) and len(asked.messages) > 1:
            begun = asked.messages[-2]
            heard.begun = "".join(part.get("text", "") for part in parts_of(begun))
            heard.told = True

    def regex_of(self, body: dict[str, Any]) -> str | None:
        found = body.get("regex")
        return found if isinstance(found, str) else None

    # -- how it refuses and fails

    def refuse(self, refusal: Refusal) -> Fault:
        about = {"param": None, "code": None, **refusal.rule.about}
        error = {"message": refusal.message, "type": "invalid_request_error", **about}
        return json_fault(refusal.rule.status, {"error": error})

    def failures(self) -> list[Fault]:
        busy = {"error": {"message": "Rate limit reached", "code": "rate_limit_exceeded"}}
        inside = {"error": {"message": "The server had an error", "type": "server_error"}}
        return [
            json_fault(429, busy, retry_after_ms="1"),
            json_fault(429, busy, Retry_After="0"),
            json_fault(500, inside),
            json_fault(503, {"error": {"message": "overloaded"}}),
        ]

    # -- how it answers

    def answer(self, heard: Heard, said: list[Said], draw: random.Random) -> Fault:
        if self.echoes_begun and heard.begun is not None and not heard.told:
            said = [self._with_begun(each, heard.begun) for each in said]
        if heard.streams:
            return Fault("stream", 200, STREAM, self.stream(heard, said, draw))
        return Fault("whole", 200, JSON, self.whole(heard, said, draw))

    def _with_begun(self, said: Said, begun: str) -> Said:
        return Said(said.text, begun + said.raw, said.calls, said.finish, said.reasoning)

    def common(self, draw: random.Random) -> dict[str, Any]:
        """The fields of each answer, and of each chunk."""
        return {
            "id": f"chatcmpl-{draw.randrange(16**12):x}",
            "created": 1,
            "model": self.model_name,
        }

    def whole(self, heard: Heard, said: list[Said], draw: random.Random) -> bytes:
        choices = [self.choice(at, each, heard, draw) for at, each in enumerate(said)]
        found = {**self.common(draw), "object": "chat.completion", "choices": choices}
        found["usage"] = self.usage(said, draw)
        return json.dumps(found, ensure_ascii=draw.random() < 0.5).encode()

    def choice(self, at: int, said: Said, heard: Heard, draw: random.Random) -> dict[str, Any]:
        found: dict[str, Any] = {"index": at, "message": self.message(said, heard, draw)}
        found["finish_reason"] = self.finish(said)
        found["logprobs"] = logprobs([said.raw]) if heard.logprobs else None
        return found

    def message(self, said: Said, heard: Heard, draw: random.Random) -> dict[str, Any]:
        found: dict[str, Any] = {"role": "assistant", "content": said.raw}
        if said.calls:
            found["content"] = said.raw or None
            found["tool_calls"] = [
                self.call(at, call, heard, draw) for at, call in enumerate(said.calls)
            ]
        if said.reasoning is not None:
            found[self.reasoning_field] = said.reasoning
        return found

    def call(self, at: int, call: Call, heard: Heard, draw: random.Random) -> dict[str, Any]:
        function = {"name": call.name, "arguments": arguments(call, draw)}
        return {"id": self.call_id(at, heard, draw), "type": "function", "function": function}

    def call_id(self, at: int, heard: Heard, draw: random.Random) -> str:
        return f"call_{draw.randrange(16**12):012x}{heard.mark.strip('#')}"[:29]

    def finish(self, said: Said) -> str | None:
        return said.finish

    def usage(self, said: list[Said], draw: random.Random) -> Any:
        tokens = sum(len(each.raw) for each in said) // 4 + 1
        return {"prompt_tokens": 9, "completion_tokens": tokens, "total_tokens": 9 + tokens}

    # -- how it streams

    def stream(self, heard: Heard, said: list[Said], draw: random.Random) -> bytes:
        common = {**self.common(draw), "object": "chat.completion.chunk"}
        found = b""
        for event in self.events(heard, said, draw):
            found += event if isinstance(event, bytes) else sse({**common, **event})
        return found + (b"data: [DONE]\n\n" if self.done else b"")

    def events(
        self, heard: Heard, said: list[Said], draw: random.Random
    ) -> Iterator[dict[str, Any] | bytes]:
        """The chunks, without what is common to them; bytes are sent as they are."""
        for at, each in enumerate(said):
            deltas = list(self.deltas(each, heard, draw))
            for delta in deltas:
                yield {"choices": [self.chunk(at, delta, None, heard)]}
            yield {"choices": [self.chunk(at, {}, self.finish(each), heard)]}
        yield {"choices": [], "usage": self.usage(said, draw)}

    def chunk(
        self, at: int, delta: dict[str, Any], finish: str | None, heard: Heard
    ) -> dict[str, Any]:
        scored = logprobs([delta["content"]]) if heard.logprobs and delta.get("content") else None
        return {"index": at, "delta": delta, "finish_reason": finish, "logprobs": scored}

    def deltas(self, said: Said, heard: Heard, draw: random.Random) -> Iterator[dict[str, Any]]:
        yield {"role": "assistant", "content": ""}
        if said.reasoning is not None:
            for piece in pieces(said.reasoning, draw):
                yield {self.reasoning_field: piece}
        for piece in pieces(said.raw, draw):
            yield {"content": piece}
        for each in self.call_pieces(said, heard, draw):
            yield {"tool_calls": [each]}

    def call_pieces(
        self, said: Said, heard: Heard, draw: random.Random
    ) -> Iterator[dict[str, Any]]:
        """The pieces of calls, as OpenAI sends them."""
        for at, each in enumerate(said.calls):
            call = self.call(at, each, heard, draw)
            text = call["function"]["arguments"]
            first = {**call, "index": at, "function": {"name": each.name, "arguments": ""}}
            yield first
            for piece in pieces(text, draw):
                yield {"index": at, "function": {"arguments": piece}}


def sse(data: Any, kind: str = "") -> bytes:
    head = f"event: {kind}\n" if kind else ""
    return f"{head}data: {json.dumps(data, ensure_ascii=False)}\n\n".encode()


def logprobs(tokens: list[str]) -> dict[str, Any]:
    found = [{"token": each, "logprob": -0.5, "bytes": None, "top_logprobs": []} for each in tokens]
    return {"content": found, "refusal": None}


def arguments(call: Call, draw: random.Random) -> str:
    """The arguments of *call* as a model writes them; nothing, or an empty object, for none."""
    if isinstance(call.arguments, str):
        return call.arguments
    return written(call.arguments, draw) if call.arguments else draw.choice(["{}", "", "{ }"])


__all__ = ["MARK", "ChatTwin", "Twin", "arguments", "json_fault", "logprobs", "sse"]
