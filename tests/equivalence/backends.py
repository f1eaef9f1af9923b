"""Backends that answer as ``model`` does, in whatever order and pieces a seed picks."""

from __future__ import annotations

import asyncio
import json
import random
from typing import Any

from appl.backend import Chunk, Emit, Profile, Request, Response, Sample, Usage
from appl.errors import BackendError
from appl.prompt import Message, ToolCall as Called

from . import model
from .layout import Msg, ToolCall
from .plain import Asked

POOR = frozenset({"tools", "images", "audio"})
ABLE = POOR | {"choices", "schema", "n", "prefill", "stream", "reasoning"}


def msg_of(message: Message) -> Msg:
    """A message as plain Python notes it."""
    media = tuple((at, medium.data) for at, medium in message.media)
    calls = tuple(ToolCall(call.id, call.name, call.arguments) for call in message.tool_calls)
    return Msg(
        message.role, message.content, message.name, media, calls, message.tool_call_id,
        message.has_error,
    )  # fmt: skip


def asked_of(request: Request, edges: tuple[str, ...]) -> Asked:
    """A request as plain Python notes it."""
    messages = tuple(map(msg_of, request.messages or ()))
    names = ("temperature", "max_tokens", "stop", "choices", "schema", "tool_choice")
    sampling = {name: value for name in names if (value := getattr(request.sampling, name))}
    if request.sampling.tools:
        sampling["tools"] = tuple(json.loads(tool)["name"] for tool in request.sampling.tools)
    return Asked(request.ordinal, messages, sampling, edges, request.n)


class Hurried:
    """Answers each call after a number of turns of the loop drawn from a seed."""

    def __init__(
        self, seed: int, concurrency: int | None = None, turns: int = 20, able: bool = True
    ) -> None:
        self.profile = Profile("fake", ABLE if able else POOR, concurrency=concurrency)
        self.random, self.turns, self.able = random.Random(seed), turns, able
        self.running: set[str] = set()

    async def complete(self, request: Request, emit: Emit | None = None) -> Response:
        name = f"{request.address}#{request.sample}"
        self.running.add(name)
        try:
            return await self.answer(request, emit)
        finally:
            self.running.discard(name)

    async def answer(self, request: Request, emit: Emit | None) -> Response:
        await self.pause(request)
        asked = asked_of(request, ())
        numbers = range(request.sample, request.sample + request.n)
        try:
            replies = [model.reply(asked.messages, asked.sampling, number) for number in numbers]
        except BackendError:
            await self.stream(request, emit, model.REFUSAL)
            raise
        await self.stream(request, emit, replies[0].text)
        used = len(replies) * len(asked.messages), sum(len(reply.text) for reply in replies)
        return Response(tuple(map(sample_of, replies)), Usage(*used))

    async def stream(self, request: Request, emit: Emit | None, text: str) -> None:
        """Pass on *text* in pieces, if that is wanted."""
        for piece in model.pieces(text) if emit is not None and self.able else ():
            assert emit is not None
            emit(Chunk(request.sample, piece))
            await self.pause(request)

    async def pause(self, request: Request) -> None:
        for _ in range(self.random.randrange(self.turns)):
            await asyncio.sleep(0)

    async def aclose(self) -> None:
        pass


def sample_of(reply: model.Reply) -> Sample:
    calls = tuple(Called(*call) for call in reply.calls)
    return Sample(reply.text, reply.finish, tool_calls=calls, reasoning=reply.thoughts)


class Shuffled(Hurried):
    """Holds all calls; whenever no program can go on, releases one drawn from the seed."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.held: dict[str, asyncio.Future[None]] = {}

    async def pause(self, request: Request) -> None:
        name = f"{request.address}#{request.sample}"
        gate = self.held[name] = asyncio.get_running_loop().create_future()
        try:
            await gate
        finally:
            del self.held[name]

    def on_idle(self, final: bool = True) -> bool:
        waiting = sorted(name for name, gate in self.held.items() if not gate.done())
        if waiting:
            self.held[self.random.choice(waiting)].set_result(None)
        return bool(waiting)
